//! The requests of the load generator as bytes, built once and sent repeatedly.

use std::time::Duration;

use super::access::Access;
use holdfast_api::{format_duration, lock_path, session_path};
use holdfast_types::{LockName, NameError, SessionName};

/// The calls of one client on one lock.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    /// Acquires the lock, or renews it.
    pub(super) acquire: Vec<u8>,
    /// Releases the lock.
    pub(super) release: Vec<u8>,
    /// Closes the session.
    pub(super) close: Vec<u8>,
}

impl Requests {
    /// # Errors
    /// A malformed name.
    pub(super) fn new(
        lock: &str,
        session: &str,
        ttl: Duration,
        wait: Duration,
    ) -> Result<Self, NameError> {
        Self::with_value(lock, session, ttl, wait, 0)
    }

    /// Each acquire also sets a value of `value_bytes` bytes, at most 4,096.
    ///
    /// # Errors
    /// A malformed name.
    pub(super) fn with_value(
        lock: &str,
        session: &str,
        ttl: Duration,
        wait: Duration,
        value_bytes: u32,
    ) -> Result<Self, NameError> {
        let (lock, session) = (LockName::new(lock)?, SessionName::new(session)?);
        let (path, home) = (lock_path(&lock), session_path(&session));
        let query = format!("session={session}&ttl={}", format_duration(ttl));
        let wait =
            if wait.is_zero() { String::new() } else { format!("&wait={}", format_duration(wait)) };
        let value = match value_bytes {
            0 => String::new(),
            bytes => format!("&value={:x>1$}", "", usize::try_from(bytes).unwrap_or(0)),
        };
        Ok(Self {
            acquire: request("PUT", &format!("{path}?{query}{wait}{value}")),
            release: request("DELETE", &format!("{path}?session={session}")),
            close: request("DELETE", &home),
        })
    }
}

impl Requests {
    /// The requests with the access token, if there is one.
    pub(super) fn authorized(self, access: &Access) -> Self {
        let Self { acquire, release, close } = self;
        let [acquire, release, close] =
            [acquire, release, close].map(|request| access.authorize(request));
        Self { acquire, release, close }
    }
}

fn request(method: &str, target: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")
        .into_bytes()
}

pub(super) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// A request with a JSON body.
pub(super) fn post(target: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The code of the problem, or the HTTP status, for the report.
pub(super) fn error_kind(status: u16, body: &[u8]) -> String {
    serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|problem| Some(problem.get("code")?.as_str()?.to_owned()))
        .unwrap_or_else(|| format!("status {status}"))
}

/// A name that separates the locks of this run from the locks of other runs on the same cluster.
pub(super) fn run_name() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{}", std::process::id(), since.unwrap_or_default().as_millis() % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_complete() {
        let second = Duration::from_secs(1);
        let requests = Requests::new("bench/1", "s1", second * 30, second).unwrap();
        assert_eq!(
            String::from_utf8(requests.acquire).unwrap(),
            "PUT /v1/locks/bench/1?session=s1&ttl=30s&wait=1s HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n"
        );
        let valued = Requests::with_value("bench/1", "s1", second * 30, second, 3).unwrap();
        assert!(String::from_utf8(valued.acquire).unwrap().contains("&wait=1s&value=xxx HTTP"));
        assert!(requests.release.starts_with(b"DELETE /v1/locks/bench/1?session=s1 HTTP/1.1\r\n"));
        assert!(requests.close.starts_with(b"DELETE /v1/sessions/s1 HTTP/1.1\r\n"));
    }

    #[test]
    fn errors_are_named_by_code() {
        assert_eq!(error_kind(503, br#"{"code":"no-leader"}"#), "no-leader");
        assert_eq!(error_kind(502, b"<html>"), "status 502");
    }
}
