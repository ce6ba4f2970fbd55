//! `GET /v1/auth/tokens`: access tokens, without their secrets.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{AccessTokenBody, AccessTokensBody, ErrorCode, Rfc3339Time, Schemas};
use holdfast_service::Response;

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TOKENS;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "List the access tokens, without their secrets",
    answers: || {
        let about = "The access tokens, in order of their ids";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<AccessTokensBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("listTokens", &TOKENS, |call| list(call).boxed())
};

async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value: tokens, revision, .. } = call.run(call.service().access_tokens()).await?;
    let now = call.now();
    let tokens = tokens.into_iter().map(|(id, token)| AccessTokenBody {
        id,
        expired: token.expires_at.is_some_and(|at| at <= now),
        subject: token.subject,
        ttl_ms: token.ttl_ms,
        created_at: Rfc3339Time(token.created_at),
        expires_at: token.expires_at.map(Rfc3339Time),
    });
    let body = AccessTokensBody { tokens: tokens.collect() };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}
