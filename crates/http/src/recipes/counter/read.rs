//! `GET /v1/counters/{name}`: the value of a counter.

use futures_util::FutureExt as _;
use holdfast_api::parameters::{REDIRECT, STALE};
use holdfast_api::{CallParams as _, params};
use holdfast_service::Response;

use super::{answers, counter_reply};
use crate::call::{CallContext, read_mode};
use crate::operation::Operation;
use crate::reply::Reply;
use crate::routes::COUNTER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the value of a counter",
    description: "A counter that was never changed is 0. Accept: text/plain returns only the value.",
    params: ReadCounterParams::LIST,
    answers,
    ..Operation::read("readCounter", &COUNTER, |call| read(call).boxed())
};

params! {
    struct ReadCounterParams {
        stale: bool = STALE,
        _redirect: bool = REDIRECT,
    }
}

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let counter = call.recipe()?;
    let ReadCounterParams { stale, .. } = call.params()?;
    let response = call.run(call.service().counter(&counter, read_mode(stale))).await?;
    let Response { value: view, revision, leader_contact } = response;
    Ok(counter_reply(call, counter, view, revision).stale(leader_contact))
}
