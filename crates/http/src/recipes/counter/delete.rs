//! `DELETE /v1/counters/{name}`: delete a counter.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::tree::{REQUEST, SESSION};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{CounterChange, RequestId, SessionName};

use super::change;
use crate::call::CallContext;
use crate::idempotency;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::COUNTER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a counter",
    params: DeleteCounterParams::LIST,
    headers: &[idempotency::KEY],
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The counter does not exist any more")]
    },
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    ..Operation::write("deleteCounter", Method::Delete, &COUNTER, |call| delete(call).boxed())
};

params! {
    struct DeleteCounterParams {
        session: Option<SessionName> = SESSION,
        request: Option<RequestId> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let counter = call.recipe()?;
    let DeleteCounterParams { session, request, .. } = call.params()?;
    let caller = idempotency::caller(call, session, request)?;
    change(call, counter, caller, CounterChange::Delete).await
}
