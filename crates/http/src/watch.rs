//! What changes below a place of the tree: as a long poll, or as server-sent events.
//!
//! Owns the two forms. Both say where to go on from with which nothing is missed: the `revision` of a long poll, the
//! `id` of an event. What a watch sees, how many there may be, and when one must be told of a gap, is the service's.
//! Bounds: an answer of a long poll holds [`POLLED_MAX`] changes and the rest of the last revision; a stream holds one
//! change at a time, and its reader's pace is the socket's.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT, CACHE_CONTROL};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use tokio::sync::watch as signal;
use tokio::time::Instant;

use holdfast_api::{ChangeBody, ChangeKind, WatchBody, WatchParams};
use holdfast_service::{
    ChangeKind as Kind, WatchFilter, WatchItem, WatchRequest, WatchStream, Watched,
};
use holdfast_types::{Revision, ZnodePath};

use crate::connection::Closing;
use crate::exchange::Exchange;
use crate::head::only;
use crate::reply::Reply;
use crate::status::{Fault, compacted, going_away, of_refusal};

/// An answer of a long poll is not begun beyond so many changes.
const POLLED_MAX: usize = 1_000;
/// What a client says it has seen last.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const EVENT_STREAM: &str = "text/event-stream";

/// `GET /v1/watch`
pub(crate) async fn watch(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let headers = &exchange.parts.headers;
    let resume = only(headers, &LAST_EVENT_ID)?;
    let fields = exchange.query(&WatchParams::KEYS)?;
    let params = WatchParams::parse(&fields, resume).map_err(of_refusal)?;
    drop(fields);
    let WatchParams { place, exact, since, wait } = params;
    let filter = match ZnodePath::new(&place) {
        Ok(path) if exact => WatchFilter::Node(path),
        Ok(_) | Err(_) => WatchFilter::Prefix(place),
    };
    let watch =
        exchange.watch(WatchRequest { filter, since, identities: exchange.identities() })?;
    if accepts_events(headers) {
        return Ok(stream(watch, exchange.front.closing(), exchange.front.config().stream_comment));
    }
    exchange.subject.wait = wait;
    let resume = since.unwrap_or_else(|| exchange.front.service().revision());
    poll(watch, resume, Instant::now() + wait).await
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let media = accepted.flat_map(|value| value.split(','));
    media
        .map(|media| media.split(';').next().unwrap_or_default().trim())
        .any(|media| media.eq_ignore_ascii_case(EVENT_STREAM))
}

/// Waits for the first change, takes what has come with it, and answers.
async fn poll(
    mut watch: WatchStream,
    mut resume: Revision,
    deadline: Instant,
) -> Result<Reply, Fault> {
    let mut events: Vec<ChangeBody> = Vec::new();
    loop {
        // A revision with more changes than fit is told whole, or a client would ask for it again and again.
        let whole = events.last().is_none_or(|last| last.revision <= resume);
        if events.len() >= POLLED_MAX && whole {
            break;
        }
        let next = if events.is_empty() {
            tokio::time::timeout_at(deadline, watch.next()).await.ok()
        } else {
            watch.next().now_or_never()
        };
        let Some(Watched { resume: seen, item }) = next else { break };
        match change(item) {
            Told::Change(change) => events.push(change),
            Told::Bookmark => {}
            Told::Compacted(restart_from) if events.is_empty() => {
                return Err(compacted(restart_from));
            }
            Told::ShuttingDown if events.is_empty() => return Err(going_away()),
            // What has been told so far stands; the next call meets the gap, or another node.
            Told::Compacted(_) | Told::ShuttingDown => break,
        }
        resume = resume.max(seen);
    }
    let body = WatchBody { events, revision: resume };
    Ok(Reply::json(StatusCode::OK, &body).at(resume))
}

/// A stream under way.
struct Stream {
    watch: WatchStream,
    closing: signal::Receiver<Closing>,
    /// How long it is silent at most.
    comment: Duration,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is written: proxies and clients wait for the first byte.
    New,
    Open,
    /// The last word is said.
    Ended,
}

fn stream(watch: WatchStream, closing: signal::Receiver<Closing>, comment: Duration) -> Reply {
    let begun = Stream { watch, closing, comment, state: State::New };
    let events = unfold(begun, |mut stream| async move {
        let text = stream.next().await?;
        Some((Ok::<Bytes, Infallible>(text.into()), stream))
    });
    Reply::stream(EVENT_STREAM, Body::from_stream(events))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"))
        .with_header(BUFFERING, HeaderValue::from_static("no"))
}

impl Stream {
    async fn next(&mut self) -> Option<String> {
        match self.state {
            State::New => {
                self.state = State::Open;
                return Some(": changes follow\n\n".to_owned());
            }
            State::Ended => return None,
            State::Open => {}
        }
        let watched = tokio::select! {
            watched = self.watch.next() => watched,
            () = closed(&mut self.closing) => return Some(self.end("reconnect", &going_away())),
            () = tokio::time::sleep(self.comment) => return Some(": still here\n\n".to_owned()),
        };
        Some(self.tell(watched))
    }

    fn tell(&mut self, Watched { resume, item }: Watched) -> String {
        match change(item) {
            Told::Change(change) => event(resume, change.kind.as_str(), &change),
            Told::Bookmark => event(resume, "bookmark", &serde_json::json!({ "revision": resume })),
            Told::Compacted(restart_from) => self.end("compacted", &compacted(restart_from)),
            Told::ShuttingDown => self.end("reconnect", &going_away()),
        }
    }

    /// The last event: a problem, without an id, so that the client goes on from what it has seen.
    fn end(&mut self, name: &str, fault: &Fault) -> String {
        self.state = State::Ended;
        format!("event: {name}\ndata: {}\n\n", json(fault))
    }
}

/// Resolves when the door begins to close, or is gone.
async fn closed(closing: &mut signal::Receiver<Closing>) {
    drop(closing.wait_for(|closing| *closing != Closing::No).await);
}

fn event(id: Revision, name: &str, data: &impl serde::Serialize) -> String {
    format!("id: {id}\nevent: {name}\ndata: {}\n\n", json(data))
}

/// On one line: JSON escapes line ends.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What an item means to a client.
enum Told {
    Change(ChangeBody),
    Bookmark,
    Compacted(Revision),
    ShuttingDown,
}

fn change(item: WatchItem) -> Told {
    match item {
        WatchItem::Change { revision, kind, path } => {
            let kind = match kind {
                Kind::Created => ChangeKind::Created,
                Kind::Deleted => ChangeKind::Deleted,
                Kind::Changed => ChangeKind::Changed,
            };
            Told::Change(ChangeBody::of_node(revision, kind, path))
        }
        WatchItem::Granted { revision, lock, token, session, .. } => {
            Told::Change(ChangeBody::of_lock(revision, lock, session, Some(token)))
        }
        WatchItem::Lost { revision, lock, session, .. } => {
            Told::Change(ChangeBody::of_lock(revision, lock, session, None))
        }
        WatchItem::Bookmark { .. } => Told::Bookmark,
        WatchItem::Compacted { restart_from } => Told::Compacted(restart_from),
        WatchItem::ShuttingDown => Told::ShuttingDown,
    }
}
