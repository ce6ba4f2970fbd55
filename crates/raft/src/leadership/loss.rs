//! Whether the process of the leader has ended, as far as this node sees.
//!
//! The connections of a dead process are closed, and the kernel refuses new ones at once. A leader that is paused,
//! overloaded or cut off does neither: its connections stay open, or a new one gets no answer.

use std::sync::Arc;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::leadership::current::Leadership;
use crate::peers::Peers;
use crate::state_machine::Raft;
use crate::transport::incoming::IncomingConnections;
use crate::wire::{ConfirmLoss, LossReply};

pub(crate) struct LeaderLoss {
    pub(crate) raft: Raft,
    pub(crate) leadership: watch::Receiver<Leadership>,
    incoming: Arc<IncomingConnections>,
    pub(crate) peers: Arc<Peers>,
    /// When this process started.
    started_at: Instant,
}

impl LeaderLoss {
    pub(crate) fn new(
        raft: Raft,
        leadership: watch::Receiver<Leadership>,
        incoming: Arc<IncomingConnections>,
        peers: Arc<Peers>,
    ) -> Arc<Self> {
        Arc::new(Self { raft, leadership, incoming, peers, started_at: Instant::now() })
    }

    /// Whether the leader of this term is lost, and the last log entry of this node.
    pub(crate) async fn judge(&self, call: &ConfirmLoss) -> LossReply {
        let is_lost = self.leads(call) && self.is_gone(call.leader).await && self.leads(call);
        let last = self.raft.data_metrics().borrow_watched().last_log;
        let up_for = holdfast_types::millis(self.started_at.elapsed());
        let uptime = u8::try_from(up_for.checked_ilog2().unwrap_or(0)).unwrap_or(u8::MAX);
        LossReply { is_lost, last: last.map(Into::into), uptime }
    }

    fn leads(&self, call: &ConfirmLoss) -> bool {
        let now = *self.leadership.borrow();
        now.term == call.term && now.leader == Some(call.leader)
    }

    async fn is_gone(&self, leader: NodeId) -> bool {
        !self.incoming.has(leader) && self.peers.is_refused(leader).await
    }
}
