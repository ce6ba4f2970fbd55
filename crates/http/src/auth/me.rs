//! `GET /v1/auth/me`: who the caller is.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{CallerBody, Rfc3339Time, Schemas};
use holdfast_service::{KnownCaller, Response};
use holdfast_types::Credential;

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ME;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read who the caller is, with its roles",
    description: "Every caller may ask. The roles are those of the subject; every caller also has the role anonymous.",
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The caller", Schemas::of::<CallerBody>)],
    ..Operation::read("readCaller", &ME, |call| me(call).boxed())
};

async fn me(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value: known, revision, .. } = call.run(call.service().known_caller()).await?;
    let KnownCaller { actor, subject, roles, namespace, expires_at } = known;
    let credential = Credential::of(&actor);
    let (token, expires_at) = (credential.token(), expires_at.map(Rfc3339Time));
    let credential = credential.as_str().to_owned();
    let body = CallerBody { subject, credential, token, expires_at, roles, namespace };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}
