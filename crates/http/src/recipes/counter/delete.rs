//! `DELETE /v1/counters/{name}`: delete a counter.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{CounterChange, RequestNumber, Right, SessionName};

use super::change;
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::COUNTER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a counter",
    params: DeleteCounterParams::LIST,
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The counter does not exist any more")]
    },
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    ..Operation::write(
        "deleteCounter",
        Method::Delete,
        &COUNTER,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::RecipeDelete]),
        BodyKind::SMALL,
        |call| delete(call).boxed(),
    )
};

params! {
    struct DeleteCounterParams {
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let counter = call.recipe()?;
    let DeleteCounterParams { .. } = call.params()?;
    change(call, counter, CounterChange::Delete).await
}
