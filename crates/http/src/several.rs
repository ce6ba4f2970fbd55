//! Several locks at once: taking them all, and giving them all back.

use axum::http::StatusCode;

use holdfast_api::{AcquireAllParams, GrantAllBody, GrantBody, ReleaseAllParams};
use holdfast_service::{GrantedMany, Response, session_or_anonymous};
use holdfast_types::{AcquireAll, Owner, ReleaseAll, queue_fields};

use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::status::{Fault, of_refusal};

/// `POST /v1/locks`
pub(crate) async fn acquire(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let fields = exchange.fields(&AcquireAllParams::KEYS)?;
    let params = AcquireAllParams::parse(&fields).map_err(of_refusal)?;
    exchange.subject.session.clone_from(&params.session);
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let AcquireAllParams {
        locks, session, owner, attempt, ttl, wait, mode, max_hold, labels, ..
    } = params;
    let (wait, wait_ms) = queue_fields(wait);
    let acquire = AcquireAll {
        locks,
        open: session_or_anonymous(session, ttl, labels).map_err(|f| exchange.fault(f))?,
        owner: owner.unwrap_or_else(Owner::unnamed),
        wait,
        wait_ms,
        mode: mode.unwrap_or_default(),
        max_hold_ms: max_hold.map(holdfast_types::millis),
        attempt,
    };
    let granted = exchange.ask(exchange.service().acquire_many(&exchange.context, acquire)).await?;
    let Response { value: GrantedMany { grants, waited, expires_in }, revision, .. } = granted;
    let now = exchange.now();
    let one = |grant| GrantBody::new(grant, (waited, expires_in), now, revision);
    let body = GrantAllBody { grants: grants.into_iter().map(one).collect(), revision };
    if exchange.wants_text() {
        let tokens: Vec<String> =
            body.grants.iter().map(|grant| format!("{} {}\n", grant.lock, grant.token)).collect();
        return Ok(Reply::text(StatusCode::OK, tokens.concat()).at(revision));
    }
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `DELETE /v1/locks`
pub(crate) async fn release(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let fields = exchange.fields(&ReleaseAllParams::KEYS)?;
    let params = ReleaseAllParams::parse(&fields).map_err(of_refusal)?;
    exchange.subject.session = Some(params.session.clone());
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let ReleaseAllParams { locks, session, owner, attempt, redirect: _ } = params;
    let owner = owner.unwrap_or_else(Owner::unnamed);
    let release = ReleaseAll { locks, session, owner, attempt };
    let released = exchange.ask(exchange.service().release_many(release)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(released.revision))
}
