//! `GET /v1/latches/{name}`: wait for a latch to open.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::recipe::WAIT;
use holdfast_api::parameters::{REDIRECT, STALE};
use holdfast_api::{CallParams as _, ErrorCode, LatchBody, Schemas, params};
use holdfast_service::Response;

use crate::call::{CallContext, read_mode};
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LATCH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Wait for a latch to open",
    description: "The response is 200 when the latch is open, and 423 if the wait ends first.",
    params: AwaitLatchParams::LIST,
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "The latch is open", Schemas::of::<LatchBody>)]
    },
    errors: &[ErrorCode::NotFound, ErrorCode::NotYet, ErrorCode::TooManyWaiters],
    ..Operation::read("awaitLatch", &LATCH, |call| wait(call).boxed())
};

params! {
    struct AwaitLatchParams {
        wait: Duration = WAIT,
        stale: bool = STALE,
        _redirect: bool = REDIRECT,
    }
}

async fn wait(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe()?;
    let AwaitLatchParams { wait, stale, .. } = call.params()?;
    call.log_fields.wait = wait;
    let opened = call.service().await_latch(&latch, wait, read_mode(stale));
    let Response { value: view, revision, leader_contact } = call.run(opened).await?;
    let body = LatchBody::new(latch, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}
