//! Double barriers: `/v1/double-barriers/{name}`. The members enter together, and leave together.

use holdfast_api::{BarrierBody, CallParams as _, ErrorCode, LeftBody, Schemas, TrippedBody};
use holdfast_types::BarrierKind;

use super::barrier::{ArriveParams, LeaveParams, arrive, read};
use crate::access::{RECIPE_READ, RECIPE_USE};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, ReadParams};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::DOUBLE_BARRIER;

pub(crate) static ENTER: Operation = Operation {
    summary: "Enter a double barrier together",
    params: ArriveParams::LIST,
    late_copies: LateCopies::Arrival,
    body: BodyKind::LISTS,
    example: Example { query: "parties=1&session=me&wait=10s", body: "" },
    answers: || ResponseSpec::ok("All members are inside", Schemas::of::<TrippedBody>),
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
    ],
    ..Operation::change("enterDoubleBarrier", Method::Put, &DOUBLE_BARRIER, RECIPE_USE, |call| {
        Box::pin(arrive(call, BarrierKind::Double))
    })
};

pub(crate) static READ: Operation = Operation {
    summary: "Read the members that wait at a double barrier, and those inside",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The double barrier", Schemas::of::<BarrierBody>),
    ..Operation::read("readDoubleBarrier", &DOUBLE_BARRIER, RECIPE_READ, |call| {
        Box::pin(read(call, BarrierKind::Double))
    })
};

pub(crate) static LEAVE: Operation = Operation {
    summary: "Leave a double barrier together",
    description: "The response is 200 when all members have left.",
    params: LeaveParams::LIST,
    late_copies: LateCopies::Generation,
    answers: || ResponseSpec::ok("All members are outside", Schemas::of::<LeftBody>),
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::TooManyWaiters,
    ],
    ..Operation::change(
        "leaveDoubleBarrier",
        Method::Delete,
        &DOUBLE_BARRIER,
        RECIPE_USE,
        handler!(leave),
    )
};

async fn leave(call: &mut CallContext<'_>) -> HandlerResult {
    let barrier = call.recipe()?;
    let params: LeaveParams = call.params()?;
    let wait = params.wait;
    call.log_fields.session = Some(params.session.clone());
    call.log_fields.wait = wait;
    let leave = params.command(BarrierKind::Double, barrier.clone());
    call.ok(call.service().leave_barrier(leave, wait), |left, _| LeftBody { barrier, left }).await
}
