//! The shutdown of a node.

use std::sync::atomic::Ordering;

use super::RaftNode;
use crate::handover;

impl RaftNode {
    /// Shuts down in four steps: rejects new commands; transfers leadership to a caught-up voter if this node leads;
    /// stops openraft; closes the log after all queued requests are on the disk. The transfer takes at most about
    /// twice the longest election timeout.
    pub async fn shutdown(&self) {
        self.inner.closing.store(true, Ordering::Release);
        if self.inner.failure.reason().is_none() {
            let bound = self.inner.election_max * 2;
            handover::transfer_to_current_voter(&self.inner.context, bound, |_| true).await;
        }
        self.stop().await;
    }

    /// Stops immediately, without a leadership transfer, like a killed process from the peers' view.
    pub async fn halt(&self) {
        self.inner.closing.store(true, Ordering::Release);
        self.stop().await;
    }

    async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock());
        tasks.shutdown().await;
        if let Err(error) = self.inner.raft.shutdown().await {
            tracing::error!(%error, "openraft did not stop cleanly");
        }
        self.inner.local.stop_observing();
        let log = self.inner.log.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || log.shutdown()).await {
            tracing::error!(%error, "the log did not close cleanly");
        }
        self.inner.data_dir.lock().take();
    }
}
