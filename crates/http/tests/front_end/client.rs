//! A test client that sends exact bytes.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::described;

/// The time limit of one call; long enough for a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A parsed response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        // Only a backup is not text.
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names of the headers.
    pub(crate) fn header_names(&self) -> impl Iterator<Item = &str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.map(|(name, _)| name)
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that the body is a well-formed problem with this code, and returns it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["type"], format!("/errors/{code}"), "{problem}");
        assert!(problem["title"].is_string() && problem["retryable"].is_boolean(), "{problem}");
        let hint = problem["hint"].as_str();
        assert!(hint.is_some_and(|hint| !hint.is_empty()), "no next step: {problem}");
        let parsed: holdfast_api::Problem = serde_json::from_str(&self.body).unwrap();
        assert_eq!(parsed.code.as_str(), code);
        problem
    }
}

/// Sends one call on a new connection.
pub(crate) async fn call(address: SocketAddr, method: &str, target: &str) -> Reply {
    call_with(address, method, target, &[], "").await
}

/// Sends one call with headers and a body.
pub(crate) async fn call_with(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let bytes = request(method, target, headers, body);
    let reply = raw(address, bytes.as_bytes()).await;
    described::check(method, target, &reply);
    reply
}

/// A request with `Connection: close`.
pub(crate) fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    if !body.is_empty() {
        text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    text.push_str("\r\n");
    text.push_str(body);
    text
}

/// Sends the head of a request whose body never follows, and reads the response by its length.
pub(crate) async fn only_head(address: SocketAddr, head: &str) -> Reply {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let is_complete = |received: &[u8]| {
        let text = String::from_utf8_lossy(received);
        text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let length = lines.into_iter().find(|(name, _)| *name == "content-length");
            body.len() >= length.map_or(0, |(_, length)| length.parse().unwrap())
        })
    };
    let reading = async {
        while !is_complete(&received) {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "closed: {head}");
        }
    };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap_or_else(|_| panic!("no response: {head}"));
    Reply::parse(&received)
}

/// Sends bytes and reads until the server closes.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    tokio::time::timeout(TIMEOUT, finish(&mut stream))
        .await
        .unwrap_or_else(|_| panic!("no response to {head}"))
}

/// Reads until the server closes.
pub(crate) async fn finish(stream: &mut TcpStream) -> Reply {
    let mut received = Vec::new();
    let read = tokio::time::timeout(2 * TIMEOUT, stream.read_to_end(&mut received)).await;
    read.expect("no response").unwrap();
    Reply::parse(&received)
}
