//! `GET /v1/watch`: the changes below a path, as a long poll or as server-sent events.
//!
//! Both forms return the revision from which to continue without a gap: a long poll its `revision`, an event its `id`.
//! Bounds: a long poll returns [`POLL_CHANGES_MAX`] changes and the rest of the last revision. A stream keeps one
//! change in memory at a time, and the client's socket paces it.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::watch::{PATH, PREFIX, SINCE, WAIT};
use holdfast_api::{
    CallParams as _, ChangeBody, ChangeKind, ErrorCode, ParamError, Schemas, WatchBody, params,
};
use holdfast_service::{
    HoldChange, HoldNotice, WatchFilter, WatchItem, WatchRequest, WatchStream, WatchedItem,
    ZnodeChangeKind,
};
use holdfast_types::{Rejection, Revision, Right, ZnodePath};
use tokio::sync::watch as signal;
use tokio::time::Instant;

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, accepts};
use crate::operation::{Content, Example, Header, Operation, ResponseSpec, handler};
use crate::reply::{
    EVENT_STREAM, EventSource, LAST_EVENT_ID, Reply, event_stream, last_event_id, numbered_event,
    problem_event,
};
use crate::routes::WATCH;
use crate::state::{ShutdownPhase, begun};
use crate::status::{HttpError, compacted, denied, shutting_down};

/// A long poll returns once it has this many changes and the last revision is complete.
const POLL_CHANGES_MAX: usize = 1_000;
const RESUME: Header = Header::text(
    LAST_EVENT_ID,
    "The id of the last received event, to resume a stream; takes precedence over since",
);

const ACCESS: CallAccess = CallAccess::AnyOf {
    rights: &[Right::TreeRead, Right::LockRead],
    names: "whether the path or the prefix is below /locks",
    decided_in: "crates/service/src/watch.rs: check_watch",
};

pub(crate) static OPERATION: Operation = Operation {
    summary: "Watch changes of the tree below a path",
    description: "The call is a long poll. With Accept: text/event-stream the response is a stream of server-sent \
        events, until the client or the node closes it. A client that continues from the revision of a response, or \
        from the id of an event, misses no change.",
    params: WatchParams::LIST,
    headers: &[RESUME],
    example: Example { query: "prefix=/cfg&since=0", body: "" },
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "The changes", Schemas::of::<WatchBody>)
                .or("text/event-stream", Content::Text),
        ]
    },
    errors: &[ErrorCode::RevisionCompacted],
    ..Operation::read("watch", &WATCH, ACCESS, handler!(watch))
};

params! {
    struct WatchParams {
        prefix: Option<String> = PREFIX,
        path: Option<String> = PATH,
        since: Option<Revision> = SINCE,
        wait: Duration = WAIT,
    }
}

async fn watch(call: &mut CallContext<'_>) -> HandlerResult {
    let headers = &call.parts.headers;
    let WatchParams { prefix, path, since, wait } = call.params()?;
    let filter = filter(prefix, path)?;
    // A client that reconnects repeats its first URL, so `Last-Event-ID` takes precedence over `since`.
    let since = last_event_id(headers)?.or(since);
    let request = WatchRequest { filter, since };
    let place =
        if accepts(&call.parts.headers, EVENT_STREAM) { call.stream_place()? } else { None };
    let watch = call.watch(request)?;
    if accepts(&call.parts.headers, EVENT_STREAM) {
        let stream = Stream { watch, shutdown: call.state.shutdown.clone(), ended: false };
        return Ok(event_stream("changes follow", call.state.config.stream_comment, place, stream));
    }
    call.log_fields.wait = wait;
    let resume = since.unwrap_or_else(|| watch.resume());
    poll(watch, resume, Instant::now() + wait).await
}

fn filter(prefix: Option<String>, path: Option<String>) -> Result<WatchFilter, ParamError> {
    match (prefix, path) {
        (Some(prefix), None) => Ok(WatchFilter::Prefix(rooted(prefix))),
        (None, Some(path)) => match ZnodePath::new(rooted(path)) {
            Ok(path) => Ok(WatchFilter::Node(path)),
            Err(error) => Err(ParamError::bad_name("path", &error)),
        },
        (Some(_), Some(_)) => {
            Err(ParamError::excluded("path", "prefix").hint("leave one of them out"))
        }
        (None, None) => Err(ParamError::invalid("prefix", "'prefix' or 'path' is required",
        )
        .hint("add ?prefix=/cfg/ for every znode below cfg, ?path=/cfg/x for one znode, or ?prefix=/ for everything")),
    }
}

/// Adds a leading slash: `locks/` means `/locks/`.
fn rooted(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}

/// Waits for the first change and returns it with the changes that are already available.
async fn poll(mut watch: WatchStream, mut resume: Revision, deadline: Instant) -> HandlerResult {
    let mut events: Vec<ChangeBody> = Vec::new();
    loop {
        // After a response that ends within a revision, the client would request that revision again, endlessly.
        let is_complete = events.last().is_none_or(|last| last.revision <= resume);
        if events.len() >= POLL_CHANGES_MAX && is_complete {
            break;
        }
        let next = if events.is_empty() {
            tokio::time::timeout_at(deadline, watch.next()).await.ok()
        } else {
            watch.next().now_or_never()
        };
        let Some(WatchedItem { resume: seen, item }) = next else { break };
        match ClientEvent::from(item) {
            ClientEvent::Change(change) => events.push(change),
            ClientEvent::Bookmark => {}
            ClientEvent::Compacted(restart_from) if events.is_empty() => {
                return Err(compacted(restart_from));
            }
            ClientEvent::Denied(rejection) if events.is_empty() => {
                return Err(denied(rejection));
            }
            ClientEvent::ShuttingDown if events.is_empty() => return Err(shutting_down()),
            // The collected changes are valid. The client's next call reports the gap, or reaches another node.
            ClientEvent::Compacted(_) | ClientEvent::Denied(_) | ClientEvent::ShuttingDown => {
                break;
            }
        }
        resume = resume.max(seen);
    }
    let resume = resume.max(watch.resume());
    let body = WatchBody { events, revision: resume };
    Ok(Reply::json(StatusCode::OK, &body).at(resume))
}

struct Stream {
    watch: WatchStream,
    shutdown: signal::Receiver<ShutdownPhase>,
    ended: bool,
}

impl EventSource for Stream {
    async fn next_event(&mut self) -> Option<String> {
        if self.ended {
            return None;
        }
        Some(tokio::select! {
            watched = self.watch.next() => self.text(watched),
            () = begun(&mut self.shutdown) => self.end("reconnect", shutting_down()),
        })
    }
}

impl Stream {
    fn text(&mut self, WatchedItem { resume, item }: WatchedItem) -> String {
        match ClientEvent::from(item) {
            ClientEvent::Change(change) => numbered_event(resume, change.kind.as_str(), &change),
            ClientEvent::Bookmark => {
                numbered_event(resume, "bookmark", &serde_json::json!({ "revision": resume }))
            }
            ClientEvent::Compacted(restart_from) => self.end("compacted", compacted(restart_from)),
            ClientEvent::Denied(rejection) => self.end("denied", denied(rejection)),
            ClientEvent::ShuttingDown => self.end("reconnect", shutting_down()),
        }
    }

    /// Returns the last event: a problem without an id, so that the client continues after the last received change.
    fn end(&mut self, name: &str, problem: HttpError) -> String {
        self.ended = true;
        problem_event(name, problem)
    }
}

/// A watched item in the form that the client receives.
enum ClientEvent {
    Change(ChangeBody),
    Bookmark,
    Compacted(Revision),
    Denied(Rejection),
    ShuttingDown,
}

impl From<WatchItem> for ClientEvent {
    fn from(item: WatchItem) -> Self {
        match item {
            WatchItem::Change { revision, kind, path, .. } => {
                let kind = match kind {
                    ZnodeChangeKind::Created => ChangeKind::Created,
                    ZnodeChangeKind::Deleted => ChangeKind::Deleted,
                    ZnodeChangeKind::Changed => ChangeKind::Changed,
                };
                Self::Change(ChangeBody::of_node(revision, kind, path))
            }
            WatchItem::Hold(HoldNotice { revision, lock, session, token, change, .. }) => {
                let holder = match change {
                    HoldChange::Granted { .. } => Some(token),
                    HoldChange::Lost { .. } => None,
                    // The holder receives a release request as an event of its keepalive.
                    HoldChange::ValueChanged { .. } | HoldChange::ReleaseRequested(_) => {
                        return Self::Bookmark;
                    }
                };
                Self::Change(ChangeBody::of_lock(revision, lock, session, holder))
            }
            WatchItem::Bookmark { .. } => Self::Bookmark,
            WatchItem::Compacted { restart_from } => Self::Compacted(restart_from),
            WatchItem::Denied(rejection) => Self::Denied(rejection),
            WatchItem::ShuttingDown => Self::ShuttingDown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(query: &str) -> Result<(WatchFilter, WatchParams), ParamError> {
        let params = WatchParams::from_query(query)?;
        let filter = filter(params.prefix.clone(), params.path.clone())?;
        Ok((filter, params))
    }

    #[test]
    fn a_watch_needs_exactly_one_prefix_or_path() {
        let (filter, params) = watch("prefix=locks/").unwrap();
        assert!(matches!(filter, WatchFilter::Prefix(prefix) if prefix == "/locks/"));
        assert_eq!((params.since, params.wait), (None, Duration::from_secs(30)));
        let (filter, _) = watch("path=cfg/x").unwrap();
        assert!(matches!(filter, WatchFilter::Node(path) if path.as_str() == "/cfg/x"));
        assert!(watch("").unwrap_err().hint.unwrap().contains("?prefix=/"));
        for query in [
            "prefix=/&path=/a",
            "path=/a/",
            "prefix=/&since=x",
            "prefix=/&since=-1",
            "prefix=/&since=9007199254740992",
        ] {
            assert!(watch(query).is_err(), "{query}");
        }
        assert_eq!(watch("prefix=/&wait=10").unwrap_err().code, ErrorCode::BadDuration);
    }
}
