//! `GET /v1/elections/{name}`: the leader and the candidates, once or as a stream.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{REDIRECT, STALE};
use holdfast_api::{CallParams as _, ElectionBody, Schemas, params};
use holdfast_service::Response;

use super::election;
use super::observe::observe;
use crate::call::{CallContext, read_mode};
use crate::operation::{Content, Header, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ELECTION;
use crate::sse::{LAST_EVENT_ID, accepts_events};
use crate::status::HttpError;

const LAST_EVENT: Header = Header::text(
    LAST_EVENT_ID,
    "Of a stream that is resumed: the id of the last event that the client has. The stream has only what changed since",
);

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the leader and the candidates of an election",
    description: "An election without candidates has no leader. With Accept: text/plain the response is the leader's value \
        alone. With Accept: text/event-stream the response is a stream that begins with the leader and lasts until one side \
        ends it. Its events are leader, vacant, gap (changes are missing; the present leader follows), bookmark, reconnect.",
    params: ReadParams::LIST,
    headers: &[LAST_EVENT],
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "The election", Schemas::of::<ElectionBody>)
                .or("text/plain", Content::Text)
                .or("text/event-stream", Content::Text),
        ]
    },
    ..Operation::read("readElection", &ELECTION, |call| read(call).boxed())
};

params! {
    struct ReadParams {
        stale: bool = STALE,
        _redirect: bool = REDIRECT,
    }
}

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (election, lock) = election(call)?;
    let ReadParams { stale, .. } = call.params()?;
    if accepts_events(&call.parts.headers) {
        return observe(call, (election, lock), read_mode(stale)).await;
    }
    let read = call.service().lock(&lock, read_mode(stale));
    let Response { value: view, revision, leader_contact } = call.run(read).await?;
    let reply = if call.wants_text() {
        let value = view.holder().and_then(|holder| holder.value.clone());
        let value = value.map(|value| format!("{}\n", String::from_utf8_lossy(&value)));
        Reply::text(StatusCode::OK, value.unwrap_or_default())
    } else {
        let body = ElectionBody::new(election, view, call.now(), revision);
        Reply::json(StatusCode::OK, &body)
    };
    Ok(reply.at(revision).stale(leader_contact))
}
