//! Starts an election early after the end of the leader's process.
//!
//! The connections of a dead process close. Its followers then skip the random part of the election timeout: when the
//! leader's lease has expired, they request pre-votes one after the other, in the order of their ids. The lease is
//! never shortened. A leader that lost only its connections keeps its leadership: its followers receive its next
//! heartbeat, or reject the pre-votes.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use crate::leadership::contact::LeaderContact;
use crate::leadership::current::Leadership;
use crate::state_machine::Raft;

/// The delay between the attempts of two nodes, and between two attempts of one node: long enough for an election on a
/// local network.
const TURN: Duration = Duration::from_millis(40);
/// The slack for the lease: this module starts to count slightly later than openraft.
const LEASE_SLACK: Duration = Duration::from_millis(10);
/// After this many attempts openraft's own election timer takes over.
const ATTEMPTS_MAX: u32 = 8;

pub(crate) struct FastElection {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) contact: Arc<LeaderContact>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) lease: Duration,
}

impl FastElection {
    /// Starts an election whenever one of the `disconnected` nodes is the leader.
    pub(crate) async fn run(mut self, mut disconnected: mpsc::Receiver<NodeId>) {
        while let Some(lost) = disconnected.recv().await {
            if self.leads(lost) && lost != self.node {
                self.replace(lost).await;
            }
        }
    }

    fn leads(&self, node: NodeId) -> bool {
        self.leadership.borrow().leader == Some(node)
    }

    async fn replace(&mut self, lost: NodeId) {
        let Some(heard_at) = self.contact.last(lost) else { return };
        let metrics = self.raft.server_metrics().borrow_watched().clone();
        let voters: Vec<u64> = metrics.membership_config.voter_ids().collect();
        if !voters.contains(&self.node.0) {
            return;
        }
        let earlier = voters.iter().filter(|id| **id < self.node.0 && **id != lost.0).count();
        let wait = TURN.saturating_mul(u32::try_from(earlier).unwrap_or(u32::MAX));
        sleep_until(heard_at + self.lease + LEASE_SLACK + wait).await;
        for _ in 0..ATTEMPTS_MAX {
            if !self.leads(lost) || self.contact.last(lost) != Some(heard_at) {
                return;
            }
            tracing::info!(leader = lost.0, "the leader disconnected: starting an election");
            if self.raft.trigger().elect(true).await.is_err() {
                return;
            }
            // The next attempt reads the new state.
            timeout(TURN, self.leadership.changed()).await.ok();
        }
    }
}
