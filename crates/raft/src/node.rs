//! One node: everything put together.
//!
//! Owns the order of starting and stopping, and the tasks. Starting verifies the disk before anything listens, and
//! applies what was committed before anybody is answered. Stopping hands leadership over first, then stops openraft,
//! then drains the log. A failure (see [`RaftNode::failed`]) stops listening and openraft at once.

mod api;
mod start;
mod stop;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use holdfast_storage::Log;
use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::barrier::Barrier;
use crate::contact::Contact;
use crate::counters::Counters;
use crate::disk::DiskGauge;
use crate::failure::Failure;
use crate::founding::Founding;
use crate::identity::DataDir;
use crate::leadership::Leadership;
use crate::peers::Peers;
use crate::proposer::{Means, Packing, Proposer};
use crate::state_machine::LocalMachine;
use crate::type_config::Raft;

/// A running node. Clones are the same node; it runs until [`RaftNode::shutdown`] or [`RaftNode::halt`].
#[derive(Clone)]
pub struct RaftNode {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeId,
    members: BTreeSet<NodeId>,
    raft: Raft,
    log: Log,
    local: Arc<LocalMachine>,
    proposer: Proposer,
    means: Means,
    packing: Packing,
    barrier: Barrier,
    founding: Arc<Founding>,
    peers: Arc<Peers>,
    disk: Arc<DiskGauge>,
    contact: Arc<Contact>,
    counters: Arc<Counters>,
    failure: Failure,
    leadership: watch::Receiver<Leadership>,
    peer_address: std::net::SocketAddr,
    /// A transfer of leadership takes at most about this long.
    transfer_bound: Duration,
    closing: AtomicBool,
    tasks: Mutex<JoinSet<()>>,
    /// Locked until the node has stopped.
    data_dir: Mutex<Option<DataDir>>,
}

impl fmt::Debug for RaftNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftNode").field("node", &self.inner.node).finish_non_exhaustive()
    }
}
