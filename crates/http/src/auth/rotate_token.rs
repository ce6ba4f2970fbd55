//! `POST /v1/auth/tokens/{id}/rotate`: replace an access token.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::{GRACE, NEVER, NEW_TOKEN_TTL};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, IssuedTokenBody, Schemas, params};

use super::{issued, lifetime};
use holdfast_types::{RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ROTATE_TOKEN;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Replace an access token by a new one of the same subject",
    description: "Both are valid until the grace is over. Sessions belong to the subject, so they stay.",
    params: RotateParams::LIST,
    answers: || {
        let about = "The new access token";
        vec![ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<IssuedTokenBody>)]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::QuotaExceeded,
        ErrorCode::LastAdministrator,
    ],
    ..Operation::write(
        "rotateToken",
        Method::Post,
        &ROTATE_TOKEN,
        LateCopies::SecretRequest,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| rotate(call).boxed(),
    )
};

params! {
    struct RotateParams {
        grace: Duration = GRACE,
        ttl: Option<Duration> = NEW_TOKEN_TTL,
        never: bool = NEVER,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn rotate(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let token = call.access_token()?;
    let RotateParams { grace, ttl, never, .. } = call.params()?;
    let lifetime = lifetime(never, ttl)?;
    Ok(issued(call.run(call.service().rotate_token(token, grace, lifetime)).await?))
}
