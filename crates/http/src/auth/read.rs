//! `GET /v1/auth`: the mode of the authorization, and the calls that this node refused.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{AuthBody, ErrorCode, RefusalBody, Rfc3339Time, Schemas, TokenPolicyBody};
use holdfast_service::{AuthStatus, RefusalCount, Response};
use holdfast_types::TokenPolicy;

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::AUTH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the mode of the authorization, and the latest refusals of this node",
    description: "In the mode shadow, the refusals are the calls that the mode on would refuse.",
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "The authorization", Schemas::of::<AuthBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("readAuth", &AUTH, |call| read(call).boxed())
};

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value: status, revision, .. } = call.run(call.service().auth_status()).await?;
    let AuthStatus {
        mode,
        required_here,
        has_had_administrator,
        token_policy: TokenPolicy { default_ttl_ms, max_ttl_ms },
        sessions_without_credential,
        refusals,
    } = status;
    let refusal = |refusal: RefusalCount| {
        let RefusalCount { subject, why, count, last_at } = refusal;
        RefusalBody { subject, why, count, last_at: Rfc3339Time(last_at) }
    };
    let refusals = refusals.into_iter().map(refusal).collect();
    let mode = mode.as_str().to_owned();
    let body = AuthBody {
        mode,
        required_here,
        has_had_administrator,
        token_policy: TokenPolicyBody { default_ttl_ms, max_ttl_ms },
        sessions_without_credential,
        refusals,
    };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}
