//! `DELETE /v1/locks/{name}`: release a lock or leave its queue.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use holdfast_api::parameters::lock::{RELEASED_HOLD, RELEASED_PERMITS, RELEASED_SESSION};
use holdfast_api::parameters::{OWNER, RELEASED_ATTEMPT, RELEASED_TOKEN, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, HOLDFAST_HOLD_COUNT, ParamError, missing, params};
use holdfast_service::Response;
use holdfast_types::{
    Attempt, FencingToken, HoldName, Owner, Release, ReleaseTarget, Released, RequestNumber,
    SessionName,
};

use super::durable;
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Header, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::LOCK;

/// Errors of a call that ends a hold or a wait.
pub(crate) const RELEASE_ERRORS: &[ErrorCode] = &[
    ErrorCode::NotFound,
    ErrorCode::NotHolder,
    ErrorCode::LimitMismatch,
    ErrorCode::SessionExpired,
];

const HOLD_COUNT: Header = Header::number(
    HOLDFAST_HOLD_COUNT,
    "If the call named an attempt: attempts that still keep the lock",
);

pub(crate) static OPERATION: Operation = Operation {
    summary: "Release a lock, or leave its queue",
    description: "With token or attempt a late copy of the call changes nothing. Without them the call ends the hold or the \
        wait that the owner has when the call arrives. On a sharded lock the call releases the caller's shard. With permits \
        the call gives back a part of a hold of a semaphore.",
    params: ReleaseParams::LIST,
    example: Example { query: "session=me&attempt=1", body: "" },
    answers: || {
        let about = "The caller neither holds the lock nor waits for it";
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, about).with(&[HOLD_COUNT])]
    },
    errors: RELEASE_ERRORS,
    late_copies: LateCopies::ReleasePermits,
    ..Operation::change(
        "releaseLock",
        Method::Delete,
        &LOCK,
        CallAccess::Subject,
        handler!(release),
    )
};

params! {
    struct ReleaseParams {
        session: Option<SessionName> = RELEASED_SESSION,
        hold: Option<&'static str> = RELEASED_HOLD,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
        token: Option<FencingToken> = RELEASED_TOKEN,
        permits: Option<u32> = RELEASED_PERMITS,
        request: Option<RequestNumber> = REQUEST,
    }
}

async fn release(call: &mut CallContext<'_>) -> HandlerResult {
    let locks = call.lock()?.into();
    let params: ReleaseParams = call.params()?;
    let target = target_of(&params)?;
    let ReleaseParams { session, owner, attempt, .. } = params;
    let session = match session {
        Some(session) => session,
        None => durable::session_of(call, &durable::named(owner.as_ref())?)?,
    };
    call.log_fields.session = Some(session.clone());
    let release = Release { locks, session, owner: owner.unwrap_or_else(Owner::unnamed), target };
    let released = call.run(call.service().release(release)).await?;
    let Response { value: Released { hold_count, .. }, revision, .. } = released;
    let reply = Reply::empty(StatusCode::NO_CONTENT).at(revision);
    if attempt.is_none() {
        return Ok(reply);
    }
    let left = HeaderValue::from(hold_count);
    Ok(reply.with_header(HeaderName::from_static(HOLDFAST_HOLD_COUNT), left))
}

/// The target of a release.
pub(crate) fn release_target(
    attempt: Option<Attempt>,
    token: Option<FencingToken>,
) -> Result<ReleaseTarget, ParamError> {
    match (attempt, token) {
        (None, None) => Ok(ReleaseTarget::AnyEntry),
        (Some(attempt), None) => Ok(ReleaseTarget::Attempt(attempt)),
        (None, Some(token)) => Ok(ReleaseTarget::Hold(token)),
        (Some(_), Some(_)) => Err(ParamError::excluded("token", "attempt")
            .hint("name the token to give up a hold, or the attempt while there is no token yet")),
    }
}

/// What a call releases. A durable hold is named by its owner and its token.
fn target_of(params: &ReleaseParams) -> Result<ReleaseTarget, ParamError> {
    let ReleaseParams { session, hold, owner, attempt, token, permits, request } = params;
    if hold.is_none() {
        session.as_ref().ok_or_else(|| missing(&RELEASED_SESSION))?;
        return Ok(part_of(release_target(*attempt, *token)?, *permits));
    }
    durable::check_absent(&[
        ("session", session.is_some()),
        ("attempt", attempt.is_some()),
        ("permits", permits.is_some()),
        ("request", request.is_some()),
    ])?;
    durable::named(owner.as_ref())?;
    let detail = "'hold=durable' needs 'token'";
    let token = token.ok_or_else(|| {
        ParamError::invalid("token", detail).hint(
            "add token=N with the token of the grant, or end the hold by force as an operator",
        )
    })?;
    Ok(ReleaseTarget::Hold(token))
}

/// The target of a release, or this many permits of it.
fn part_of(target: ReleaseTarget, permits: Option<u32>) -> ReleaseTarget {
    let name = match target {
        ReleaseTarget::Attempt(attempt) => HoldName::Attempt(attempt),
        ReleaseTarget::Hold(token) => HoldName::Token(token),
        ReleaseTarget::AnyEntry | ReleaseTarget::Permits(..) => HoldName::Unnamed,
    };
    permits.map_or(target, |permits| ReleaseTarget::Permits(name, permits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_at_most_one_target() {
        let target = |query: &str| target_of(&ReleaseParams::from_query(query)?);
        assert_eq!(target("session=me"), Ok(ReleaseTarget::AnyEntry));
        assert_eq!(target("session=me&attempt=2"), Ok(ReleaseTarget::Attempt(Attempt(2))));
        assert_eq!(target("session=me&token=7"), Ok(ReleaseTarget::Hold(FencingToken(7))));
        let part = |name, permits| Ok(ReleaseTarget::Permits(name, permits));
        assert_eq!(target("session=me&permits=2"), part(HoldName::Unnamed, 2));
        let attempt = HoldName::Attempt(Attempt(3));
        assert_eq!(target("session=me&permits=1&attempt=3&request=9"), part(attempt, 1));
        let token = HoldName::Token(FencingToken(7));
        assert_eq!(target("session=me&permits=1&token=7"), part(token, 1));
        let durable = "hold=durable&owner=carol&token=7";
        assert_eq!(target(durable), Ok(ReleaseTarget::Hold(FencingToken(7))));
        for (query, parameter) in [
            ("hold=durable&token=7".to_owned(), "owner"),
            ("hold=durable&owner=carol".to_owned(), "token"),
            (format!("{durable}&session=me"), "session"),
            (format!("{durable}&attempt=1"), "attempt"),
            (format!("{durable}&permits=1"), "permits"),
            (format!("{durable}&request=1"), "request"),
        ] {
            assert_eq!(
                target(&query).unwrap_err().parameter.as_deref(),
                Some(parameter),
                "{query}"
            );
        }
        assert_eq!(target("").unwrap_err().parameter.as_deref(), Some("session"));
        for query in [
            "session=me&token=1&attempt=2",
            "session=me&token=0",
            "session=me&attempt=9223372036854775808",
            "session=me&permits=0",
            "session=me&permits=1&request=0",
            "session=me&to=you",
            "session=me&force",
        ] {
            assert_eq!(target(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
