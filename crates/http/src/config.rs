//! Configuration of the front-end, and the filter of this node's log, which an operator may change for a time.
//!
//! The program that owns the logger provides a function that applies a filter. Bound: one task waits to apply the
//! configured filter again; a newer change replaces it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_tls::CallerFailures;
use tokio::task::AbortHandle;

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

type ApplyFilter = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// Changes the filter of the log; clones share it. The default belongs to a program whose log cannot change.
#[derive(Clone, Default)]
pub struct LogFilter(Option<Arc<Inner>>);

struct Inner {
    configured: String,
    apply: Box<ApplyFilter>,
    temporary: Mutex<Temporary>,
}

#[derive(Default)]
struct Temporary {
    /// The number of changes. A task whose change is not the last one does nothing.
    changes: u64,
    end: Option<AbortHandle>,
}

impl LogFilter {
    /// `apply` returns the reason why it rejects a filter, with what to write instead.
    pub fn new(
        configured: impl Into<String>,
        apply: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let (configured, apply) = (configured.into(), Box::new(apply));
        Self(Some(Arc::new(Inner { configured, apply, temporary: Mutex::default() })))
    }

    /// The filter of the configuration.
    pub(crate) fn configured(&self) -> &str {
        self.0.as_ref().map_or("", |inner| &inner.configured)
    }

    /// Applies a filter for a time; without one, the configured filter. Requires a runtime.
    ///
    /// # Errors
    /// The reason why the filter is wrong. Then nothing changes.
    pub(crate) fn set(&self, filter: Option<&str>, lasts: Duration) -> Result<(), String> {
        let inner = self.0.as_ref().ok_or("the log of this program cannot change")?;
        let mut temporary = inner.temporary.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.apply)(filter.unwrap_or(&inner.configured))?;
        temporary.changes += 1;
        if let Some(end) = temporary.end.take() {
            end.abort();
        }
        if filter.is_some() {
            let ending = inner.clone().end(temporary.changes, lasts);
            temporary.end = Some(tokio::spawn(ending).abort_handle());
        }
        Ok(())
    }
}

impl Inner {
    /// Applies the configured filter after this time, unless another change follows.
    async fn end(self: Arc<Self>, change: u64, lasts: Duration) {
        tokio::time::sleep(lasts).await;
        let temporary = self.temporary.lock().unwrap_or_else(PoisonError::into_inner);
        if temporary.changes == change {
            match (self.apply)(&self.configured) {
                Ok(()) => tracing::info!(
                    filter = self.configured,
                    "the configured filter of the log applies again"
                ),
                Err(error) => {
                    tracing::error!(error, "cannot apply the configured filter of the log");
                }
            }
        }
    }
}

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogFilter").field(&self.configured()).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn recorded() -> (LogFilter, mpsc::UnboundedReceiver<String>) {
        let (applied, filters) = mpsc::unbounded_channel();
        let apply = move |filter: &str| match filter {
            "bad" => Err("write another one".to_owned()),
            filter => applied.send(filter.to_owned()).map_err(|error| error.to_string()),
        };
        (LogFilter::new("info", apply), filters)
    }

    #[tokio::test(start_paused = true)]
    async fn a_filter_ends_after_its_time_unless_another_change_follows() {
        let (log, mut filters) = recorded();
        log.set(Some("debug"), Duration::from_secs(10)).unwrap();
        assert_eq!(filters.recv().await.unwrap(), "debug");
        tokio::time::advance(Duration::from_secs(9)).await;
        log.set(Some("trace"), Duration::from_secs(10)).unwrap();
        assert_eq!(filters.recv().await.unwrap(), "trace");
        let began = tokio::time::Instant::now();
        assert_eq!(filters.recv().await.unwrap(), "info");
        assert!(began.elapsed() >= Duration::from_secs(10));
        log.set(Some("warn"), Duration::from_secs(10)).unwrap();
        log.set(None, Duration::from_secs(10)).unwrap();
        assert_eq!(
            [filters.recv().await.unwrap(), filters.recv().await.unwrap()],
            ["warn", "info"]
        );
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(filters.try_recv().is_err(), "no task is left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_filter_changes_nothing() {
        let (log, mut filters) = recorded();
        log.set(Some("debug"), Duration::from_secs(10)).unwrap();
        assert_eq!(log.set(Some("bad"), Duration::from_mins(1)).unwrap_err(), "write another one");
        let applied = [filters.recv().await.unwrap(), filters.recv().await.unwrap()];
        assert_eq!(applied, ["debug", "info"]);
        assert!(LogFilter::default().set(None, Duration::ZERO).is_err());
    }
}
