//! Server-sent events, the form of every stream.
//!
//! A silent stream carries comments, so that proxies and clients keep it open. A stream buffers one event at a time;
//! the socket sets its pace.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use futures_util::stream::unfold;
use holdfast_api::parameters::watch::SINCE;
use holdfast_api::{ParamError, ParamValue as _};
use holdfast_service::LocalUse;
use holdfast_types::Revision;

use crate::head::only;
use crate::reply::Reply;
use crate::status::HttpError;

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The media type of a stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The last event that a client has seen, in the header of the request that resumes a stream.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// A source of events.
pub(crate) trait EventSource: Send + 'static {
    /// The next event as text; `None` at the end. Cancel-safe.
    fn next_event(&mut self) -> impl Future<Output = Option<String>> + Send;
}

/// The revision after which the client resumes a stream, if it states one.
///
/// # Errors
/// `invalid-argument` for a header that is not a revision.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<Revision>, HttpError> {
    let id = only(headers, &HeaderName::from_static(LAST_EVENT_ID))?;
    Ok(id.map(revision).transpose()?)
}

fn revision(id: &str) -> Result<Revision, ParamError> {
    let revision = Revision::parse(&SINCE, id);
    revision.map_err(|_| {
        ParamError::invalid("Last-Event-ID", "'Last-Event-ID' is not a revision")
            .hint("send the id of an event")
    })
}

/// A stream: a comment at once, because proxies and clients wait for the first byte, then events, and a comment
/// after each silence of length `comment`. `place` is its place among the streams of its caller.
pub(crate) fn stream(
    begin: &'static str,
    comment: Duration,
    place: Option<LocalUse>,
    source: impl EventSource,
) -> Reply {
    let events = unfold((Some(begin), source), move |(begin, mut source)| {
        // The stream counts for its caller until it ends.
        let _place = &place;
        async move {
            if let Some(begin) = begin {
                return Some((Ok(format!(": {begin}\n\n").into()), (None, source)));
            }
            let text = tokio::select! {
                text = source.next_event() => text?,
                () = tokio::time::sleep(comment) => ": still here\n\n".to_owned(),
            };
            Some((Ok::<Bytes, Infallible>(text.into()), (None, source)))
        }
    });
    Reply::stream(EVENT_STREAM, Body::from_stream(events))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"))
        .with_header(BUFFERING, HeaderValue::from_static("no"))
}

/// An event with an id, from which a client can resume.
pub(crate) fn numbered(id: Revision, name: &str, data: &impl serde::Serialize) -> String {
    format!("id: {id}\n{}", event(name, data))
}

/// An event. Its data is on one line: JSON escapes line ends.
pub(crate) fn event(name: &str, data: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {json}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_id_is_a_revision() {
        let headers = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, id.parse().unwrap());
            headers
        };
        assert_eq!(last_event_id(&HeaderMap::new()).unwrap(), None);
        assert_eq!(last_event_id(&headers("9")).unwrap(), Some(Revision(9)));
        for id in ["", "x", "-1", "9007199254740992"] {
            let problem = last_event_id(&headers(id)).unwrap_err();
            assert_eq!(problem.facts.parameter.as_deref(), Some("Last-Event-ID"), "{id}");
        }
    }
}
