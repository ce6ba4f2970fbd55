//! Taking a lock from its holders, asking them for it, and handing it on.

use axum::http::StatusCode;

use holdfast_api::{AskParams, AskedBody, BreakParams, BrokenBody, HandedBody};
use holdfast_service::Response;
use holdfast_types::{
    Break, BreakTarget, FencingToken, HandOver, LockName, Owner, RequestRelease, SessionName,
};

use crate::call::CallContext;
use crate::locks::LOCKS;
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal};

/// `DELETE /v1/locks/{name}?force`
pub(crate) async fn break_lock(
    call: &CallContext<'_>,
    lock: LockName,
    params: BreakParams,
) -> Result<Reply, HttpError> {
    let BreakParams { reason, token, redirect: _ } = params;
    let what = token.map_or(BreakTarget::Holders, BreakTarget::Token);
    let breaking = Break { lock: lock.clone(), what, reason };
    let broken = call.run(call.service().break_holds(&call.context, breaking)).await?;
    let Response { value: broken, revision, .. } = broken;
    let body = BrokenBody { lock, broken, revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `DELETE /v1/locks/{name}?to=`
pub(crate) async fn hand_over(
    call: &CallContext<'_>,
    lock: LockName,
    from: (SessionName, Option<Owner>),
    to: (SessionName, Option<Owner>),
    token: Option<FencingToken>,
) -> Result<Reply, HttpError> {
    let change = HandOver { lock, from: of_session(from), to: of_session(to), token };
    let Response { value: grant, revision, .. } =
        call.run(call.service().hand_over(change)).await?;
    Ok(Reply::json(StatusCode::OK, &HandedBody::new(grant, revision)).at(revision))
}

/// `POST /v1/locks/{name}`
pub(crate) async fn ask_release(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock(LOCKS)?;
    let params = AskParams::parse(&call.fields(&AskParams::KEYS)?).map_err(of_refusal)?;
    let AskParams { session, owner, reason, deadline, revoke, redirect: _ } = params;
    call.log_fields.session.clone_from(&session);
    let holder = session.map(|session| of_session((session, owner)));
    let deadline_ms = holdfast_types::millis(deadline);
    let ask = RequestRelease { lock: lock.clone(), holder, reason, deadline_ms, revoke };
    let Response { value: asked, revision, .. } = call.run(call.service().ask_release(ask)).await?;
    let body = AskedBody { lock, asked, revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn of_session((session, owner): (SessionName, Option<Owner>)) -> (SessionName, Owner) {
    (session, owner.unwrap_or_else(Owner::unnamed))
}
