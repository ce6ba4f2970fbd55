//! Judging a fencing token. Advice only: the judge that counts is where the write lands.

use axum::http::StatusCode;

use holdfast_api::{ErrorCode, Facts, FenceBody, FenceModeParam, FenceParams, Problem};
use holdfast_service::{FenceMode, Response, TokenCheck};
use holdfast_types::{FenceView, FencingToken, LockName};

use crate::call::{CallContext, read_mode};
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal, with_status};

/// `GET /v1/fence/{name}`
pub(crate) async fn check(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock("/v1/fence/")?;
    let params = FenceParams::parse(&call.fields(&FenceParams::KEYS)?).map_err(of_refusal)?;
    let mode = match params.mode {
        FenceModeParam::Current => FenceMode::Current,
        FenceModeParam::Monotonic => FenceMode::Monotonic,
    };
    let (token, read) = (params.token, read_mode(params.read.stale));
    let response = call.run(call.service().check_token(&lock, token, mode, read)).await?;
    let Response { value: TokenCheck { valid, view }, revision, leader_contact } = response;
    if !valid {
        return Err(stale(lock, token, view));
    }
    let body = FenceBody::new(lock, token, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

fn stale(lock: LockName, token: FencingToken, view: FenceView) -> HttpError {
    let FenceView { current, floor: _, highest } = view;
    let detail = match (current, highest) {
        (Some(current), _) => format!("the token of '{lock}' is {current}, not {token}"),
        (None, Some(highest)) => {
            format!("nobody holds '{lock}'; its last token was {highest}, this one is {token}")
        }
        (None, None) => format!("nobody holds '{lock}', and no token of it is remembered"),
    };
    let lock = Some(lock);
    let facts = Facts { lock, token: Some(token), current, highest, ..Facts::default() };
    let hint = "stop writing: whoever carries this token has lost the lock";
    with_status(Problem::new(ErrorCode::StaleToken, 0, detail).hint(hint).facts(facts))
}
