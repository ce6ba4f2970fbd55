//! Taking locks, giving them back, and looking at them.

use axum::http::{HeaderName, HeaderValue, StatusCode};

use holdfast_api::{
    AcquireParams, BreakParams, FENCING_TOKEN, GrantBody, HOLDFAST_ENTRIES_LEFT, ListParams,
    LockBody, LocksBody, PolicyBody, PolicyParams, ReadParams, ReleaseParams, Sort, TermsParams,
};
use holdfast_service::{Granted, LockFilter, Response, session_or_anonymous};
use holdfast_types::{
    Acquire, Data, LockName, Owner, PolicyChange, Release, ReleaseTarget, Released,
};

use crate::call::{CallContext, read_mode};
use crate::reply::Reply;
use crate::sse::accepts_events;
use crate::status::{HttpError, of_refusal};
use crate::{acquiring, custody, explain};

pub(crate) const LOCKS: &str = "/v1/locks/";

/// `PUT /v1/locks/{name}`
pub(crate) async fn acquire(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock(LOCKS)?;
    let fields = call.fields(&AcquireParams::KEYS)?;
    let params = AcquireParams::parse(&fields).map_err(of_refusal)?;
    call.log_fields.session.clone_from(&params.session);
    call.log_fields.wait = params.wait;
    let for_connection = params.for_connection;
    let whole = params.terms.segments.is_some().then(|| lock.clone());
    let acquire = command(call, lock, params)?;
    if for_connection || accepts_events(&call.parts.headers) {
        return acquiring::stream(call, acquire, for_connection).await;
    }
    let granted = call.run(call.service().acquire(&call.context, acquire)).await?;
    let Response { value: Granted { grant, waited, expires_in }, revision, .. } = granted;
    let token = grant.token;
    let reply = if call.wants_text() {
        Reply::text(StatusCode::OK, format!("{token}\n"))
    } else {
        let body = GrantBody::new(grant, (waited, expires_in), call.now(), revision);
        let body = whole.iter().fold(body, GrantBody::of_whole);
        Reply::json(StatusCode::OK, &body)
    };
    Ok(reply.with_header(HeaderName::from_static(FENCING_TOKEN), token.0.into()).at(revision))
}

fn command(
    call: &CallContext<'_>,
    lock: LockName,
    params: AcquireParams,
) -> Result<Acquire, HttpError> {
    let AcquireParams { session, owner, attempt, ttl, wait, labels, mode, terms, .. } = params;
    let TermsParams { permits, limit, priority, reentrant, max_hold, min_hold, value, segments } =
        terms;
    let open = session_or_anonymous(session, ttl, labels).map_err(|f| call.error(f))?;
    let acquire = Acquire::new(lock, open, owner.unwrap_or_else(Owner::unnamed)).waiting(wait);
    Ok(Acquire {
        attempt,
        mode,
        permits,
        limit,
        priority,
        reentrant,
        max_hold_ms: max_hold.map(holdfast_types::millis),
        min_hold_ms: min_hold.map(holdfast_types::millis),
        value: value.map(|value| Data::from(value.into_bytes())),
        segments,
        ..acquire
    })
}

/// `PATCH /v1/locks/{name}`
pub(crate) async fn set_policy(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock(LOCKS)?;
    let params = PolicyParams::parse(&call.fields(&PolicyParams::KEYS)?).map_err(of_refusal)?;
    let PolicyParams {
        limit,
        order,
        ageing,
        lock_delay,
        cooldown,
        detect_deadlocks,
        segments,
        redirect: _,
    } = params;
    let change = PolicyChange {
        limit,
        order,
        ageing_ms: ageing.map(holdfast_types::millis),
        lock_delay_ms: lock_delay.map(holdfast_types::millis),
        cooldown_ms: cooldown.map(holdfast_types::millis),
        detect_deadlocks,
        segments,
    };
    let Response { value: policy, revision, .. } =
        call.run(call.service().set_policy(lock, change)).await?;
    Ok(Reply::json(StatusCode::OK, &PolicyBody::new(policy)).at(revision))
}

/// `DELETE /v1/locks/{name}`
pub(crate) async fn release(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock(LOCKS)?;
    let fields = call.fields(&ReleaseParams::KEYS)?;
    if let Some(breaking) = BreakParams::parse(&fields).map_err(of_refusal)? {
        return custody::break_lock(call, lock, breaking).await;
    }
    let params = ReleaseParams::parse(&fields).map_err(of_refusal)?;
    call.log_fields.session = Some(params.session.clone());
    let ReleaseParams { session, owner, target, to, redirect: _ } = params;
    if let Some(to) = to {
        let token = match target {
            ReleaseTarget::Hold(token) => Some(token),
            ReleaseTarget::AnyPlace | ReleaseTarget::Attempt(_) => None,
        };
        return custody::hand_over(call, lock, (session, owner), to, token).await;
    }
    let counted = matches!(target, ReleaseTarget::Attempt(_));
    let release = Release { lock, session, owner: owner.unwrap_or_else(Owner::unnamed), target };
    let released = call.run(call.service().release(release)).await?;
    let Response { value: Released { hold_count, .. }, revision, .. } = released;
    let reply = Reply::empty(StatusCode::NO_CONTENT).at(revision);
    if !counted {
        return Ok(reply);
    }
    let left = HeaderValue::from(hold_count);
    Ok(reply.with_header(HeaderName::from_static(HOLDFAST_ENTRIES_LEFT), left))
}

/// `GET /v1/locks/{name}`
pub(crate) async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock(LOCKS)?;
    let params = ReadParams::parse(&call.fields(&ReadParams::KEYS)?);
    if !params.stale {
        return explain::lock(call, lock).await;
    }
    let read = call.service().lock(&lock, read_mode(params.stale));
    let response = call.run(read).await?;
    let Response { value: view, revision, leader_contact } = response;
    let body = LockBody::new(view, call.now(), Some(revision));
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

/// `GET /v1/locks`
pub(crate) async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let fields = call.fields(&ListParams::LOCK_KEYS)?;
    let params = ListParams::parse(&fields).map_err(of_refusal)?;
    if params.sort == Sort::Contention {
        return explain::contention(call, params).await;
    }
    let ListParams { prefix, held, waiting, session, limit, sort: _, page_token, read } = params;
    let filter = LockFilter { prefix, held, waiting, session };
    let (after, read) = (page_token.as_deref(), read_mode(read.stale));
    let response = call.run(call.service().locks(&filter, after, limit, read)).await?;
    let Response { value: page, revision, leader_contact } = response;
    let body = LocksBody::new(page, call.now());
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}
