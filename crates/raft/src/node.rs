//! One node, assembled from all parts of the crate.
//!
//! A start verifies the disk before it listens, and applies the committed entries before it handles requests. A
//! shutdown transfers leadership, stops openraft, and then drains the log. A failure (see [`RaftNode::failed`])
//! immediately stops the listener and openraft.

mod api;
mod start;
mod stop;

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
use crate::bootstrap::Bootstrap;
use crate::disk::DiskGauge;
use crate::failure::Failure;
use crate::identity::DataDir;
use crate::leader_contact::LeaderContact;
use crate::leadership::Leadership;
use crate::members::MemberTable;
use crate::membership::MembershipProgress;
use crate::metrics::RaftMetrics;
use crate::peers::Peers;
use crate::proposer::{BatchLimits, Proposer, ProposerContext};
use crate::state_machine::{LocalMachine, Raft};

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
    context: ProposerContext,
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
    closing: AtomicBool,
    /// Whether commands of other nodes are refused, as before a leadership.
    refuses_forwarded: Arc<AtomicBool>,
    tasks: Mutex<JoinSet<()>>,
    /// The data directory, locked until the node has stopped.
    data_dir: Mutex<Option<DataDir>>,
}

impl fmt::Debug for RaftNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftNode").field("node", &self.inner.node).finish_non_exhaustive()
    }
}
