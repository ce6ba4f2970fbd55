//! The current leadership, as seen by this node.
//!
//! A new leader has an epoch only after it has applied its own first entry, and with it all entries committed by its
//! predecessors. After a restart, the leader in the stored vote does not count until the node receives a message from
//! it. A leader that sends no message counts no longer, and neither does this node's own leadership without a quorum: so
//! no call waits for a frozen leader.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, ServerState};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::leadership::contact::LeaderContact;
use crate::metrics::RaftMetrics;
use crate::state_machine::Raft;
use crate::type_config::{LeaderEpoch, LogId, TypeConfig};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The newest term seen by this node.
    pub term: u64,
    /// The leader, if it is in contact with this node; this node itself, if it is in contact with a quorum. It may have
    /// lost its leadership since.
    pub leader: Option<NodeId>,
    /// This node's own leadership. `None` unless this node leads and has applied all entries committed before.
    pub epoch: Option<LeaderEpoch>,
}

type ServerMetrics = openraft::metrics::RaftServerMetrics<TypeConfig>;

/// How long a call to a lost leader still waits: for the reply of one that only lost its leadership, and for a message
/// of one that was late.
const LOSS_GRACE: Duration = Duration::from_millis(150);
/// The interval between two looks at the acknowledgements of a leader without a quorum.
const QUORUM_CHECK: Duration = Duration::from_millis(20);

/// Resolves when `leader` has not been the leader that this node knows for [`LOSS_GRACE`]: the outcome of a command that
/// was sent to it is then unknown.
pub(crate) async fn ended(mut leadership: watch::Receiver<Leadership>, leader: NodeId) {
    loop {
        let lost = leadership.wait_for(|now| now.leader != Some(leader)).await.is_ok();
        let back = leadership.wait_for(|now| now.leader == Some(leader));
        // Without `lost` openraft has stopped.
        if !lost || !timeout(LOSS_GRACE, back).await.is_ok_and(|back| back.is_ok()) {
            return;
        }
    }
}

/// What [`LeadershipMonitor::run`] reads.
pub(crate) struct LeadershipMonitor {
    pub(crate) raft: Raft,
    pub(crate) applied: watch::Receiver<Option<LogId>>,
    pub(crate) contact: Arc<LeaderContact>,
    pub(crate) metrics: Arc<RaftMetrics>,
    /// A leader that is silent for this long is unknown, and a node that leads without a quorum for this long.
    pub(crate) silence_max: Duration,
}

impl LeadershipMonitor {
    /// Keeps `sender` current until openraft stops.
    pub(crate) async fn run(mut self, sender: watch::Sender<Leadership>) {
        let (mut elected, mut leads_since) = (None, None);
        let mut last_contact = self.contact.leader();
        let mut server_metrics = self.raft.server_metrics();
        loop {
            let server = server_metrics.borrow_watched().clone();
            let look_at = if server.state == ServerState::Leader {
                let since = *leads_since.get_or_insert_with(Instant::now);
                self.quorum_silent_at(&server, since)
            } else {
                leads_since = None;
                Ok(self.contact.forget_silent(self.silence_max))
            };
            let applied = *self.applied.borrow_and_update();
            let contact = *last_contact.borrow_and_update();
            let now = view(&server, applied, contact, look_at.is_ok());
            let before = *sender.borrow();
            if sender.send_if_modified(|old| std::mem::replace(old, now) != now) {
                log(&before, &now);
            }
            let known = now.leader.map(|leader| (now.term, leader));
            if known.is_some() && known != elected {
                elected = known;
                self.metrics.leader_changes.inc();
            }
            // Only a leader that has not applied its first entry depends on the applied position.
            let waits = server.state == ServerState::Leader && now.epoch.is_none();
            let look_at =
                look_at.unwrap_or_else(|QuorumSilent| Some(Instant::now() + QUORUM_CHECK));
            let ended = tokio::select! {
                changed = server_metrics.changed() => changed.is_err(),
                changed = last_contact.changed() => changed.is_err(),
                changed = self.applied.changed(), if waits => changed.is_err(),
                () = sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => false,
            };
            if ended {
                let last = *sender.borrow();
                sender.send_replace(Leadership { term: last.term, leader: None, epoch: None });
                return;
            }
        }
    }

    /// When this leader's quorum will have been silent for too long; `None` for the only voter.
    fn quorum_silent_at(
        &self,
        server: &ServerMetrics,
        since: Instant,
    ) -> Result<Option<Instant>, QuorumSilent> {
        let mut voters = server.membership_config.voter_ids();
        if voters.next() == Some(server.id) && voters.next().is_none() {
            return Ok(None);
        }
        let acked = self.raft.data_metrics().borrow_watched().last_quorum_acked;
        let silent_for = acked.map_or(Duration::MAX, |at| at.elapsed()).min(since.elapsed());
        match self.silence_max.checked_sub(silent_for) {
            Some(left) if !left.is_zero() => Ok(Some(Instant::now() + left)),
            Some(_) | None => Err(QuorumSilent),
        }
    }
}

/// No quorum has acknowledged this leader for too long.
#[derive(Clone, Copy, Debug)]
struct QuorumSilent;

fn log(before: &Leadership, now: &Leadership) {
    let same_term = before.term == now.term;
    match now.leader {
        Some(leader) if !same_term || before.leader != now.leader => {
            tracing::info!(leader = leader.0, term = now.term, "the leader is known");
        }
        None if before.leader.is_some() => {
            tracing::warn!(term = now.term, "the leader is unknown");
        }
        Some(_) | None => {}
    }
}

fn view(
    server: &ServerMetrics,
    applied: Option<LogId>,
    last_contact: Option<NodeId>,
    has_quorum: bool,
) -> Leadership {
    let leader_id = server.vote.leader_id;
    let leads = server.state == ServerState::Leader
        && server.vote.committed
        && leader_id.node_id == server.id
        && applied.is_some_and(|id| id.leader_id == leader_id);
    Leadership {
        term: leader_id.term,
        leader: server
            .current_leader
            .filter(|leader| {
                let leads = *leader == server.id && server.state == ServerState::Leader;
                if leads { has_quorum } else { last_contact == Some(NodeId(*leader)) }
            })
            .map(NodeId),
        epoch: leads.then(|| LeaderEpoch::new(leader_id)),
    }
}
