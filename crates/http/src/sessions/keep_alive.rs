//! `POST /v1/sessions/{id}/keepalive`: renew a session, and with `wait` or `since` wait for its events.
//! `POST /v1/keepalive`: renew many sessions. The body is a JSON list of their ids.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::session::{EVENTS_SINCE, EVENTS_WAIT, RENEWED_INCARNATION};
use holdfast_api::{
    CallParams as _, ErrorCode, EventBody, GapBody, KEEPALIVE_SESSIONS_MAX, KeepaliveBody,
    KeepaliveManyBody, ParamError, Schemas, SessionBody, SessionEventsBody, params,
};
use holdfast_service::{HoldChange, HoldNotice, ListenReply, ListenRequest, SessionRenewal};
use holdfast_types::{Revision, SessionId, SessionName, Stamp};

use super::session_reply;
use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Content, Example, Method, Operation, ResponseSpec, handler};
use crate::routes;
use crate::status::with_status;

pub(crate) static KEEP_ALIVE: Operation = Operation {
    summary: "Renew a session without a log entry",
    description: "Only a leader whose leadership a quorum has just confirmed answers. With wait or since the answer also \
        carries the events of the session's locks. A 200 is about the session: the response lists in holds which locks the \
        session still holds, and a lock that is missing there is lost.",
    params: KeepAliveParams::LIST,
    answers: || {
        let about = "The session is renewed";
        let renewed = ResponseSpec::json(StatusCode::OK, about, Schemas::of::<SessionBody>);
        vec![renewed.or("application/json", Content::Json(Schemas::of::<SessionEventsBody>))]
    },
    errors: &[ErrorCode::SessionExpired],
    is_rate_limited: false,
    late_copies: LateCopies::Renewal,
    ..Operation::change(
        "keepSessionAlive",
        Method::Post,
        &routes::KEEP_ALIVE,
        CallAccess::Subject,
        handler!(keep_alive),
    )
};

pub(crate) static KEEP_MANY_ALIVE: Operation = Operation {
    summary: "Renew many sessions at once",
    description: "The leader confirms its leadership once for all of them. Each session has a result of its own. The results \
        do not list holds: POST /v1/sessions/{id}/keepalive does, and PUT of a lock with its attempt returns 409 after a loss.",
    example: Example { query: "", body: "[\"me\"]" },
    answers: || {
        let about = "The result of each session";
        ResponseSpec::ok(about, Schemas::of::<KeepaliveManyBody>)
    },
    errors: &[ErrorCode::BadName],
    is_rate_limited: false,
    late_copies: LateCopies::Renewal,
    body: BodyKind::Sessions,
    ..Operation::change(
        "keepSessionsAlive",
        Method::Post,
        &routes::KEEP_MANY_ALIVE,
        CallAccess::Subject,
        handler!(keep_many_alive),
    )
};

params! {
    struct KeepAliveParams {
        wait: Option<Duration> = EVENTS_WAIT,
        since: Option<Revision> = EVENTS_SINCE,
        incarnation: Option<SessionId> = RENEWED_INCARNATION,
    }
}

async fn keep_alive(call: &mut CallContext<'_>) -> HandlerResult {
    let session = call.session()?;
    let KeepAliveParams { wait, since, incarnation } = call.params()?;
    if wait.is_some() || since.is_some() {
        let wait = wait.unwrap_or_default();
        return listen(call, ListenRequest { session, incarnation, since, wait }).await;
    }
    let response = call.run(call.service().keep_alive(session, incarnation)).await?;
    Ok(session_reply(call, response))
}

async fn listen(call: &mut CallContext<'_>, request: ListenRequest) -> HandlerResult {
    call.log_fields.wait = request.wait;
    let body = |ListenReply { view, expires_in, waited, events, gap }: ListenReply, revision| {
        let now = call.now();
        SessionEventsBody {
            session: SessionBody::new(view, expires_in, now, revision),
            waited_ms: holdfast_types::millis(waited),
            events: events.into_iter().map(|event| event_body(event, now)).collect(),
            gap: gap.map(|until| GapBody { until }),
        }
    };
    call.ok(call.service().listen(request), body).await
}

fn event_body(notice: HoldNotice, now: Stamp) -> EventBody {
    let HoldNotice { revision, lock, owner, ticket, token, change, .. } = notice;
    let body = |lost| EventBody::new(revision, lock, owner, ticket, token, lost);
    match change {
        HoldChange::Granted { .. } | HoldChange::ValueChanged { .. } => body(None),
        HoldChange::Lost { cause, broken: None } => body(Some(cause)),
        HoldChange::Lost { cause, broken: Some(reason) } => {
            body(Some(cause)).broken(reason.to_string())
        }
        HoldChange::ReleaseRequested(request) => body(None).asked(request, now),
    }
}

async fn keep_many_alive(call: &mut CallContext<'_>) -> HandlerResult {
    let sessions = session_ids(&call.body)?;
    let sessions = sessions.into_iter().map(|session| call.whole_session("session", session));
    let sessions = sessions.collect::<Result<_, _>>()?;
    let result = |SessionRenewal { session, renewed }| match renewed {
        Ok((ttl, expires_in)) => KeepaliveBody::renewed(session, ttl, expires_in),
        Err(failure) => KeepaliveBody::refused(session, with_status(call.error(failure))),
    };
    let body = |kept: Vec<SessionRenewal>, revision| KeepaliveManyBody {
        sessions: kept.into_iter().map(result).collect(),
        revision,
    };
    call.ok(call.service().keep_many_alive(sessions), body).await
}

fn session_ids(body: &[u8]) -> Result<Vec<SessionName>, ParamError> {
    const HINT: &str = r#"send a JSON list of session ids as the body: ["me", "you"]"#;
    let ids: Vec<String> = serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body is not a list of session ids: {error}");
        ParamError::invalid("body", detail).hint(HINT)
    })?;
    if ids.is_empty() || ids.len() > KEEPALIVE_SESSIONS_MAX {
        let detail = format!("{} sessions: 1 to {KEEPALIVE_SESSIONS_MAX} at once", ids.len());
        return Err(ParamError::invalid("body", detail).hint(HINT));
    }
    let session =
        |id| SessionName::new(id).map_err(|error| ParamError::bad_name("session", &error));
    ids.into_iter().map(session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_a_list_of_1_to_1000_ids() {
        assert_eq!(session_ids(br#"["a","b"]"#).unwrap().len(), 2);
        for body in ["", "[]", r#"{"sessions":["a"]}"#, r#"["a b"]"#, "[1]"] {
            assert!(session_ids(body.as_bytes()).is_err(), "{body}");
        }
        let many = format!("[{}\"a\"]", "\"a\",".repeat(KEEPALIVE_SESSIONS_MAX));
        assert!(session_ids(many.as_bytes()).unwrap_err().detail.contains("1 to 1000"));
    }
}
