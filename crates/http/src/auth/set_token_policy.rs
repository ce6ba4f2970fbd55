//! `PUT /v1/auth/token-policy`: the lifetimes of new access tokens.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::{DEFAULT_TTL, MAX_TTL};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, RequestNumber, Right, SessionName, TokenPolicy, millis};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TOKEN_POLICY;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Set the default and the maximum lifetime of new access tokens",
    description: "The call replaces both. Existing tokens keep their expiry. GET /v1/auth shows the present policy.",
    params: TokenPolicyParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The policy is set")],
    errors: &[ErrorCode::Forbidden],
    ..Operation::write(
        "setTokenPolicy",
        Method::Put,
        &TOKEN_POLICY,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| set(call).boxed(),
    )
};

params! {
    struct TokenPolicyParams {
        default_ttl: Option<Duration> = DEFAULT_TTL,
        max_ttl: Option<Duration> = MAX_TTL,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let TokenPolicyParams { default_ttl, max_ttl, .. } = call.params()?;
    let policy =
        TokenPolicy { default_ttl_ms: default_ttl.map(millis), max_ttl_ms: max_ttl.map(millis) };
    let change = AuthChange::SetTokenPolicy(policy);
    let changed = call.run(call.service().change_auth(change)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
