//! `DELETE /v1/locks/{name}`: release a lock or leave its queue; with `to` hand the hold over, with `force` break it.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::parameters::lock::{BREAK_REASON, FORCE, RELEASED_SESSION, TO, TO_OWNER};
use holdfast_api::parameters::{OWNER, REDIRECT, RELEASED_ATTEMPT, RELEASED_TOKEN};
use holdfast_api::{
    BrokenBody, CallParams as _, ErrorCode, HOLDFAST_HOLD_COUNT, HandedOverBody, ParamError,
    Schemas, params,
};
use holdfast_service::Response;
use holdfast_types::{
    Attempt, Break, BreakTarget, FencingToken, HandOver, LockName, Owner, Reason, Release,
    ReleaseTarget, Released, SessionName,
};

use super::{owner_or_unnamed, release_target};
use crate::call::CallContext;
use crate::operation::{Content, Header, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LOCK;
use crate::status::HttpError;

const HOLD_COUNT: Header = Header::number(
    HOLDFAST_HOLD_COUNT,
    "If the call named an attempt: attempts that still keep the lock",
);

const TO_HINT: &str =
    "add &to=SESSION, and name the hold by its token: it is handed over with all its attempts";

pub(crate) static OPERATION: Operation = Operation {
    summary: "Release a lock, leave its queue, hand the lock over, or break it",
    description: "With token or attempt a late copy of the call changes nothing. Without them the call ends the hold or the \
        wait that the owner has when the call arrives. With to another session holds the lock at once, with a new token. With \
        force every holder loses the lock. On a sharded lock the call releases the caller's segment.",
    params: ReleaseParams::LIST,
    answers: || {
        let handed = "The lock was handed over";
        vec![
            ResponseSpec::empty(StatusCode::NO_CONTENT, "The place is given up")
                .with(&[HOLD_COUNT]),
            ResponseSpec::json(StatusCode::OK, handed, Schemas::of::<HandedOverBody>)
                .or("application/json", Content::Json(Schemas::of::<BrokenBody>)),
        ]
    },
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotHolder,
        ErrorCode::InUse,
        ErrorCode::Deadlock,
        ErrorCode::QuotaExceeded,
        ErrorCode::LimitMismatch,
        ErrorCode::SessionExpired,
    ],
    ..Operation::write("releaseLock", Method::Delete, &LOCK, |call| release(call).boxed())
};

params! {
    struct ReleaseParams {
        session: Option<SessionName> = RELEASED_SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
        to: Option<SessionName> = TO,
        to_owner: Option<Owner> = TO_OWNER,
        reason: Option<Reason> = BREAK_REASON,
        token: Option<FencingToken> = RELEASED_TOKEN,
        force: bool = FORCE,
        _redirect: bool = REDIRECT,
    }
}

/// The command that the parameters request.
#[derive(Debug)]
enum ReleaseCommand {
    Break(Break),
    HandOver(HandOver),
    Release(Release),
}

async fn release(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock()?;
    let params: ReleaseParams = call.params()?;
    call.log_fields.session.clone_from(&params.session);
    match command(lock, params)? {
        ReleaseCommand::Break(command) => {
            let lock = command.lock.clone();
            let broken = call.run(call.service().break_holds(&call.context, command)).await?;
            let Response { value: broken, revision, .. } = broken;
            Ok(Reply::json(StatusCode::OK, &BrokenBody { lock, broken, revision }).at(revision))
        }
        ReleaseCommand::HandOver(command) => {
            let handed = call.run(call.service().hand_over(command)).await?;
            let Response { value: grant, revision, .. } = handed;
            Ok(Reply::json(StatusCode::OK, &HandedOverBody::new(grant, revision)).at(revision))
        }
        ReleaseCommand::Release(command) => {
            let names_attempt = matches!(command.target, ReleaseTarget::Attempt(_));
            let released = call.run(call.service().release(command)).await?;
            let Response { value: Released { hold_count, .. }, revision, .. } = released;
            let reply = Reply::empty(StatusCode::NO_CONTENT).at(revision);
            if !names_attempt {
                return Ok(reply);
            }
            let left = HeaderValue::from(hold_count);
            Ok(reply.with_header(HeaderName::from_static(HOLDFAST_HOLD_COUNT), left))
        }
    }
}

fn command(lock: LockName, params: ReleaseParams) -> Result<ReleaseCommand, ParamError> {
    if params.force || params.reason.is_some() {
        return break_command(lock, params).map(ReleaseCommand::Break);
    }
    let Some(session) = params.session else {
        let detail = "a release must name the session that holds the lock or waits for it";
        return Err(invalid("session", detail, "add ?session=ID with the session of the grant"));
    };
    let owner = owner_or_unnamed(params.owner);
    let target = release_target(params.attempt, params.token)?;
    match (params.to, params.to_owner) {
        (None, None) => {
            Ok(ReleaseCommand::Release(Release { locks: lock.into(), session, owner, target }))
        }
        (None, Some(_)) => Err(invalid("to_owner", "'to_owner' needs 'to'", TO_HINT)),
        (Some(_), _) if params.attempt.is_some() => {
            Err(invalid("attempt", "'attempt' and 'to' exclude each other", TO_HINT))
        }
        (Some(to), to_owner) => Ok(ReleaseCommand::HandOver(HandOver {
            lock,
            from: (session, owner),
            to: (to, owner_or_unnamed(to_owner)),
            token: params.token,
        })),
    }
}

fn break_command(lock: LockName, params: ReleaseParams) -> Result<Break, ParamError> {
    let others = [
        ("session", params.session.is_some()),
        ("owner", params.owner.is_some()),
        ("attempt", params.attempt.is_some()),
        ("to", params.to.is_some()),
        ("to_owner", params.to_owner.is_some()),
    ];
    match (params.force, params.reason, others.into_iter().find(|(_, is_given)| *is_given)) {
        (false, ..) => {
            let hint = "add &force to break the lock, or leave reason out";
            Err(invalid("reason", "'reason' is for 'force'", hint))
        }
        (true, _, Some((other, _))) => {
            let detail = format!("'force' and '{other}' exclude each other");
            Err(invalid(other, detail, "force breaks the lock for every holder"))
        }
        (true, None, None) => {
            let hint = "add &reason=TEXT: it is shown to the holders that lose the lock";
            Err(invalid("reason", "'force' needs a reason", hint))
        }
        (true, Some(reason), None) => Ok(Break {
            lock,
            what: params.token.map_or(BreakTarget::Holders, BreakTarget::Token),
            reason,
        }),
    }
}

fn invalid(parameter: &str, detail: impl Into<String>, hint: &str) -> ParamError {
    ParamError::of(parameter, ErrorCode::InvalidArgument, detail).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<ReleaseCommand, ParamError> {
        command(LockName::new("orders").unwrap(), ReleaseParams::from_query(query)?)
    }

    #[test]
    fn a_release_needs_a_session_and_has_at_most_one_target() {
        let target = |query: &str| match read(query) {
            Ok(ReleaseCommand::Release(release)) => release.target,
            other => panic!("{other:?}"),
        };
        assert_eq!(target("session=me"), ReleaseTarget::AnyEntry);
        assert_eq!(target("session=me&attempt=2"), ReleaseTarget::Attempt(Attempt(2)));
        assert_eq!(target("session=me&token=7"), ReleaseTarget::Hold(FencingToken(7)));
        assert_eq!(read("").unwrap_err().parameter.as_deref(), Some("session"));
        for query in [
            "session=me&token=1&attempt=2",
            "session=me&token=0",
            "session=me&attempt=9223372036854775808",
            "session=me&permits=1",
        ] {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }

    #[test]
    fn a_hand_over_accepts_no_attempt_and_needs_both_sessions() {
        let Ok(ReleaseCommand::HandOver(handed)) = read("session=me&token=3&to=you&to_owner=t1")
        else {
            panic!("no hand-over")
        };
        assert_eq!((handed.to.0.as_str(), handed.to.1.as_str()), ("you", "t1"));
        assert_eq!(handed.token, Some(FencingToken(3)));
        for query in ["session=me&to_owner=t1", "session=me&to=you&attempt=1", "to=you"] {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }

    #[test]
    fn a_break_needs_a_reason_and_accepts_no_session() {
        let broken = |query: &str| match read(query) {
            Ok(ReleaseCommand::Break(command)) => (command.what, command.reason.to_string()),
            other => panic!("{other:?}"),
        };
        let reason = "host is gone".to_owned();
        assert_eq!(broken("force&reason=host+is+gone"), (BreakTarget::Holders, reason.clone()));
        let token = BreakTarget::Token(FencingToken(7));
        assert_eq!(broken("force&reason=host+is+gone&token=7"), (token, reason));
        for query in
            ["force", "session=me&reason=x", "force&reason=x&session=me", "force&reason=x&to=you"]
        {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
