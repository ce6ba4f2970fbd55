//! What the calls that acquire share, also those of elections: the session, the attempt, the errors and the reply.
//!
//! A durable hold has an owner instead of a session.

use axum::http::{HeaderName, StatusCode};
use holdfast_api::{ErrorCode, FENCING_TOKEN, GrantBody, ParamError};
use holdfast_service::{Granted, Response, generate_session_name};
use holdfast_types::{
    Attempt, FencingToken, Labels, LockName, Mode, OpenSession, Owner, Reason, Revision, SessionId,
    SessionName, Stamp, Ttl,
};
use serde::Serialize;

use crate::call::{CallContext, accepts_text};
use crate::operation::Header;
use crate::reply::Reply;
use crate::status::HttpError;

pub(crate) const GRANTED_TOKEN: Header =
    Header::number(FENCING_TOKEN, "The fencing token of the grant");

/// Errors of a call that acquires locks or an election.
pub(crate) const ACQUIRE_ERRORS: &[ErrorCode] = &[
    ErrorCode::QuotaExceeded,
    ErrorCode::EphemeralParent,
    ErrorCode::SessionExpired,
    ErrorCode::ModeConflict,
    ErrorCode::ValueConflict,
    ErrorCode::NotHolder,
    ErrorCode::Deadlock,
    ErrorCode::InUse,
    ErrorCode::LimitMismatch,
    ErrorCode::ShardsMismatch,
    ErrorCode::AttemptOver,
    ErrorCode::NotReentrant,
    ErrorCode::LockInCooldown,
    ErrorCode::LockBusy,
    ErrorCode::WaitTimeout,
    ErrorCode::TooManyWaiters,
];

/// The session of an acquire: the named one, or one that lives as long as the hold.
pub(crate) fn acquiring_session(
    call: &mut CallContext<'_>,
    (session, incarnation): (Option<SessionName>, Option<SessionId>),
    (attempt, change): (Option<Attempt>, Option<Attempt>),
    ttl: Option<Ttl>,
    labels: Labels,
) -> Result<OpenSession, HttpError> {
    check_attempts(attempt, change, session.as_ref())?;
    if incarnation.is_some() && session.is_none() {
        let detail = "'incarnation' needs 'session'";
        let error = ParamError::invalid("incarnation", detail);
        return Err(error.hint("add the parameter session=ID of that incarnation").into());
    }
    call.log_fields.session.clone_from(&session);
    let anonymous = session.is_none();
    let session = session.map_or_else(generate_session_name, Ok);
    let session = session.map_err(|failure| call.error(failure))?;
    let session = call.whole_session("session", session)?;
    Ok(OpenSession { ttl, anonymous, labels, incarnation, ..OpenSession::of(session) })
}

/// Checks the numbers of an acquire. Only a session that the caller names remembers its attempts: a copy of another call would be
/// a new acquire. A change names an attempt of its session, and has another number.
pub(super) fn check_attempts(
    attempt: Option<Attempt>,
    change: Option<Attempt>,
    session: Option<&SessionName>,
) -> Result<(), ParamError> {
    match (change, session) {
        (Some(_), None) => Err(ParamError::invalid("change", "'change' needs 'session'")
            .hint("add the parameter session=ID with the session of the grant")),
        (Some(change), Some(_))
            if change != Attempt::UNNAMED && attempt.is_none_or(|attempt| attempt <= change) =>
        {
            let detail = format!("'change={change}' needs a larger 'attempt'");
            let hint = "add the parameter attempt=N with a number larger than all earlier ones of the session";
            Err(ParamError::invalid("change", detail).hint(hint))
        }
        (None, None) if attempt.is_some() => {
            let hint = "add the parameter session=ID: the session remembers which of its attempts are over";
            Err(ParamError::invalid("attempt", "'attempt' needs 'session'").hint(hint))
        }
        (_, _) => Ok(()),
    }
}

/// The body of a grant; `whole` is the sharded lock of the granted shard.
pub(super) fn grant_body(
    granted: Response<Granted>,
    whole: Option<&LockName>,
    now: Stamp,
) -> GrantBody {
    let Response { value: Granted { grant, waited, expires_in, .. }, revision, .. } = granted;
    let body = GrantBody::new(grant, (waited, expires_in), now, revision);
    match whole {
        Some(whole) => body.of_whole(whole),
        None => body,
    }
}

/// A grant: the body, or the token alone if the caller accepts only text.
pub(crate) fn grant_reply(
    call: &CallContext<'_>,
    token: FencingToken,
    body: &impl Serialize,
    revision: Revision,
) -> Reply {
    let reply = if accepts_text(&call.parts.headers) {
        Reply::text(StatusCode::OK, format!("{token}\n"))
    } else {
        Reply::json(StatusCode::OK, body)
    };
    reply.with_header(HeaderName::from_static(FENCING_TOKEN), token.0.into()).at(revision)
}

/// The owner and the reason of a durable acquire, `hold=durable`: a hold without a session and a time-to-live, which ends with its
/// token, or by force. Its acquire has an attempt, so that a late copy does not take the lock after the release.
#[derive(Debug)]
pub(super) struct DurableHold {
    owner: Owner,
    pub(super) reason: Reason,
}

const DURABLE_HINT: &str =
    "a durable hold has an owner, a reason and a token, and no other end: leave one of them out";

impl DurableHold {
    /// Reads the acquire's parameters; `others` are those that a durable hold cannot have.
    pub(super) fn of(
        owner: Option<&Owner>,
        attempt: Option<Attempt>,
        reason: Option<&str>,
        mode: Option<Mode>,
        others: &[(&'static str, bool)],
    ) -> Result<Self, ParamError> {
        check_absent(others)?;
        if mode == Some(Mode::Upgradable) {
            let detail = "a durable hold is exclusive or shared";
            let error = ParamError::invalid("mode", detail);
            return Err(error.hint("leave mode out, or write mode=shared"));
        }
        let owner = durable_owner(owner)?;
        if attempt.is_none() {
            let detail = "'hold=durable' needs 'attempt'";
            return Err(ParamError::invalid("attempt", detail)
                .hint("add attempt=N, greater than in each earlier acquire of this owner: date +%s%6N prints one"));
        }
        let detail = "'hold=durable' needs 'reason'";
        let reason = reason.ok_or_else(|| {
            ParamError::invalid("reason", detail)
                .hint("add reason=TEXT: say what the lock protects, and who to ask")
        })?;
        let reason = Reason::new(reason).map_err(|error| ParamError::bad_name("reason", &error))?;
        Ok(Self { owner, reason })
    }

    /// The session of the owner's durable holds.
    pub(super) fn open(
        &self,
        call: &CallContext<'_>,
        labels: Labels,
    ) -> Result<OpenSession, HttpError> {
        let session = durable_session_of(call, &self.owner)?;
        Ok(OpenSession { labels, ..OpenSession::of(session) })
    }
}

/// The session of the durable holds of an owner.
pub(super) fn durable_session_of(
    call: &CallContext<'_>,
    owner: &Owner,
) -> Result<SessionName, HttpError> {
    let bad_name = |error| ParamError::bad_name("owner", &error);
    let name = SessionName::new(owner.as_str()).map_err(bad_name)?;
    call.whole_session("owner", SessionName::durable(&name).map_err(bad_name)?)
}

/// Rejects the first of some parameters that is given.
pub(super) fn check_absent(others: &[(&'static str, bool)]) -> Result<(), ParamError> {
    ParamError::check_alone("hold=durable", others, DURABLE_HINT)
}

/// The owner, which names the hold in every call.
pub(super) fn durable_owner(owner: Option<&Owner>) -> Result<Owner, ParamError> {
    let owner = owner.filter(|owner| **owner != Owner::unnamed());
    owner.cloned().ok_or_else(|| {
        let detail = "'hold=durable' needs 'owner'";
        ParamError::invalid("owner", detail)
            .hint("add owner=NAME: a person, or a name that the job keeps when it is repeated")
    })
}
