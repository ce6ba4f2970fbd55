//! What changes below a place of the tree: as a long poll, or as server-sent events.
//!
//! Owns the two forms. Both say where to go on from with which nothing is missed: the `revision` of a long poll, the
//! `id` of an event. What a watch sees, how many there may be, and when one must be told of a gap, is the service's.
//! Bounds: an answer of a long poll holds [`POLLED_MAX`] changes and the rest of the last revision; a stream holds one
//! change at a time, and its reader's pace is the socket's.

use axum::http::{HeaderName, StatusCode};
use futures_util::FutureExt as _;
use tokio::sync::watch as signal;
use tokio::time::Instant;

use holdfast_api::{ChangeBody, ChangeKind, WatchBody, WatchParams};
use holdfast_service::{
    ChangeKind as Kind, WatchFilter, WatchItem, WatchRequest, WatchStream, Watched,
};
use holdfast_types::{Revision, ZnodePath};

use crate::call::CallContext;
use crate::connection::Closing;
use crate::head::only;
use crate::reply::Reply;
use crate::sse::{self, EventSource, accepts_events};
use crate::status::{HttpError, compacted, of_refusal, shutting_down};

/// An answer of a long poll is not begun beyond so many changes.
const POLLED_MAX: usize = 1_000;
/// What a client says it has seen last.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// `GET /v1/watch`
pub(crate) async fn watch(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let headers = &call.parts.headers;
    let resume = only(headers, &LAST_EVENT_ID)?;
    let fields = call.query(&WatchParams::KEYS)?;
    let params = WatchParams::parse(&fields, resume).map_err(of_refusal)?;
    drop(fields);
    let WatchParams { place, exact, since, wait } = params;
    let filter = match ZnodePath::new(&place) {
        Ok(path) if exact => WatchFilter::Node(path),
        Ok(_) | Err(_) => WatchFilter::Prefix(place),
    };
    let watch = call.watch(WatchRequest { filter, since, identities: call.identities() })?;
    if accepts_events(headers) {
        let stream = Stream { watch, closing: call.front.closing(), ended: false };
        return Ok(sse::stream("changes follow", call.front.config().stream_comment, stream));
    }
    call.log_fields.wait = wait;
    let resume = since.unwrap_or_else(|| call.front.service().revision());
    poll(watch, resume, Instant::now() + wait).await
}

/// Waits for the first change, takes what has come with it, and answers.
async fn poll(
    mut watch: WatchStream,
    mut resume: Revision,
    deadline: Instant,
) -> Result<Reply, HttpError> {
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
            Told::ShuttingDown if events.is_empty() => return Err(shutting_down()),
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
    ended: bool,
}

impl EventSource for Stream {
    async fn next_event(&mut self) -> Option<String> {
        if self.ended {
            return None;
        }
        Some(tokio::select! {
            watched = self.watch.next() => self.text(watched),
            () = closed(&mut self.closing) => self.end("reconnect", &shutting_down()),
        })
    }
}

impl Stream {
    fn text(&mut self, Watched { resume, item }: Watched) -> String {
        match change(item) {
            Told::Change(change) => sse::numbered(resume, change.kind.as_str(), &change),
            Told::Bookmark => {
                sse::numbered(resume, "bookmark", &serde_json::json!({ "revision": resume }))
            }
            Told::Compacted(restart_from) => self.end("compacted", &compacted(restart_from)),
            Told::ShuttingDown => self.end("reconnect", &shutting_down()),
        }
    }

    /// The last event: a problem, without an id, so that the client goes on from what it has seen.
    fn end(&mut self, name: &str, problem: &HttpError) -> String {
        self.ended = true;
        sse::event(name, problem)
    }
}

/// Resolves when the front-end begins to shut down.
pub(crate) async fn closed(closing: &mut signal::Receiver<Closing>) {
    drop(closing.wait_for(|closing| *closing != Closing::No).await);
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
        // The holder is told with its keepalive; for others nothing has changed.
        WatchItem::ReleaseAsked { .. }
        | WatchItem::ValueSet { .. }
        | WatchItem::Bookmark { .. } => Told::Bookmark,
        WatchItem::Compacted { restart_from } => Told::Compacted(restart_from),
        WatchItem::ShuttingDown => Told::ShuttingDown,
    }
}
