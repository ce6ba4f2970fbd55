//! Access tokens: `/v1/auth/tokens`, one of them, and `/v1/auth/token-policy`, the lifetimes of new ones.
//!
//! Only the response of the call that creates a token has its secret, and no cache may keep that response.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use holdfast_api::parameters::auth::{
    CLOSE_SESSIONS, DEFAULT_TTL, GRACE, MAX_TTL, NEVER, NEW_TOKEN_TTL, SUBJECT, TOKEN_TTL,
};
use holdfast_api::{
    AccessTokenBody, AccessTokensBody, CallParams as _, ClosedSessionsBody, ErrorCode,
    IssuedTokenBody, ParamError, Rfc3339Time, Schemas, params,
};
use holdfast_service::{IssuedToken, Response};
use holdfast_types::{
    AuthChange, Revision, SessionId, SubjectName, TokenLifetime, TokenPolicy, millis,
};
use serde::Serialize;

use super::subjects::closed_sessions;
use crate::access::{AUTH_MANAGE, AUTH_READ};
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{ROTATE_TOKEN, TOKEN, TOKEN_POLICY, TOKENS};

pub(crate) static LIST: Operation = Operation {
    summary: "List the access tokens, without their secrets",
    answers: || {
        let about = "The access tokens, in order of their ids";
        ResponseSpec::ok(about, Schemas::of::<AccessTokensBody>)
    },
    ..Operation::read("listTokens", &TOKENS, AUTH_READ, handler!(list))
};

pub(crate) static CREATE: Operation = Operation {
    summary: "Create an access token for a subject",
    description: "The response is the only place where the secret appears. A call without a response may have created a token, \
        which GET lists.",
    params: NewTokenParams::LIST,
    late_copies: LateCopies::SecretRequest,
    answers: || ResponseSpec::created("The access token", Schemas::of::<IssuedTokenBody>),
    errors: &[ErrorCode::NotFound, ErrorCode::QuotaExceeded],
    ..Operation::change("createToken", Method::Post, &TOKENS, AUTH_MANAGE, handler!(create))
};

pub(crate) static ROTATE: Operation = Operation {
    summary: "Replace an access token by a new one of the same subject",
    description: "Both are valid until the grace is over. Sessions belong to the subject, so they stay.",
    params: RotateParams::LIST,
    late_copies: LateCopies::SecretRequest,
    answers: || ResponseSpec::created("The new access token", Schemas::of::<IssuedTokenBody>),
    errors: &[ErrorCode::NotFound, ErrorCode::QuotaExceeded, ErrorCode::LastAdministrator],
    ..Operation::change("rotateToken", Method::Post, &ROTATE_TOKEN, AUTH_MANAGE, handler!(rotate))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete an access token: no later call with it is executed",
    description: "Waits and streams of its callers end within a second. Its sessions belong to the subject: they last until their TTL, \
        unless the call has sessions.",
    params: DeleteTokenParams::LIST,
    late_copies: LateCopies::UniqueId,
    answers: || {
        let about = "The token does not exist any more";
        ResponseSpec::ok(about, Schemas::of::<ClosedSessionsBody>)
    },
    errors: &[ErrorCode::NotFound, ErrorCode::LastAdministrator],
    ..Operation::change("deleteToken", Method::Delete, &TOKEN, AUTH_MANAGE, handler!(delete))
};

pub(crate) static SET_POLICY: Operation = Operation {
    summary: "Set the default and the maximum lifetime of new access tokens",
    description: "The call replaces both. Existing tokens keep their expiry. GET /v1/auth shows the present policy.",
    params: TokenPolicyParams::LIST,
    answers: || ResponseSpec::no_content("The policy is set"),
    ..Operation::change(
        "setTokenPolicy",
        Method::Put,
        &TOKEN_POLICY,
        AUTH_MANAGE,
        handler!(set_policy),
    )
};

params! {
    struct NewTokenParams {
        subject: SubjectName = SUBJECT,
        ttl: Option<Duration> = TOKEN_TTL,
        never: bool = NEVER,
    }

    struct RotateParams {
        grace: Duration = GRACE,
        ttl: Option<Duration> = NEW_TOKEN_TTL,
        never: bool = NEVER,
    }

    struct DeleteTokenParams {
        sessions: bool = CLOSE_SESSIONS,
    }

    struct TokenPolicyParams {
        default_ttl: Option<Duration> = DEFAULT_TTL,
        max_ttl: Option<Duration> = MAX_TTL,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    let now = call.now();
    call.ok(call.service().access_tokens(), |tokens, _| {
        let tokens = tokens.into_iter().map(|(id, token)| AccessTokenBody {
            id,
            expired: token.expires_at.is_some_and(|at| at <= now),
            subject: token.subject,
            ttl_ms: token.ttl_ms,
            created_at: Rfc3339Time(token.created_at),
            expires_at: token.expires_at.map(Rfc3339Time),
        });
        AccessTokensBody { tokens: tokens.collect() }
    })
    .await
}

async fn create(call: &mut CallContext<'_>) -> HandlerResult {
    let NewTokenParams { subject, ttl, never } = call.params()?;
    let lifetime = lifetime(never, ttl)?.unwrap_or(TokenLifetime::Default);
    Ok(issued(call.run(call.service().issue_token(subject, lifetime)).await?))
}

async fn rotate(call: &mut CallContext<'_>) -> HandlerResult {
    let token = call.access_token()?;
    let RotateParams { grace, ttl, never } = call.params()?;
    let lifetime = lifetime(never, ttl)?;
    Ok(issued(call.run(call.service().rotate_token(token, grace, lifetime)).await?))
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let token = call.access_token()?;
    let DeleteTokenParams { sessions } = call.params()?;
    let service = call.service();
    let mut subject = None;
    if sessions {
        subject = service.subject_to_revoke(token).await.map_err(|failure| call.error(failure))?;
    }
    // Closed before as well: after a failure between the two steps, a repetition still finds the token and its subject.
    let mut closed = 0;
    if let Some(subject) = &subject {
        let all = SessionId(u64::MAX);
        let before = service.close_sessions_of(subject, all).await;
        closed = before.map_err(|failure| call.error(failure))?;
    }
    let deleted = call.run(service.change_auth(AuthChange::DeleteToken { token })).await?;
    closed_sessions(call, subject, deleted, closed).await
}

async fn set_policy(call: &mut CallContext<'_>) -> HandlerResult {
    let TokenPolicyParams { default_ttl, max_ttl } = call.params()?;
    let policy =
        TokenPolicy { default_ttl_ms: default_ttl.map(millis), max_ttl_ms: max_ttl.map(millis) };
    call.no_content(call.service().change_auth(AuthChange::SetTokenPolicy(policy))).await
}

/// The lifetime that a call wants; `None` if it names none.
fn lifetime(never: bool, ttl: Option<Duration>) -> Result<Option<TokenLifetime>, ParamError> {
    match (never, ttl) {
        (true, Some(_)) => {
            Err(ParamError::excluded("never", "ttl").hint("send one of them, or neither"))
        }
        (true, None) => Ok(Some(TokenLifetime::Never)),
        (false, ttl) => Ok(ttl.map(TokenLifetime::Of)),
    }
}

/// The response with the secret of a new access token, which no cache may keep.
pub(super) fn issued(issued: Response<IssuedToken>) -> Reply {
    let Response { value, revision, .. } = issued;
    secret_reply(&issued_body(value), revision)
}

pub(super) fn issued_body(issued: IssuedToken) -> IssuedTokenBody {
    let IssuedToken { token, subject, expires_at } = issued;
    let expires_at = expires_at.map(Rfc3339Time);
    IssuedTokenBody { token: token.reveal(), id: token.id, subject, expires_at }
}

/// A response that no cache may keep.
pub(super) fn secret_reply(body: &impl Serialize, revision: Revision) -> Reply {
    let no_store = HeaderValue::from_static("no-store");
    Reply::json(StatusCode::CREATED, body).at(revision).with_header(header::CACHE_CONTROL, no_store)
}
