//! Many HTTP calls over several concurrent connections.
//!
//! [`BulkCalls::make`] repeats a failed call; a call that fails [`TRIES`] times ends the measurement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::access::Access;
use super::connection::HttpConnection;
use super::report::progress_bar;
use super::requests::error_kind;

/// The maximum number of failures of one call.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The calls of a bulk operation.
pub(super) struct BulkCalls {
    /// The label of the progress bar.
    pub(super) what: &'static str,
    /// The number of calls.
    pub(super) calls: u32,
    /// The number of connections.
    pub(super) clients: u32,
    /// Builds the bytes of the n-th call. The call must be repeatable.
    pub(super) request: Box<dyn Fn(u32) -> Result<Vec<u8>, String> + Send + Sync>,
    /// Returns `true` if the error of a repeated call proves that an earlier copy took effect.
    pub(super) is_done: fn(&str) -> bool,
}

impl BulkCalls {
    /// Makes every call. Returns the errors of repeated calls.
    ///
    /// # Errors
    /// A call failed [`TRIES`] times.
    pub(super) async fn make(self, endpoints: &[String]) -> Result<BTreeMap<String, u64>, String> {
        let bar = progress_bar(self.what, u64::from(self.calls), "");
        let clients = usize::try_from(self.clients).unwrap_or(1);
        let (bulk, next) = (Arc::new(self), Arc::new(AtomicU32::new(0)));
        let mut workers = JoinSet::new();
        for endpoint in endpoints.iter().cycle().take(clients) {
            workers.spawn(bulk.clone().share(next.clone(), endpoint.clone(), bar.clone()));
        }
        let mut errors = BTreeMap::new();
        while let Some(worker) = workers.join_next().await {
            for (kind, count) in worker.map_err(|error| error.to_string())?? {
                *errors.entry(kind).or_default() += count;
            }
        }
        bar.finish_and_clear();
        Ok(errors)
    }

    /// Makes the calls of one connection.
    async fn share(
        self: Arc<Self>,
        next: Arc<AtomicU32>,
        endpoint: String,
        bar: ProgressBar,
    ) -> Result<BTreeMap<String, u64>, String> {
        let mut errors = BTreeMap::new();
        let mut connection = None;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.calls {
                return Ok(errors);
            }
            let request = (self.request)(number)?;
            let mut tries = 0;
            while let Err(kind) = call(&mut connection, &endpoint, &request).await {
                if tries > 0 && (self.is_done)(&kind) {
                    break;
                }
                tries += 1;
                if tries == TRIES {
                    return Err(format!(
                        "{}: call {number} failed {TRIES} times: {kind}",
                        self.what
                    ));
                }
                *errors.entry(kind).or_default() += 1;
                connection = None;
                tokio::time::sleep(PAUSE).await;
            }
            bar.inc(1);
        }
    }
}

async fn call(
    connection: &mut Option<HttpConnection>,
    endpoint: &str,
    request: &[u8],
) -> Result<(), String> {
    if connection.is_none() {
        *connection = Some(
            HttpConnection::open(endpoint, &Access::default())
                .await
                .map_err(|error| error.kind().to_string())?,
        );
    }
    let Some(open) = connection else { return Err("no connection".to_owned()) };
    let answer = open.exchange(request).await.map_err(|error| error.kind().to_string())?;
    if answer.is_success() { Ok(()) } else { Err(error_kind(answer.status, answer.body)) }
}
