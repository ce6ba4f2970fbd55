//! Reads all entries of the log and the newest snapshot from the disk, and checks their checksums.
//!
//! Otherwise a node would notice damage only at its next start, or when another node needs the file: perhaps when no other
//! copy is left. Damage is a failure of the node, as everywhere. Bounds: one scrub at a time, on a thread of low priority,
//! at most [`BYTES_PER_SECOND`].

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_storage::{Log, StoreError};

use crate::failure::Failure;
use crate::metrics::RaftMetrics;
use crate::store::run_in_background;
use crate::store::snapshot::SnapshotStore;

const BYTES_PER_SECOND: u64 = 8 << 20;
/// The bytes of the log that one read returns.
const READ_BYTES: usize = 1 << 20;

pub(crate) struct Scrub {
    pub(crate) log: Log,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) failure: Failure,
    pub(crate) metrics: Arc<RaftMetrics>,
    /// The time between the end of one scrub and the start of the next one.
    pub(crate) every: Duration,
}

impl Scrub {
    pub(crate) async fn run(self) {
        loop {
            tokio::time::sleep(self.every).await;
            let (log, snapshots) = (self.log.clone(), self.snapshots.clone());
            match run_in_background("scrub", move || scrub(&log, &snapshots)).await {
                Ok(Ok(bytes)) => {
                    tracing::info!(bytes, "the files of this node are undamaged");
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    self.metrics.last_scrub.set(now.as_secs().cast_signed());
                }
                // The node closes its log when it stops.
                Ok(Err(StoreError::Closed)) => return,
                Ok(Err(error)) => return self.failure.report(error.to_string()),
                Err(error) => tracing::warn!(%error, "the scrub of the files did not run"),
            }
        }
    }
}

/// Returns the number of checked bytes.
fn scrub(log: &Log, snapshots: &SnapshotStore) -> Result<u64, StoreError> {
    let mut pace = Pace { started: Instant::now(), bytes: 0 };
    log.drop_cached_pages();
    let (mut next, last) = log.bounds();
    while let (Some(first), Some(last)) = (next, last)
        && first <= last
    {
        let records = log.read(first..=last, READ_BYTES)?;
        pace.add(records.iter().map(|record| record.bytes.len() as u64).sum());
        // An empty read means that these entries were purged.
        next = match records.last() {
            Some(record) => Some(record.index + 1),
            None => log.bounds().0.filter(|start| *start > first),
        };
    }
    if let Some(snapshot) = snapshots.reader()? {
        snapshot.drop_cached_pages();
        for part in snapshot.parts() {
            pace.add(part?.len() as u64);
        }
    }
    Ok(pace.bytes)
}

/// Limits the rate of a scrub.
struct Pace {
    started: Instant,
    bytes: u64,
}

impl Pace {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        let due = Duration::from_millis(self.bytes.saturating_mul(1_000) / BYTES_PER_SECOND);
        std::thread::sleep(due.saturating_sub(self.started.elapsed()));
    }
}
