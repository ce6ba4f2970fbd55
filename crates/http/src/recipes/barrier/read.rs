//! `GET /v1/barriers/{name}`: the parties that have arrived at a barrier.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{REDIRECT, STALE};
use holdfast_api::{BarrierBody, CallParams as _, Schemas, params};
use holdfast_service::Response;
use holdfast_types::BarrierKind;

use crate::call::{CallContext, read_mode};
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::BARRIER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the arrivals at a barrier",
    params: ReadBarrierParams::LIST,
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The barrier", Schemas::of::<BarrierBody>)],
    ..Operation::read("readBarrier", &BARRIER, |call| read(call, BarrierKind::Barrier).boxed())
};

params! {
    pub(in crate::recipes) struct ReadBarrierParams {
        stale: bool = STALE,
        _redirect: bool = REDIRECT,
    }
}

pub(in crate::recipes) async fn read(
    call: &mut CallContext<'_>,
    barrier_kind: BarrierKind,
) -> Result<Reply, HttpError> {
    let name = call.recipe()?;
    let ReadBarrierParams { stale, .. } = call.params()?;
    let response = call.run(call.service().barrier(barrier_kind, &name, read_mode(stale))).await?;
    let Response { value: view, revision, leader_contact } = response;
    let body = BarrierBody::new(name, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}
