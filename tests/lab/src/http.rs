//! An HTTP client for one node: requests with deadlines, and replies with accessors for assertions.
//!
//! The client never retries and follows no redirects, because tests count requests.

use std::fmt;
use std::time::Duration;

use holdfast_client::http::{HttpClient, HttpRequest, Method, SendError};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::events::Events;
use crate::until::DEADLINE;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// An HTTP reply.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl Reply {
    /// The body as JSON; null if the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The stable error code of a problem body; empty if there is none.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The `retryable` field of a problem body; false if there is none.
    pub fn retryable(&self) -> bool {
        self.json()["retryable"].as_bool().unwrap_or(false)
    }

    /// A header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The fencing token of a grant; panics if there is none.
    pub fn token(&self) -> u64 {
        let token = self.json()["token"].as_u64();
        token.unwrap_or_else(|| panic!("expected a grant, not {self}"))
    }

    /// The session id in the reply; panics if there is none.
    pub fn session(&self) -> String {
        let session = self.json()["session"].as_str().map(str::to_owned);
        session.unwrap_or_else(|| panic!("expected a session, not {self}"))
    }

    /// Asserts the status; a failure shows the whole reply.
    #[track_caller]
    pub fn assert_status(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "expected {status}, got {self}");
        self
    }

    /// Asserts status and error code.
    #[track_caller]
    pub fn assert_code(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "got {self}");
        self
    }

    /// Asserts that the body contains `text`.
    #[track_caller]
    pub fn assert_body_contains(&self, text: &str) -> &Self {
        assert!(self.body.contains(text), "expected {text:?} in {self}");
        self
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.body)
    }
}

/// The HTTP API of one node.
#[derive(Clone, Debug)]
pub struct Http {
    base: String,
    client: HttpClient,
}

impl Http {
    /// The API at `address` (`127.0.0.1:7400`).
    pub fn new(address: impl fmt::Display) -> Self {
        let client = HttpClient::new(CONNECT_TIMEOUT);
        Self { base: format!("http://{address}"), client }
    }

    /// `http://127.0.0.1:7400`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends any request.
    ///
    /// # Errors
    /// [`SendError`] if no reply arrived within the request's deadline.
    pub async fn send(&self, request: Request<'_>) -> Result<Reply, SendError> {
        let response = self.client.send(request.to(&self.base)).await?;
        let headers = response
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let body = String::from_utf8_lossy(&response.body).into_owned();
        Ok(Reply { status: response.status.as_u16(), headers: headers.collect(), body })
    }

    /// Opens a stream of server-sent events.
    ///
    /// # Errors
    /// The error, or the reply if its status is not a success.
    pub async fn stream(&self, method: Method, target: &str) -> Result<Events, String> {
        self.open(Request::new(method, target)).await
    }

    /// Opens the stream `/v1/watch?{query}` after the event `last`.
    ///
    /// # Errors
    /// Same as [`Http::stream`].
    pub async fn events(&self, query: &str, last: Option<u64>) -> Result<Events, String> {
        let (target, last) = (format!("/v1/watch?{query}"), last.map(|last| last.to_string()));
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        self.open(Request::new(Method::GET, &target).headers(&headers)).await
    }

    async fn open(&self, request: Request<'_>) -> Result<Events, String> {
        let mut request = request.to(&self.base);
        request.headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
        let opened = self.client.open_stream(request).await;
        let mut answer = opened.map_err(|error| error.to_string())?;
        if answer.status.is_success() {
            return Ok(Events::new(answer));
        }
        let body = answer.rest().await.unwrap_or_default();
        Err(format!("{}: {}", answer.status, String::from_utf8_lossy(&body)))
    }

    /// Sends a PUT with a body; panics without a reply.
    pub async fn put_data(&self, target: &str, data: &str) -> Reply {
        let what = format!("PUT {}{target}", self.base);
        let answer = self.send(Request::new(Method::PUT, target).body(data)).await;
        answer.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Sends raw bytes on a new connection and reads until the server closes it.
    /// Returns the bytes received before the deadline, and whether the server closed the connection.
    pub async fn raw(&self, bytes: &[u8], deadline: Duration) -> (String, bool) {
        let mut stream = self.connect().await;
        // A server that rejects early may close before the client has sent all bytes.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let closed = tokio::time::timeout(deadline, read).await.is_ok();
        (String::from_utf8_lossy(&answer).into_owned(), closed)
    }

    /// Opens a TCP connection.
    pub async fn connect(&self) -> TcpStream {
        let address = self.base.trim_start_matches("http://");
        TcpStream::connect(address).await.expect("the node accepts connections")
    }

    /// Sends a request; panics without a reply within [`DEADLINE`].
    pub async fn call(&self, method: Method, target: &str) -> Reply {
        let what = format!("{method} {}{target}", self.base);
        let answer = self.send(Request::new(method, target)).await;
        answer.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Sends a GET; panics without a reply.
    pub async fn get(&self, target: &str) -> Reply {
        self.call(Method::GET, target).await
    }

    /// The value of a metric series, named with its labels; 0 if there is none.
    pub async fn metric_value(&self, series: &str) -> u64 {
        let text = self.get("/metrics").await.assert_status(200).body.clone();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// Sends a PUT without a body; panics without a reply.
    pub async fn put(&self, target: &str) -> Reply {
        self.call(Method::PUT, target).await
    }

    /// Sends a POST; panics without a reply.
    pub async fn post(&self, target: &str) -> Reply {
        self.call(Method::POST, target).await
    }

    /// Sends a DELETE; panics without a reply.
    pub async fn delete(&self, target: &str) -> Reply {
        self.call(Method::DELETE, target).await
    }
}

/// An HTTP request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    method: Method,
    target: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: Option<&'a str>,
    deadline: Duration,
}

impl<'a> Request<'a> {
    /// A request for `target` (path and query), with the deadline [`DEADLINE`].
    pub fn new(method: Method, target: &'a str) -> Self {
        Self { method, target, headers: &[], body: None, deadline: DEADLINE }
    }

    fn to(&self, base: &str) -> HttpRequest {
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        HttpRequest {
            method: self.method.clone(),
            url: format!("{base}{}", self.target),
            headers: self.headers.iter().map(header).collect(),
            body: self.body.unwrap_or_default().into(),
            timeout: self.deadline,
        }
    }

    /// Sets the headers.
    #[must_use]
    pub fn headers(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { headers, ..self }
    }

    /// Sets the body.
    #[must_use]
    pub fn body(self, body: &'a str) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Sets the deadline.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}
