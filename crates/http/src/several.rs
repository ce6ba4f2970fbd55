//! Several locks at once: taking them all, and giving them all back.

use axum::http::StatusCode;

use holdfast_api::{AcquireAllParams, GrantAllBody, GrantBody, ReleaseAllParams};
use holdfast_service::{AcquireAllRequest, Answer, Request, Response};

use crate::exchange::Exchange;
use crate::locks::astray;
use crate::reply::Reply;
use crate::status::{Fault, of_refusal};

/// `POST /v1/locks`
pub(crate) async fn acquire(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let fields = exchange.fields(&AcquireAllParams::KEYS)?;
    let params = AcquireAllParams::parse(fields).map_err(of_refusal)?;
    exchange.subject.session.clone_from(&params.session);
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let AcquireAllParams {
        locks, session, owner, attempt, ttl, wait, mode, max_hold, labels, ..
    } = params;
    let request =
        AcquireAllRequest { locks, session, owner, attempt, ttl, wait, labels, mode, max_hold };
    let Response { reply, revision, .. } = exchange.ask(Request::AcquireAll(request)).await?;
    let Answer::GrantedAll { grants, waited, expires_in } = reply else { return Err(astray()) };
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
    let request = Request::ReleaseAll { locks, session, owner, attempt };
    let Response { reply, revision, .. } = exchange.ask(request).await?;
    let Answer::ReleasedAll { .. } = reply else { return Err(astray()) };
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision))
}
