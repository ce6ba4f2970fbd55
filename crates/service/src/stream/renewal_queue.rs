//! The queue of streams whose sessions wait for the next batch of renewals.
//!
//! Bounds: one entry per stream, [`BATCH_MAX`] sessions in a batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::SessionId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::liveness::Liveness;

/// The maximum number of sessions in one batch.
const BATCH_MAX: usize = 16_384;

/// Streams that wait for a renewal of their sessions.
#[derive(Debug, Default)]
pub(crate) struct RenewalQueue {
    waiting: Mutex<BTreeMap<SessionId, Vec<Arc<Liveness>>>>,
    filled: Notify,
}

impl RenewalQueue {
    /// Adds a stream. The caller adds a stream only once until its renewal has ended.
    pub(crate) fn add(&self, liveness: Arc<Liveness>) {
        self.waiting.lock().entry(liveness.id).or_default().push(liveness);
        self.filled.notify_one();
    }

    /// Takes the next batch; waits for its first stream.
    pub(crate) async fn take(&self) -> BTreeMap<SessionId, Vec<Arc<Liveness>>> {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.waiting.lock();
                let rest = match waiting.keys().nth(BATCH_MAX).copied() {
                    Some(first) => waiting.split_off(&first),
                    None => BTreeMap::new(),
                };
                let batch = std::mem::replace(&mut *waiting, rest);
                if !batch.is_empty() {
                    return batch;
                }
            }
            filled.await;
        }
    }
}
