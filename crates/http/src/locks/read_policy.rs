//! `GET /v1/policies/{name}`: the policy of a lock.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{REDIRECT, STALE};
use holdfast_api::{CallParams as _, PolicyBody, Schemas, params};
use holdfast_service::Response;

use crate::call::{CallContext, read_mode};
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::POLICY;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the policy of a lock",
    description: "A lock whose policy was never changed has the default policy.",
    params: ReadPolicyParams::LIST,
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The policy", Schemas::of::<PolicyBody>)],
    ..Operation::read("readPolicy", &POLICY, |call| read(call).boxed())
};

params! {
    struct ReadPolicyParams {
        stale: bool = STALE,
        _redirect: bool = REDIRECT,
    }
}

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock()?;
    let ReadPolicyParams { stale, .. } = call.params()?;
    let response = call.run(call.service().lock(&lock, read_mode(stale))).await?;
    let Response { value: view, revision, leader_contact } = response;
    let body = PolicyBody::new(view.policy);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}
