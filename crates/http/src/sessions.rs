//! Sessions: `POST /v1/sessions` and `PUT /v1/sessions/{id}` open one, `DELETE` closes it, and `GET` reads it or lists all.
//!
//! `keep_alive` renews sessions. With `force` an operator closes the session of another client.

pub(crate) mod keep_alive;

use axum::http::{HeaderValue, StatusCode, header};
use holdfast_api::parameters::session::{CLOSED_INCARNATION, FORCE, OPEN_ATTEMPT, REASON};
use holdfast_api::parameters::{INCARNATION, LABELS, TTL};
use holdfast_api::{
    CallParams as _, ErrorCode, ParamError, Schemas, SessionBody, SessionsBody, params,
    session_path,
};
use holdfast_service::{Response, SessionLease, generate_session_name};
use holdfast_types::{Attempt, Labels, OpenSession, Reason, Right, SessionId, Ttl};

use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, PageParams, ReadParams, read_mode};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Header, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{SESSION, SESSIONS};

const LOCATION: Header = Header::text("location", "The path of the session");

pub(crate) static CREATE: Operation = Operation {
    summary: "Open a session with an id that the server generates",
    params: OpenParams::LIST,
    answers: || {
        let about = "The session is open";
        let opened = ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<SessionBody>);
        vec![opened.with(&[LOCATION])]
    },
    errors: &[ErrorCode::QuotaExceeded],
    late_copies: LateCopies::NewSession,
    body: BodyKind::LISTS,
    ..Operation::change(
        "createSession",
        Method::Post,
        &SESSIONS,
        CallAccess::Right(Right::SessionOpen),
        handler!(create),
    )
};

pub(crate) static OPEN: Operation = Operation {
    summary: "Open a session, or renew it",
    description: "A session owns locks and ephemeral nodes. It ends when it is closed, or when its ttl has passed since its \
        last renewal. Everything that it holds is released then.",
    params: OpenNamedParams::LIST,
    example: Example { query: "ttl=1m", body: "" },
    answers: || {
        let renewed = "The session was open and is renewed";
        let opened = "The session is open";
        vec![
            ResponseSpec::json(StatusCode::OK, renewed, Schemas::of::<SessionBody>),
            ResponseSpec::json(StatusCode::CREATED, opened, Schemas::of::<SessionBody>)
                .with(&[LOCATION]),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::SessionExpired, ErrorCode::AttemptOver],
    late_copies: LateCopies::OpenAttempt,
    body: BodyKind::LISTS,
    ..Operation::change(
        "openSession",
        Method::Put,
        &SESSION,
        CallAccess::Right(Right::SessionOpen),
        handler!(open),
    )
};

pub(crate) static CLOSE: Operation = Operation {
    summary: "Close a session and release everything it holds",
    description: "The call may be repeated. On a session that expired it acknowledges the loss, so that the id can be used \
        again.",
    params: CloseParams::LIST,
    answers: || ResponseSpec::no_content("The session is closed"),
    errors: &[ErrorCode::SessionExpired],
    late_copies: LateCopies::Incarnation,
    ..Operation::change(
        "closeSession",
        Method::Delete,
        &SESSION,
        CallAccess::Subject,
        handler!(close),
    )
};

params! {
    struct OpenParams {
        ttl: Option<Ttl> = TTL,
        labels: Labels = LABELS,
    }

    struct OpenNamedParams {
        attempt: Option<Attempt> = OPEN_ATTEMPT,
        incarnation: Option<SessionId> = INCARNATION,
        ttl: Option<Ttl> = TTL,
        labels: Labels = LABELS,
    }

    struct CloseParams {
        reason: Option<Reason> = REASON,
        force: bool = FORCE,
        incarnation: Option<SessionId> = CLOSED_INCARNATION,
    }
}

async fn create(call: &mut CallContext<'_>) -> HandlerResult {
    let session = generate_session_name().map_err(|failure| call.error(failure))?;
    let session = call.whole_session("session", session)?;
    let OpenParams { ttl, labels } = call.params()?;
    open_session(call, OpenSession { ttl, labels, ..OpenSession::of(session) }, None).await
}

async fn open(call: &mut CallContext<'_>) -> HandlerResult {
    let session = call.session()?;
    let OpenNamedParams { attempt, incarnation, ttl, labels } = call.params()?;
    let open = OpenSession { ttl, labels, incarnation, ..OpenSession::of(session) };
    open_session(call, open, attempt).await
}

async fn open_session(
    call: &CallContext<'_>,
    open: OpenSession,
    attempt: Option<Attempt>,
) -> HandlerResult {
    let response = call.run(call.service().open_session(open, attempt)).await?;
    Ok(session_reply(call, response))
}

/// The session as JSON: 201 with its path if the call opened it, otherwise 200.
fn session_reply(call: &CallContext<'_>, response: Response<SessionLease>) -> Reply {
    let Response { value, revision, leader_contact } = response;
    let SessionLease { view, created, expires_in } = value;
    let location = session_path(&view.session);
    let body = SessionBody::new(view, expires_in, call.now(), revision);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, &body).at(revision).stale(leader_contact);
    match HeaderValue::try_from(location) {
        Ok(location) if created => reply.with_header(header::LOCATION, location),
        Ok(_) | Err(_) => reply,
    }
}

async fn close(call: &mut CallContext<'_>) -> HandlerResult {
    let session = call.session()?;
    let params: CloseParams = call.params()?;
    let incarnation = params.incarnation;
    match operator_reason(params)? {
        Some(reason) => {
            call.no_content(call.service().end_session(session, incarnation, reason)).await
        }
        None => call.no_content(call.service().close_session(session, incarnation)).await,
    }
}

/// The reason of a forced close, or `None` if the client closes its own session.
fn operator_reason(params: CloseParams) -> Result<Option<Reason>, ParamError> {
    let refuse = |detail: &str, hint: &str| Err(ParamError::invalid("reason", detail).hint(hint));
    match (params.force, params.reason) {
        (true, None) => refuse(
            "'force' needs a reason",
            "add the parameter reason=TEXT: it is written into the audit trail",
        ),
        (false, Some(_)) => {
            refuse("'reason' is for 'force'", "add the parameter force, or leave reason out")
        }
        (_, reason) => Ok(reason),
    }
}

pub(crate) static READ: Operation = Operation {
    summary: "Read what a session holds and waits for",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The session", Schemas::of::<SessionBody>),
    errors: &[ErrorCode::SessionExpired],
    ..Operation::read("readSession", &SESSION, CallAccess::Subject, handler!(read))
};

pub(crate) static LIST: Operation = Operation {
    summary: "List all sessions, in order of their ids",
    description: "If there are more, the answer has a next_page_token for the parameter page_token of the next call.",
    params: PageParams::LIST,
    answers: || ResponseSpec::ok("A page of sessions", Schemas::of::<SessionsBody>),
    ..Operation::read("listSessions", &SESSIONS, CallAccess::Subject, handler!(list))
};

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let session = call.session()?;
    let ReadParams { stale } = call.params()?;
    let response = call.run(call.service().session(&session, read_mode(stale))).await?;
    Ok(session_reply(call, response))
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    let PageParams { limit, page_token, stale } = call.params()?;
    let sessions = call.service().sessions(page_token.as_deref(), limit, read_mode(stale));
    call.ok(sessions, |page, _| SessionsBody::new(page, call.now())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(query: &str) -> Result<Option<Reason>, ParamError> {
        operator_reason(CloseParams::from_query(query)?)
    }

    #[test]
    fn a_forced_close_needs_a_reason() {
        assert_eq!(close("").unwrap(), None);
        assert_eq!(
            close("force&reason=stuck").unwrap().as_ref().map(Reason::as_str),
            Some("stuck")
        );
        assert!(close("force").unwrap_err().detail.contains("reason"));
        assert!(close("reason=stuck").is_err());
        assert!(close(&format!("force&reason={}", "x".repeat(257))).is_err());
    }
}
