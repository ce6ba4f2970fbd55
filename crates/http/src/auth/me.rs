//! `GET /v1/auth/me`: who the caller is.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::STALE;
use holdfast_api::{CallParams as _, CallerBody, Rfc3339Time, Schemas, params};
use holdfast_service::{KnownCaller, Response};
use holdfast_types::Credential;

use crate::call::{CallContext, read_mode};
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ME;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read who the caller is, with its roles",
    description: "Every caller may ask. The roles are those of the subject; every caller also has the role anonymous.",
    params: MeParams::LIST,
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The caller", Schemas::of::<CallerBody>)],
    ..Operation::read("readCaller", &ME, |call| me(call).boxed())
};

params! {
    struct MeParams {
        stale: bool = STALE,
    }
}

async fn me(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let MeParams { stale } = call.params()?;
    let known = call.run(call.service().known_caller(read_mode(stale))).await?;
    let Response { value: known, revision, leader_contact } = known;
    let KnownCaller { actor, subject, roles, namespace, expires_at } = known;
    let credential = Credential::of(&actor);
    let (token, expires_at) = (credential.token(), expires_at.map(Rfc3339Time));
    let credential = credential.as_str().to_owned();
    let body = CallerBody { subject, credential, token, expires_at, roles, namespace };
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}
