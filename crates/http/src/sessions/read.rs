//! `GET /v1/sessions/{id}`: the locks that a session holds and waits for.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{REDIRECT, STALE};
use holdfast_api::{CallParams as _, ErrorCode, Schemas, SessionBody, params};

use super::session_reply;
use crate::call::{CallContext, read_mode};
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SESSION;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read what a session holds and waits for",
    params: ReadSessionParams::LIST,
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The session", Schemas::of::<SessionBody>)],
    errors: &[ErrorCode::SessionExpired],
    ..Operation::read("readSession", &SESSION, |call| read(call).boxed())
};

params! {
    struct ReadSessionParams {
        stale: bool = STALE,
        _redirect: bool = REDIRECT,
    }
}

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let ReadSessionParams { stale, .. } = call.params()?;
    let response = call.run(call.service().session(&session, read_mode(stale))).await?;
    Ok(session_reply(call, response))
}
