//! The response of a handler: status, headers and a body, or a stream of server-sent events.
//!
//! A silent stream carries comments, so that proxies and clients keep it open. A stream buffers one event at a time;
//! the socket sets its pace.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use futures_util::stream::unfold;
use holdfast_api::parameters::watch::SINCE;
use holdfast_api::{
    ErrorCode, HOLDFAST_APPLIED_REVISION, HOLDFAST_LEADER_CONTACT_MS, PROBLEM_JSON, ParamError,
    ParamValue as _,
};
use holdfast_service::LocalUse;
use holdfast_types::Revision;
use serde::Serialize;

use crate::head::only;
use crate::session_names::SessionNames;
use crate::status::{self, HttpError};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The revision of the response; `None` is the revision that the node has applied.
    pub(crate) revision: Option<Revision>,
    /// The error code, for the log line.
    pub(crate) code: Option<ErrorCode>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    /// A body of unknown length, instead of `body`.
    pub(crate) stream: Option<Body>,
}

impl Reply {
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            revision: None,
            code: None,
            headers: Vec::new(),
            body: Bytes::new(),
            stream: None,
        }
    }

    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => Self::empty(status).with_body(JSON, bytes.into()),
            Err(error) => {
                Self::problem(status::internal(format!("cannot encode the response: {error}")))
            }
        }
    }

    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::empty(status).with_body(TEXT, text.into())
    }

    /// A body that exists already, with its media type.
    pub(crate) fn made(media: &'static str, body: Bytes) -> Self {
        Self::empty(StatusCode::OK).with_body(HeaderValue::from_static(media), body)
    }

    /// Bytes as a client wrote them.
    pub(crate) fn bytes(status: StatusCode, bytes: impl Into<Bytes>) -> Self {
        Self::empty(status).with_body(OCTETS, bytes.into())
    }

    /// A body that lasts until one side ends it.
    pub(crate) fn stream(media: &'static str, stream: Body) -> Self {
        let reply = Self::empty(StatusCode::OK);
        let reply = reply.with_header(CONTENT_TYPE, HeaderValue::from_static(media));
        Self { stream: Some(stream), ..reply }
    }

    /// An error with its headers, such as `Retry-After`.
    pub(crate) fn problem(problem: HttpError) -> Self {
        let status = status::of_code(problem.code);
        let problem = status::with_status(problem);
        // A problem has only text and numbers, so its encoding cannot fail.
        let bytes = serde_json::to_vec(&problem).unwrap_or_default();
        let mut reply =
            Self::empty(status).with_body(HeaderValue::from_static(PROBLEM_JSON), bytes.into());
        reply.code = Some(problem.code);
        if status == StatusCode::UNAUTHORIZED {
            for scheme in
                [r#"Bearer realm="holdfast""#, r#"Basic realm="holdfast", charset="UTF-8""#]
            {
                reply = reply.with_header(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
            }
        }
        match problem.facts.retry_after_ms {
            Some(ms) => reply.with_header(RETRY_AFTER, ms.div_ceil(1_000).into()),
            None => reply,
        }
    }

    /// 307: the client repeats the call at `location`.
    pub(crate) fn redirect(location: HeaderValue) -> Self {
        Self::empty(StatusCode::TEMPORARY_REDIRECT).with_header(LOCATION, location)
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    #[must_use]
    pub(crate) fn with_headers(mut self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Sets the revision of the response.
    #[must_use]
    pub(crate) fn at(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Leaves out the scope of the caller before the names of its sessions.
    #[must_use]
    pub(crate) fn shortened(mut self, names: &SessionNames) -> Self {
        // Other bodies have the bytes of clients.
        let is_json = |value: &HeaderValue| {
            let media = value.to_str().unwrap_or_default();
            media.ends_with("json") || media.starts_with("text/event-stream")
        };
        if !self.headers.iter().any(|(name, value)| name == CONTENT_TYPE && is_json(value)) {
            return self;
        }
        self.body = names.shortened(self.body);
        self.stream = self.stream.map(|stream| names.shortened_stream(stream));
        self
    }

    /// Adds the headers of a stale read. Call it after [`Reply::at`].
    #[must_use]
    pub(crate) fn stale(self, leader_contact: Option<Duration>) -> Self {
        let (Some(contact), Some(revision)) = (leader_contact, self.revision) else { return self };
        let contact_ms = holdfast_types::millis(contact);
        self.with_header(HeaderName::from_static(HOLDFAST_APPLIED_REVISION), revision.0.into())
            .with_header(HeaderName::from_static(HOLDFAST_LEADER_CONTACT_MS), contact_ms.into())
    }

    fn with_body(mut self, media: HeaderValue, body: Bytes) -> Self {
        self.body = body;
        self.with_header(CONTENT_TYPE, media)
    }
}

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
pub(crate) fn event_stream(
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
pub(crate) fn numbered_event(id: Revision, name: &str, data: &impl Serialize) -> String {
    format!("id: {id}\n{}", event_text(name, data))
}

/// An event whose data is a problem.
pub(crate) fn problem_event(name: &str, problem: HttpError) -> String {
    event_text(name, &status::with_status(problem))
}

/// An event. Its data is on one line: JSON escapes line ends.
pub(crate) fn event_text(name: &str, data: &impl Serialize) -> String {
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
