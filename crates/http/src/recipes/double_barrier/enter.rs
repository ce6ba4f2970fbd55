//! `PUT /v1/double-barriers/{name}`: enter a double barrier, and wait until every party enters.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{CallParams as _, ErrorCode, Schemas, TrippedBody};
use holdfast_types::{BarrierKind, Right};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::recipes::barrier::arrive::{ArriveParams, arrive};
use crate::routes::DOUBLE_BARRIER;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Enter a double barrier together",
    params: ArriveParams::LIST,
    example: Example { query: "parties=1&session=me&wait=10s", body: "" },
    answers: || {
        vec![ResponseSpec::json(
            StatusCode::OK,
            "All members are inside",
            Schemas::of::<TrippedBody>,
        )]
    },
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
    ],
    ..Operation::write(
        "enterDoubleBarrier",
        Method::Put,
        &DOUBLE_BARRIER,
        LateCopies::Arrival,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::LISTS,
        |call| arrive(call, BarrierKind::Double).boxed(),
    )
};
