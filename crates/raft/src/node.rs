//! One node, assembled from all parts of the crate, and its status for metrics, health checks and the cluster view.
//!
//! A start verifies the disk before it listens, and applies the committed entries before it handles requests. A
//! shutdown transfers leadership, stops openraft, and then drains the log. A failure (see [`RaftNode::failed`])
//! immediately stops the listener and openraft.

mod api;
mod start;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use holdfast_storage::{Log, RecentSyncs};
use holdfast_types::{NodeId, Revision};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::barrier::Barrier;
use crate::failure::Failure;
use crate::leadership::{LeaderContact, Leadership, handover};
use crate::members::MemberTable;
use crate::members::membership::MembershipProgress;
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

/// The Raft role of a node. Services exchange it: append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Leader,
    /// The node follows a leader, or waits for one.
    Follower,
    Candidate,
    /// The node receives the log and has no vote.
    Learner,
    /// The node is shut down, or has failed.
    Stopped,
}

/// A peer as seen by this node. Only the leader has `matched` and `contact`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The last log position that the peer acknowledged.
    pub matched: Option<u64>,
    /// The time since the peer's last acknowledgement.
    pub contact: Option<Duration>,
    /// How long the peer has been behind without progress.
    pub stalled: Option<Duration>,
    /// Whether a connection to the peer is open.
    pub connected: bool,
    /// The address that does not answer and the reason, and how long it has not answered.
    pub unreachable: Option<(String, Duration)>,
    /// Why the peer refused the last handshake of this node, or which entries it has lost.
    pub refusal: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    pub node: NodeId,
    pub role: Role,
    /// The highest term that the node has seen.
    pub term: u64,
    /// The last known leader, which may be silent.
    pub leader: Option<NodeId>,
    /// The revision of the last applied command.
    pub applied_revision: Revision,
    /// The last applied position of the log.
    pub applied_index: Option<u64>,
    /// The last position known to be committed.
    pub committed_index: Option<u64>,
    /// The last position of the log.
    pub last_log_index: Option<u64>,
    /// The last log position in the newest snapshot.
    pub snapshot_index: Option<u64>,
    /// The last position purged from the log.
    pub purged_index: Option<u64>,
    /// The time since the last message from the leader; on the leader, from a quorum.
    pub leader_contact: Option<Duration>,
    /// Whether this node is in contact with the leader; on the leader, with a quorum.
    pub has_quorum: bool,
    /// How long this node has known of a committed position that it has not applied.
    pub behind_for: Duration,
    /// The free bytes on the disk of the data directory at the last check.
    pub disk_free_bytes: u64,
    /// Whether `disk_free_bytes` is below the reserve.
    pub disk_low: bool,
    /// The bytes of the log on the disk.
    pub log_bytes: u64,
    /// The syncs of the log in the last minute.
    pub recent_syncs: RecentSyncs,
    /// The condition that a node without a log waits for, and the options of an operator.
    pub waiting_for: Option<String>,
    pub voters: Vec<NodeId>,
    /// What the unfinished change of a member waits for. Only the leader has it.
    pub change_waits_for: Option<String>,
    /// The other members.
    pub peers: BTreeMap<NodeId, PeerStatus>,
}
