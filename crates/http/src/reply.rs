//! The response of a handler: status, headers and body.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde::Serialize;

use holdfast_api::{
    ErrorCode, HOLDFAST_APPLIED_REVISION, HOLDFAST_LEADER_CONTACT_MS, PROBLEM_JSON,
};
use holdfast_types::Revision;

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
    headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    /// A body of unknown length, instead of `body`.
    stream: Option<Body>,
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

    /// Text of another media type.
    pub(crate) fn text_as(media: &'static str, text: String) -> Self {
        Self::empty(StatusCode::OK).with_body(HeaderValue::from_static(media), text.into())
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

    pub(crate) fn into_response(self) -> Response<Body> {
        /// The number of headers that every response has.
        const HEADERS: usize = 6;
        let body = match self.stream {
            Some(stream) => stream,
            None if self.body.is_empty() => Body::empty(),
            None => Body::from(self.body),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(self.headers.len() + HEADERS);
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }

    fn with_body(mut self, media: HeaderValue, body: Bytes) -> Self {
        self.body = body;
        self.with_header(CONTENT_TYPE, media)
    }
}
