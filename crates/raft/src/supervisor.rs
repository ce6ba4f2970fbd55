//! Background tasks of a running node: a stop on failure, and snapshots that limit the log.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;
use crate::state_machine::{LocalMachine, Raft};
use crate::store::disk::DiskGauge;
use crate::store::snapshot::SnapshotStore;
use crate::type_config::TypeConfig;

/// The time between two checks whether a snapshot has space.
const SPACE_PAUSE: Duration = Duration::from_secs(5);

/// The time in which a peer takes the entries that it is sent, or the call fails.
const PURGE_BOUND: Duration = Duration::from_secs(10);

/// Runs `serving` until the node fails; then stops openraft, so that the node neither votes nor leads.
pub(crate) async fn until_failure(serving: impl Future<Output = ()>, raft: Raft, failure: Failure) {
    tokio::select! {
        () = serving => {}
        _ = failure.wait() => {
            raft.shutdown().await.ok();
        }
    }
}

/// Reports the error that stopped openraft. A regular stop is not a failure.
pub(crate) async fn watch_openraft(raft: Raft, failure: Failure) {
    let mut metrics = raft.metrics();
    loop {
        let state = metrics.borrow_watched().running_state.clone();
        match state {
            Ok(()) => {}
            Err(Fatal::Stopped) => return,
            Err(error) => {
                failure.report(error.to_string());
                return;
            }
        }
        if metrics.changed().await.is_err() {
            failure.report("openraft ended without an error");
            return;
        }
    }
}

/// Builds a snapshot after enough applied bytes, and purges the log before the previous one.
pub(crate) struct Compactor {
    pub(crate) raft: Raft,
    pub(crate) local: Arc<LocalMachine>,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) disk: Arc<DiskGauge>,
}

impl Compactor {
    pub(crate) async fn run(self) {
        loop {
            self.local.snapshot_due().await;
            if self.purge().await.is_err() {
                return;
            }
            // Space is checked again later, also after a build that found too little of it.
            let mut pauses = self.snapshots.was_abandoned();
            while pauses || !self.has_space() {
                sleep(SPACE_PAUSE).await;
                pauses = false;
            }
            if self.raft.trigger().snapshot().await.is_err() {
                return;
            }
        }
    }

    /// Purges the log up to the last snapshot. openraft keeps a number of entries before a snapshot: large ones would fill
    /// the disk. It defers a purge while it sends the entries, and expects no new snapshot meanwhile.
    async fn purge(&self) -> Result<(), Fatal<TypeConfig>> {
        let mut metrics = self.raft.metrics();
        let last = metrics.borrow_watched().snapshot;
        if let Some(last) = last {
            self.raft.trigger().purge_log(last.index).await?;
        }
        let purged = async {
            while metrics.borrow_watched().purged < last && metrics.changed().await.is_ok() {}
        };
        timeout(PURGE_BOUND, purged).await.ok();
        Ok(())
    }

    fn has_space(&self) -> bool {
        let stored = self.local.read(|machine| machine.counts().tree_bytes);
        self.disk.has_space_for(snapshot_space(self.snapshots.bytes_expected(), stored))
    }
}

/// The space that the next snapshot may need: twice the previous one, which a lack of space may have ended, or twice the bytes that clients store if these are more.
fn snapshot_space(previous: u64, stored: u64) -> u64 {
    previous.max(stored).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_snapshot_and_one_of_a_grown_state_need_the_space_of_the_state() {
        assert_eq!([(0, 7), (3, 7), (7, 3)].map(|(a, b)| snapshot_space(a, b)), [14, 14, 14]);
    }
}
