//! Releases of a lock: by its holder or a waiter (`DELETE /v1/locks/{name}`), on request (`POST /v1/release-requests/{name}`), and by
//! an operator (`POST /v1/force-releases/{name}`).

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use holdfast_api::parameters::lock::{
    ASKED_TOKEN, DEADLINE, ENDED_TICKET, ENDED_TOKEN, FORCE_REASON, RELEASED_HOLD,
    RELEASED_PERMITS, RELEASED_SESSION, REQUEST_REASON, REQUESTED_OWNER, REQUESTED_SESSION, REVOKE,
};
use holdfast_api::parameters::{OWNER, RELEASED_ATTEMPT, RELEASED_TOKEN, REQUEST};
use holdfast_api::{
    CallParams as _, ErrorCode, ForceReleasedBody, HOLDFAST_HOLD_COUNT, ParamError,
    ReleaseRequestedBody, Schemas, missing, params,
};
use holdfast_service::Response;
use holdfast_types::{
    Attempt, FencingToken, ForceRelease, ForceReleaseTarget, HoldName, Owner, Reason, Release,
    ReleaseTarget, Released, RequestNumber, RequestRelease, Right, SessionName, Ticket, millis,
};

use super::acquiring::{check_absent, durable_owner, durable_session_of};
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Header, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{FORCE_RELEASE, LOCK, RELEASE_REQUEST};

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

pub(crate) static RELEASE: Operation = Operation {
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
        None => durable_session_of(call, &durable_owner(owner.as_ref())?)?,
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
    check_absent(&[
        ("session", session.is_some()),
        ("attempt", attempt.is_some()),
        ("permits", permits.is_some()),
        ("request", request.is_some()),
    ])?;
    durable_owner(owner.as_ref())?;
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

pub(crate) static REQUESTED: Operation = Operation {
    summary: "Ask the holders of a lock to release it",
    description: "A holder receives the request in the response to a keepalive that waits for events. With revoke the hold \
        ends at the deadline. A second request replaces the first only if it is stricter: with revoke, or with an \
        earlier deadline.",
    params: RequestReleaseParams::LIST,
    example: Example { query: "reason=maintenance&deadline=5m", body: "" },
    answers: || {
        let about = "The number of holders that were asked";
        ResponseSpec::ok(about, Schemas::of::<ReleaseRequestedBody>)
    },
    errors: &[
        ErrorCode::NotHolder,
        ErrorCode::SessionExpired,
        ErrorCode::NotFound,
        ErrorCode::ShardsMismatch,
    ],
    late_copies: LateCopies::Token,
    ..Operation::change(
        "requestRelease",
        Method::Post,
        &RELEASE_REQUEST,
        CallAccess::Right(Right::LockRequestRelease),
        handler!(request_release),
    )
};

params! {
    struct RequestReleaseParams {
        session: Option<SessionName> = REQUESTED_SESSION,
        owner: Option<Owner> = REQUESTED_OWNER,
        token: Option<FencingToken> = ASKED_TOKEN,
        reason: Option<Reason> = REQUEST_REASON,
        deadline: Duration = DEADLINE,
        revoke: bool = REVOKE,
    }
}

async fn request_release(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let params: RequestReleaseParams = call.params()?;
    let RequestReleaseParams { session, owner, token, reason, deadline, revoke } = params;
    call.log_fields.session.clone_from(&session);
    let holder = holder(session, owner)?;
    let deadline_ms = millis(deadline);
    let request = RequestRelease { lock: lock.clone(), holder, token, reason, deadline_ms, revoke };
    let body = |asked, revision| ReleaseRequestedBody { lock, asked, revision };
    call.ok(call.service().request_release(request), body).await
}

fn holder(
    session: Option<SessionName>,
    owner: Option<Owner>,
) -> Result<Option<(SessionName, Owner)>, ParamError> {
    if session.is_none() && owner.is_some() {
        let detail = "'owner' needs 'session'";
        return Err(ParamError::invalid("owner", detail)
            .hint("name the session of the owner, or leave owner out to ask every holder"));
    }
    Ok(session.map(|session| (session, owner.unwrap_or_else(Owner::unnamed))))
}

pub(crate) static FORCED: Operation = Operation {
    summary: "Force-release a lock: end its holds as an operator",
    description: "Every holder loses the lock and receives the reason; with token only the hold of that token ends, with \
        ticket only the hold or the wait of that ticket. The next waiter is granted the lock after the policy's lock delay. The audit log records the call.",
    params: ForceReleaseParams::LIST,
    answers: || {
        let about = "The number of holds that ended";
        ResponseSpec::ok(about, Schemas::of::<ForceReleasedBody>)
    },
    errors: &[ErrorCode::NotFound, ErrorCode::ShardsMismatch],
    late_copies: LateCopies::TokenOrTicket,
    ..Operation::change(
        "forceRelease",
        Method::Post,
        &FORCE_RELEASE,
        CallAccess::Right(Right::LockForceRelease),
        handler!(force_release),
    )
};

params! {
    struct ForceReleaseParams {
        reason: Reason = FORCE_REASON,
        token: Option<FencingToken> = ENDED_TOKEN,
        ticket: Option<u64> = ENDED_TICKET,
    }
}

async fn force_release(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let params: ForceReleaseParams = call.params()?;
    let (what, reason) = (target(&params)?, params.reason);
    let command = ForceRelease { lock: lock.clone(), what, reason };
    let body = |ended, revision| ForceReleasedBody { lock, ended, revision };
    call.ok(call.service().force_release(command), body).await
}

fn target(params: &ForceReleaseParams) -> Result<ForceReleaseTarget, ParamError> {
    match (params.token, params.ticket) {
        (Some(_), Some(_)) => {
            Err(ParamError::excluded("ticket", "token").hint("send one of them, or neither"))
        }
        (Some(token), None) => Ok(ForceReleaseTarget::Token(token)),
        (None, Some(ticket)) => Ok(ForceReleaseTarget::Ticket(Ticket(ticket))),
        (None, None) => Ok(ForceReleaseTarget::Holders),
    }
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

    fn read(query: &str) -> Result<RequestReleaseParams, ParamError> {
        let params = RequestReleaseParams::from_query(query)?;
        holder(params.session.clone(), params.owner.clone())?;
        Ok(params)
    }

    #[test]
    fn an_owner_needs_a_session_and_a_deadline_has_bounds() {
        assert_eq!(read("").unwrap().deadline, Duration::from_secs(30));
        assert!(read("session=me&owner=o&reason=please&deadline=5s&revoke").is_ok());
        assert_eq!(read("owner=o").unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(read("deadline=0s").unwrap_err().code, ErrorCode::BadDuration);
    }

    #[test]
    fn a_forced_release_needs_a_reason_and_accepts_no_session() {
        let params = ForceReleaseParams::from_query("reason=host+is+down&token=7").unwrap();
        assert_eq!(params.reason.to_string(), "host is down");
        assert_eq!(target(&params).unwrap(), ForceReleaseTarget::Token(FencingToken(7)));
        let of = |query: &str| target(&ForceReleaseParams::from_query(query).unwrap());
        assert_eq!(of("reason=x&ticket=9").unwrap(), ForceReleaseTarget::Ticket(Ticket(9)));
        assert_eq!(of("reason=x").unwrap(), ForceReleaseTarget::Holders);
        assert!(of("reason=x&ticket=9&token=7").is_err());
        for query in ["", "token=7", "reason=", "reason=x&session=me", "reason=x&force"] {
            let error = ForceReleaseParams::from_query(query).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
