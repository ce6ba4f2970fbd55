//! `POST /v1/sessions/{id}/keepalive`: renew a session, and with `wait` or `since` wait for its events.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::session::{EVENTS_SINCE, EVENTS_WAIT};
use holdfast_api::{
    CallParams as _, ErrorCode, EventBody, GapBody, Schemas, SessionBody, SessionEventsBody, params,
};
use holdfast_service::{HoldChange, HoldNotice, ListenReply, ListenRequest, Response};
use holdfast_types::{Revision, Stamp};

use super::session_reply;
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Content, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::KEEP_ALIVE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
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
    ..Operation::write(
        "keepSessionAlive",
        Method::Post,
        &KEEP_ALIVE,
        LateCopies::Renewal,
        HeadAccess::Subject,
        BodyKind::SMALL,
        |call| keep_alive(call).boxed(),
    )
};

params! {
    struct KeepAliveParams {
        wait: Option<Duration> = EVENTS_WAIT,
        since: Option<Revision> = EVENTS_SINCE,
        _redirect: bool = REDIRECT,
    }
}

async fn keep_alive(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let KeepAliveParams { wait, since, .. } = call.params()?;
    if wait.is_some() || since.is_some() {
        let wait = wait.unwrap_or_default();
        return listen(call, ListenRequest { session, since, wait }).await;
    }
    let response = call.run(call.service().keep_alive(&session)).await?;
    Ok(session_reply(call, response))
}

async fn listen(call: &mut CallContext<'_>, request: ListenRequest) -> Result<Reply, HttpError> {
    call.log_fields.wait = request.wait;
    let Response { value, revision, .. } = call.run(call.service().listen(request)).await?;
    let ListenReply { view, expires_in, waited, events, gap } = value;
    let now = call.now();
    let body = SessionEventsBody {
        session: SessionBody::new(view, expires_in, now, revision),
        waited_ms: holdfast_types::millis(waited),
        events: events.into_iter().map(|event| event_body(event, now)).collect(),
        gap: gap.map(|until| GapBody { until }),
    };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn event_body(notice: HoldNotice, now: Stamp) -> EventBody {
    let HoldNotice { revision, lock, owner, token, change, .. } = notice;
    let body = |lost| EventBody::new(revision, lock, owner, token, lost);
    match change {
        HoldChange::Granted { .. } | HoldChange::ValueChanged { .. } => body(None),
        HoldChange::Lost { cause, broken: None } => body(Some(cause)),
        HoldChange::Lost { cause, broken: Some(reason) } => {
            body(Some(cause)).broken(reason.to_string())
        }
        HoldChange::ReleaseRequested(request) => body(None).asked(request, now),
    }
}
