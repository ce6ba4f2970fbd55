//! Taking a lock from its holders, asking them for it, and handing it on.

use axum::http::StatusCode;

use holdfast_api::{AskParams, AskedBody, BreakParams, BrokenBody, HandedBody};
use holdfast_service::Response;
use holdfast_types::{
    AskRelease, Break, Broken, FencingToken, HandOver, LockName, Owner, SessionName,
};

use crate::exchange::Exchange;
use crate::locks::LOCKS;
use crate::reply::Reply;
use crate::status::{Fault, of_refusal};

/// `DELETE /v1/locks/{name}?force`
pub(crate) async fn break_lock(
    exchange: &Exchange<'_>,
    lock: LockName,
    params: BreakParams,
) -> Result<Reply, Fault> {
    let BreakParams { reason, token, redirect } = params;
    if let Some(elsewhere) = exchange.elsewhere(redirect) {
        return Ok(elsewhere);
    }
    let what = token.map_or(Broken::Holders, Broken::Token);
    let breaking = Break { lock: lock.clone(), what, reason };
    let broken = exchange.ask(exchange.service().break_holds(&exchange.context, breaking)).await?;
    let Response { value: broken, revision, .. } = broken;
    let body = BrokenBody { lock, broken, revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `DELETE /v1/locks/{name}?to=`
pub(crate) async fn hand_over(
    exchange: &Exchange<'_>,
    lock: LockName,
    from: (SessionName, Option<Owner>),
    to: (SessionName, Option<Owner>),
    token: Option<FencingToken>,
) -> Result<Reply, Fault> {
    let change = HandOver { lock, from: of_session(from), to: of_session(to), token };
    let Response { value: grant, revision, .. } =
        exchange.ask(exchange.service().hand_over(change)).await?;
    Ok(Reply::json(StatusCode::OK, &HandedBody::new(grant, revision)).at(revision))
}

/// `POST /v1/locks/{name}`
pub(crate) async fn ask_release(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let lock = exchange.lock(LOCKS)?;
    let params = AskParams::parse(&exchange.fields(&AskParams::KEYS)?).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let AskParams { session, owner, reason, deadline, revoke, redirect: _ } = params;
    exchange.subject.session.clone_from(&session);
    let holder = session.map(|session| of_session((session, owner)));
    let deadline_ms = holdfast_types::millis(deadline);
    let ask = AskRelease { lock: lock.clone(), holder, reason, deadline_ms, revoke };
    let Response { value: asked, revision, .. } =
        exchange.ask(exchange.service().ask_release(ask)).await?;
    let body = AskedBody { lock, asked, revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn of_session((session, owner): (SessionName, Option<Owner>)) -> (SessionName, Owner) {
    (session, owner.unwrap_or_else(Owner::unnamed))
}
