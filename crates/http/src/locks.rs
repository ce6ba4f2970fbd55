//! Taking locks, giving them back, and looking at them.

use axum::http::{HeaderName, HeaderValue, StatusCode};

use holdfast_api::{
    AcquireParams, BreakParams, FENCING_TOKEN, GrantBody, HOLDFAST_APPLIED_REVISION,
    HOLDFAST_ENTRIES_LEFT, HOLDFAST_LEADER_CONTACT_MS, ListParams, LockBody, LocksBody, PolicyBody,
    PolicyParams, ReadParams, ReleaseParams, Sort, TermsParams,
};
use holdfast_service::{Granted, LockFilter, Response, session_or_anonymous};
use holdfast_types::{
    Acquire, Data, LockName, Owner, PolicyChange, Release, ReleaseTarget, Released,
};

use crate::exchange::{Exchange, read_mode};
use crate::reply::Reply;
use crate::sse::accepts_events;
use crate::status::{Fault, of_refusal};
use crate::{acquiring, custody, explain};

pub(crate) const LOCKS: &str = "/v1/locks/";

/// `PUT /v1/locks/{name}`
pub(crate) async fn acquire(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let lock = exchange.lock(LOCKS)?;
    let fields = exchange.fields(&AcquireParams::KEYS)?;
    let params = AcquireParams::parse(&fields).map_err(of_refusal)?;
    exchange.subject.session.clone_from(&params.session);
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let for_connection = params.for_connection;
    let whole = params.terms.segments.is_some().then(|| lock.clone());
    let acquire = command(exchange, lock, params)?;
    if for_connection || accepts_events(&exchange.parts.headers) {
        return acquiring::stream(exchange, acquire, for_connection).await;
    }
    let granted = exchange.ask(exchange.service().acquire(&exchange.context, acquire)).await?;
    let Response { value: Granted { grant, waited, expires_in }, revision, .. } = granted;
    let token = grant.token;
    let reply = if exchange.wants_text() {
        Reply::text(StatusCode::OK, format!("{token}\n"))
    } else {
        let body = GrantBody::new(grant, (waited, expires_in), exchange.now(), revision);
        let body = whole.iter().fold(body, GrantBody::of_whole);
        Reply::json(StatusCode::OK, &body)
    };
    Ok(reply.with_header(HeaderName::from_static(FENCING_TOKEN), token.0.into()).at(revision))
}

fn command(
    exchange: &Exchange<'_>,
    lock: LockName,
    params: AcquireParams,
) -> Result<Acquire, Fault> {
    let AcquireParams { session, owner, attempt, ttl, wait, labels, mode, terms, .. } = params;
    let TermsParams { permits, limit, priority, reentrant, max_hold, min_hold, value, segments } =
        terms;
    let open = session_or_anonymous(session, ttl, labels).map_err(|f| exchange.fault(f))?;
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
pub(crate) async fn set_policy(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let lock = exchange.lock(LOCKS)?;
    let params = PolicyParams::parse(&exchange.fields(&PolicyParams::KEYS)?).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
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
        exchange.ask(exchange.service().set_policy(lock, change)).await?;
    Ok(Reply::json(StatusCode::OK, &PolicyBody::new(policy)).at(revision))
}

/// `DELETE /v1/locks/{name}`
pub(crate) async fn release(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let lock = exchange.lock(LOCKS)?;
    let fields = exchange.fields(&ReleaseParams::KEYS)?;
    if let Some(breaking) = BreakParams::parse(&fields).map_err(of_refusal)? {
        return custody::break_lock(exchange, lock, breaking).await;
    }
    let params = ReleaseParams::parse(&fields).map_err(of_refusal)?;
    exchange.subject.session = Some(params.session.clone());
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let ReleaseParams { session, owner, target, to, redirect: _ } = params;
    if let Some(to) = to {
        let token = match target {
            ReleaseTarget::Hold(token) => Some(token),
            ReleaseTarget::AnyPlace | ReleaseTarget::Attempt(_) => None,
        };
        return custody::hand_over(exchange, lock, (session, owner), to, token).await;
    }
    let counted = matches!(target, ReleaseTarget::Attempt(_));
    let release = Release { lock, session, owner: owner.unwrap_or_else(Owner::unnamed), target };
    let released = exchange.ask(exchange.service().release(release)).await?;
    let Response { value: Released { entries_left, .. }, revision, .. } = released;
    let reply = Reply::empty(StatusCode::NO_CONTENT).at(revision);
    if !counted {
        return Ok(reply);
    }
    let left = HeaderValue::from(entries_left);
    Ok(reply.with_header(HeaderName::from_static(HOLDFAST_ENTRIES_LEFT), left))
}

/// `GET /v1/locks/{name}`
pub(crate) async fn read(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let lock = exchange.lock(LOCKS)?;
    let params = ReadParams::parse(&exchange.fields(&ReadParams::KEYS)?);
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    if !params.stale {
        return explain::lock(exchange, lock).await;
    }
    let read = exchange.service().lock(&lock, read_mode(params.stale));
    let mut response = exchange.ask(read).await?;
    let marks = staleness(&mut response);
    let Response { value: view, revision, .. } = response;
    let body = LockBody::new(view, exchange.now(), Some(revision));
    Ok(marked(Reply::json(StatusCode::OK, &body).at(revision), marks))
}

/// `GET /v1/locks`
pub(crate) async fn list(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let fields = exchange.fields(&ListParams::LOCK_KEYS)?;
    let params = ListParams::parse(&fields).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.read.redirect) {
        return Ok(elsewhere);
    }
    if params.sort == Sort::Contention {
        return explain::contention(exchange, params).await;
    }
    let ListParams { prefix, held, waiting, session, limit, sort: _, page_token, read } = params;
    let filter = LockFilter { prefix, held, waiting, session };
    let (after, read) = (page_token.as_deref(), read_mode(read.stale));
    let mut response = exchange.ask(exchange.service().locks(&filter, after, limit, read)).await?;
    let marks = staleness(&mut response);
    let Response { value: page, revision, .. } = response;
    let body = LocksBody::new(page, exchange.now());
    Ok(marked(Reply::json(StatusCode::OK, &body).at(revision), marks))
}

/// The headers of a stale read; none for a linearizable one.
pub(crate) type Staleness = Option<[(HeaderName, HeaderValue); 2]>;

/// What a stale read must say about itself.
pub(crate) fn staleness<T>(response: &mut Response<T>) -> Staleness {
    let contact = response.leader_contact.take()?;
    let contact_ms = holdfast_types::millis(contact);
    Some([
        (HeaderName::from_static(HOLDFAST_APPLIED_REVISION), response.revision.0.into()),
        (HeaderName::from_static(HOLDFAST_LEADER_CONTACT_MS), contact_ms.into()),
    ])
}

/// The answer with those headers.
pub(crate) fn marked(reply: Reply, staleness: Staleness) -> Reply {
    staleness
        .into_iter()
        .flatten()
        .fold(reply, |reply, (name, value)| reply.with_header(name, value))
}
