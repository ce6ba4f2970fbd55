//! The front-end's tunables.

use std::time::Duration;

/// Bounds and time limits of the HTTP front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Open connections at most; one more is answered 503 and closed.
    pub connections_max: usize,
    /// From the first byte of a request's head to its last.
    pub head_timeout: Duration,
    /// The whole body.
    pub body_timeout: Duration,
    /// A connection without a request in flight is closed after this time.
    pub idle_timeout: Duration,
    /// From the shutdown signal to the last answer; connections still busy then are cut.
    pub drain_timeout: Duration,
    /// Bytes of a request's head, start line included. At least 8 KiB.
    pub head_bytes_max: usize,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of a body that is a node's data. Not below the cluster's `data_bytes_max`.
    pub data_bytes_max: usize,
    /// Bytes of a body that is a transaction.
    pub txn_bytes_max: usize,
    /// Calls with a body larger than `body_bytes_max` at the same time; one more is answered 429.
    pub large_bodies_max: usize,
    /// A stream without events says a comment this often, so that nobody between takes it for dead.
    pub stream_comment: Duration,
    /// Calls that take longer than this, apart from the wait they asked for, are logged at `info`.
    pub slow: Duration,
    /// The commit the binary was built from, for `/version`.
    pub commit: Option<String>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(10),
            head_bytes_max: 16 * 1024,
            body_bytes_max: 64 * 1024,
            data_bytes_max: 1_048_575,
            txn_bytes_max: 2 * 1024 * 1024,
            large_bodies_max: 128,
            stream_comment: Duration::from_secs(15),
            slow: Duration::from_secs(1),
            commit: None,
        }
    }
}
