//! Configuration of the front-end.

use std::time::Duration;

use holdfast_tls::CallerFailures;

use crate::LogFilter;

/// Bounds and time limits of the HTTP front-end.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The maximum number of open connections. The server replies 503 to further connections and closes them.
    pub connections_max: usize,
    /// Names of the node beyond loopback names and those of the members, in lower case; `*` allows every name.
    pub hosts: Vec<String>,
    /// Whether only this machine reaches the listener: then another address in `Host` is not the node's.
    pub listens_on_loopback: bool,
    /// The time limit from the first to the last byte of a request's head.
    pub head_timeout: Duration,
    /// The time limit for reading the whole body.
    pub body_timeout: Duration,
    /// A connection without a request in flight is closed after this time.
    pub idle_timeout: Duration,
    /// The time limit from the shutdown signal to the last reply. Connections that are still busy then are closed.
    pub drain_timeout: Duration,
    /// The maximum bytes of a request's head, including the start line. At least 8 KiB.
    pub head_bytes_max: usize,
    /// The maximum bytes of a request's body.
    pub body_bytes_max: usize,
    /// The maximum bytes of a body that is a node's data. At least the cluster's `data_bytes_max`.
    pub data_bytes_max: usize,
    /// The maximum bytes of a body that is a transaction.
    pub txn_bytes_max: usize,
    /// The maximum number of bodies above `body_bytes_max` in memory. Further ones wait unread in their connections.
    pub large_bodies_max: usize,
    /// The maximum number of such calls that are executed at once. Further ones wait.
    pub large_calls_max: usize,
    /// The longest wait of each kind. Then the call gets 429.
    pub large_body_wait: Duration,
    /// The interval of comments on a stream without events. Comments keep proxies from closing the stream as idle.
    pub stream_comment: Duration,
    /// Calls that take longer than this, without their requested wait, are logged at `info`.
    pub slow: Duration,
    /// The commit the binary was built from, for `/version`.
    pub commit: Option<String>,
    /// Changes the filter of the node's log.
    pub log_filter: LogFilter,
    /// Counts, logs and slows callers that prove no identity.
    pub failures: CallerFailures,
    /// Of the calls without a `traceparent`, the share that is traced, from 0 to 1. `None` traces no call at all.
    pub trace_sample: Option<f64>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            hosts: Vec::new(),
            listens_on_loopback: true,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(10),
            head_bytes_max: 16 * 1024,
            body_bytes_max: 64 * 1024,
            data_bytes_max: 1_048_575,
            txn_bytes_max: 2 * 1024 * 1024,
            large_bodies_max: 128,
            large_calls_max: 4,
            large_body_wait: Duration::from_secs(5),
            stream_comment: Duration::from_secs(15),
            slow: Duration::from_secs(1),
            commit: None,
            log_filter: LogFilter::default(),
            failures: CallerFailures::default(),
            trace_sample: None,
        }
    }
}
