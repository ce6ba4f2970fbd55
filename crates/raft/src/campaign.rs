//! Shortens the wait for an election when the leader's process is gone.
//!
//! A process that dies takes its connections with it, so its followers need not wait a random time on top of the
//! leader's lease: as soon as the lease has run out, they ask for pre-votes one after the other, in the order of their
//! ids. The lease itself is never cut short, and a leader that only lost its connections keeps leading: it is heard
//! again, or the pre-votes are refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use crate::contact::Contact;
use crate::leadership::Leadership;
use crate::type_config::Raft;

/// Between the attempts of two nodes, and between two attempts of one: enough for an election on a local network.
const TURN: Duration = Duration::from_millis(40);
/// The lease is counted from a moment just after the one openraft counts from, and openraft must find it over.
const LEASE_SLACK: Duration = Duration::from_millis(10);
/// After so many attempts openraft's own timer takes over.
const ATTEMPTS_MAX: u32 = 8;

/// Everything a campaign looks at.
pub(crate) struct Campaign {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) members: BTreeSet<NodeId>,
    pub(crate) contact: Arc<Contact>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) lease: Duration,
}

impl Campaign {
    /// Waits for nodes that hung up, and stands for election in place of a leader among them.
    pub(crate) async fn run(mut self, mut hung_up: mpsc::Receiver<NodeId>) {
        while let Some(lost) = hung_up.recv().await {
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
        let rivals = self.members.iter().filter(|id| **id < self.node && **id != lost).count();
        let wait = TURN.saturating_mul(u32::try_from(rivals).unwrap_or(u32::MAX));
        sleep_until(heard_at + self.lease + LEASE_SLACK + wait).await;
        for _ in 0..ATTEMPTS_MAX {
            if !self.leads(lost) || self.contact.last(lost) != Some(heard_at) {
                return;
            }
            tracing::info!(leader = lost.0, "the leader hung up: standing for election");
            if self.raft.trigger().elect(true).await.is_err() {
                return;
            }
            // Whatever changes is looked at in the next turn.
            timeout(TURN, self.leadership.changed()).await.ok();
        }
    }
}
