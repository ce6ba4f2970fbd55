//! `DELETE /v1/double-barriers/{name}`: leave a double barrier, and wait until every party leaves.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{CallParams as _, ErrorCode, LeftBody, Schemas};
use holdfast_service::Response;
use holdfast_types::{BarrierKind, Right};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::recipes::barrier::leave::LeaveParams;
use crate::reply::Reply;
use crate::routes::DOUBLE_BARRIER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Leave a double barrier together",
    description: "The response is 200 when all members have left.",
    params: LeaveParams::LIST,
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "All members are outside", Schemas::of::<LeftBody>)]
    },
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::TooManyWaiters,
    ],
    ..Operation::write(
        "leaveDoubleBarrier",
        Method::Delete,
        &DOUBLE_BARRIER,
        LateCopies::Generation,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::SMALL,
        |call| leave(call).boxed(),
    )
};

async fn leave(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let barrier = call.recipe()?;
    let params: LeaveParams = call.params()?;
    let wait = params.wait;
    call.log_fields.session = Some(params.session.clone());
    call.log_fields.wait = wait;
    let leave = params.command(BarrierKind::Double, barrier.clone());
    let left = call.run(call.service().leave_barrier(leave, wait)).await?;
    let Response { value: left, revision, .. } = left;
    Ok(Reply::json(StatusCode::OK, &LeftBody { barrier, left }).at(revision))
}
