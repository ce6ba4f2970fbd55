//! `POST /v1/auth/tokens`: create an access token.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::{NEVER, SUBJECT, TOKEN_TTL};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, IssuedTokenBody, Schemas, params};
use holdfast_types::{RequestNumber, Right, SessionName, SubjectName, TokenLifetime};

use super::{issued, lifetime};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TOKENS;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Create an access token for a subject",
    description: "The response is the only place where the secret appears. A call without a response may have created a token, \
        which GET lists.",
    params: NewTokenParams::LIST,
    answers: || {
        let about = "The access token";
        vec![ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<IssuedTokenBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::QuotaExceeded],
    ..Operation::write(
        "createToken",
        Method::Post,
        &TOKENS,
        LateCopies::SecretRequest,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| create(call).boxed(),
    )
};

params! {
    struct NewTokenParams {
        subject: SubjectName = SUBJECT,
        ttl: Option<Duration> = TOKEN_TTL,
        never: bool = NEVER,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn create(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let NewTokenParams { subject, ttl, never, .. } = call.params()?;
    let lifetime = lifetime(never, ttl)?.unwrap_or(TokenLifetime::Default);
    Ok(issued(call.run(call.service().issue_token(subject, lifetime)).await?))
}
