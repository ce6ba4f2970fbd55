//! One node, assembled from all parts of the crate.
//!
//! A start verifies the disk before it listens, and applies the committed entries before it handles requests. A
//! shutdown transfers leadership, stops openraft, and then drains the log. A failure (see [`RaftNode::failed`])
//! immediately stops the listener and openraft.

mod api;
mod start;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use holdfast_storage::Log;
use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::barrier::Barrier;
use crate::failure::Failure;
use crate::leadership::contact::LeaderContact;
use crate::leadership::current::Leadership;
use crate::leadership::handover;
use crate::members::membership::MembershipProgress;
use crate::members::table::MemberTable;
use crate::metrics::RaftMetrics;
use crate::peers::Peers;
use crate::proposer::{BatchLimits, NodeContext, Proposer};
use crate::start::bootstrap::Bootstrap;
use crate::start::identity::DataDir;
use crate::state_machine::{LocalMachine, Raft};
use crate::store::disk::DiskGauge;

/// A running node. Clones share one node; it runs until [`RaftNode::shutdown`] or [`RaftNode::halt`].
#[derive(Clone)]
pub struct RaftNode {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeId,
    members: Arc<MemberTable>,
    membership_progress: MembershipProgress,
    raft: Raft,
    log: Log,
    local: Arc<LocalMachine>,
    proposer: Proposer,
    context: NodeContext,
    limits: BatchLimits,
    barrier: Barrier,
    bootstrap: Arc<Bootstrap>,
    peers: Arc<Peers>,
    disk: Arc<DiskGauge>,
    contact: Arc<LeaderContact>,
    metrics: Arc<RaftMetrics>,
    failure: Failure,
    leadership: watch::Receiver<Leadership>,
    peer_address: std::net::SocketAddr,
    election_max: Duration,
    started: Instant,
    /// Whether commands of other nodes are refused, as before a leadership.
    refuses_forwarded: Arc<AtomicBool>,
    tasks: Mutex<JoinSet<()>>,
    /// The data directory, locked until the node has stopped.
    data_dir: Mutex<Option<DataDir>>,
}

impl RaftNode {
    /// Shuts down in four steps: rejects new commands; transfers leadership to a caught-up voter if this node leads;
    /// stops openraft; closes the log after all queued requests are on the disk. The transfer takes at most about
    /// twice the longest election timeout.
    pub async fn shutdown(&self) {
        self.inner.proposer.close();
        if self.inner.failure.reason().is_none() {
            let bound = self.inner.election_max * 2;
            let rank = self.successor_rank(|_| true);
            handover::transfer_to_current_voter(&self.inner.context, bound, rank).await;
        }
        self.stop().await;
    }

    /// Stops immediately, without a leadership transfer, like a killed process from the peers' view.
    pub async fn halt(&self) {
        self.inner.proposer.close();
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

impl fmt::Debug for RaftNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftNode").field("node", &self.inner.node).finish_non_exhaustive()
    }
}
