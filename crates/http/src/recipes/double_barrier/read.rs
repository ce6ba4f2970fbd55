//! `GET /v1/double-barriers/{name}`: the parties that wait at a double barrier, and the parties inside.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{BarrierBody, CallParams as _, Schemas};
use holdfast_types::BarrierKind;

use crate::operation::{Operation, ResponseSpec};
use crate::recipes::barrier::read::{ReadBarrierParams, read};
use crate::routes::DOUBLE_BARRIER;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the members that wait at a double barrier, and those inside",
    params: ReadBarrierParams::LIST,
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "The double barrier", Schemas::of::<BarrierBody>)]
    },
    ..Operation::read("readDoubleBarrier", &DOUBLE_BARRIER, |call| {
        read(call, BarrierKind::Double).boxed()
    })
};
