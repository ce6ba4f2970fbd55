//! What the proposer works with: the parts of the node that it needs, and the limits of a batch.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{NodeId, Stamp};
use tokio::sync::watch;

use crate::config::{Clock, RaftConfig};
use crate::leadership::current::Leadership;
use crate::metrics::RaftMetrics;
use crate::peers::Peers;
use crate::state_machine::{LocalMachine, Raft};
use crate::store::disk::DiskGauge;

#[derive(Clone)]
pub(crate) struct ProposerContext {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) disk: Arc<DiskGauge>,
    pub(crate) wall_clock: Clock,
    pub(crate) metrics: Arc<RaftMetrics>,
    pub(crate) local: Arc<LocalMachine>,
}

impl ProposerContext {
    /// The stamp of an entry proposed now.
    pub(crate) fn stamp(&self) -> Stamp {
        self.local.stamps().read(std::time::Instant::now(), (self.wall_clock)())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) queue_max: usize,
    pub(crate) inflight_max: usize,
    pub(crate) commands_max: usize,
    pub(crate) bytes_max: usize,
    /// How long a command waits for a leader to appear.
    pub(crate) leader_wait: Duration,
}

impl BatchLimits {
    pub(crate) fn new(config: &RaftConfig) -> Self {
        Self {
            queue_max: config.propose_queue_max,
            inflight_max: config.propose_inflight_max,
            commands_max: config.batch_commands_max,
            bytes_max: config.batch_bytes_max,
            leader_wait: config.timing.leader_wait(),
        }
    }
}
