//! `DELETE /v1/latches/{name}`: delete a latch.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, params};
use holdfast_types::{RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LATCH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a latch",
    params: DeleteLatchParams::LIST,
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The latch does not exist any more")]
    },
    ..Operation::write(
        "deleteLatch",
        Method::Delete,
        &LATCH,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::RecipeDelete]),
        BodyKind::SMALL,
        |call| delete(call).boxed(),
    )
};

params! {
    struct DeleteLatchParams {
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe()?;
    let deleted = call.run(call.service().delete_latch(latch)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(deleted.revision))
}
