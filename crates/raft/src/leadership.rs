//! The current leadership, as seen by this node, and its contact with the leader.
//!
//! A new leader has an epoch only after it has applied its own first entry, and with it all entries committed by its
//! predecessors. After a restart, the leader in the stored vote does not count until the node receives a message from
//! it. A leader that sends no message counts no longer, and neither does this node's own leadership without a quorum: so
//! no call waits for a frozen leader.

pub(crate) mod acknowledged;
pub(crate) mod fast_election;
pub(crate) mod handover;

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, ServerState};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

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

#[derive(Debug)]
pub(crate) struct LeaderContact {
    last: Mutex<Option<(NodeId, Instant)>>,
    /// `None` before the first message, and while the leader is silent for too long.
    leader: watch::Sender<Option<NodeId>>,
    /// A committed position that this node has not applied, and when it learned of it.
    behind: Mutex<Option<(u64, Instant)>>,
}

impl LeaderContact {
    pub(crate) fn new() -> Self {
        Self { last: Mutex::new(None), leader: watch::Sender::new(None), behind: Mutex::new(None) }
    }

    pub(crate) fn record_contact(&self, leader: NodeId) {
        let mut last = self.last.lock();
        *last = Some((leader, Instant::now()));
        self.leader.send_if_modified(|last| last.replace(leader) != Some(leader));
    }

    /// Records the committed position that the leader announced, and the position that this node has applied.
    pub(crate) fn record_commit(&self, committed: Option<u64>, applied: Option<u64>) {
        let mut behind = self.behind.lock();
        if behind.is_none_or(|(position, _)| applied >= Some(position)) {
            let newer = committed.filter(|position| applied < Some(*position));
            *behind = newer.map(|position| (position, Instant::now()));
        }
    }

    /// How long this node has known of a committed position that it has not applied.
    pub(crate) fn behind_for(&self, applied: Option<u64>) -> Duration {
        let behind = self.behind.lock().filter(|(position, _)| applied < Some(*position));
        behind.map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// Forgets a leader that has been silent for `silence_max`. Otherwise returns the time at which it will have been.
    pub(crate) fn forget_silent(&self, silence_max: Duration) -> Option<Instant> {
        let last = self.last.lock();
        let silent_at = last.as_ref().map(|(_, at)| *at + silence_max)?;
        if Instant::now() < silent_at {
            return Some(silent_at);
        }
        self.leader.send_if_modified(|leader| leader.take().is_some());
        None
    }

    /// The leader of the last accepted message, unless it is silent.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<NodeId>> {
        self.leader.subscribe()
    }

    /// The time of the last message from `leader`; `None` if another leader sent a later one.
    pub(crate) fn last(&self, leader: NodeId) -> Option<Instant> {
        self.last.lock().filter(|(node, _)| *node == leader).map(|(_, at)| at)
    }

    /// The time since the last message from any leader.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.last.lock().map(|(_, at)| at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_behind_from_the_first_announcement_until_it_has_applied_it() {
        let (contact, second) = (LeaderContact::new(), Duration::from_secs(1));
        contact.record_commit(Some(7), Some(7));
        assert_eq!(contact.behind_for(Some(7)), Duration::ZERO);
        for committed in 8..10 {
            contact.record_commit(Some(committed), Some(7));
            tokio::time::advance(second).await;
        }
        assert_eq!(contact.behind_for(Some(7)), second * 2);
        // A node that applies at the pace of the leader is never far behind.
        contact.record_commit(Some(12), Some(8));
        assert_eq!(contact.behind_for(Some(8)), Duration::ZERO);
        assert_eq!(contact.behind_for(Some(12)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_leader_is_forgotten_until_its_next_message() {
        let (contact, silence_max) = (LeaderContact::new(), Duration::from_secs(1));
        let mut leader = contact.leader();
        assert_eq!(contact.forget_silent(silence_max), None);
        contact.record_contact(NodeId(2));
        assert_eq!(*leader.borrow_and_update(), Some(NodeId(2)));
        let silent_at = contact.forget_silent(silence_max).unwrap();
        assert!(!leader.has_changed().unwrap());
        tokio::time::advance(silent_at - Instant::now()).await;
        assert_eq!(contact.forget_silent(silence_max), None);
        assert_eq!(*leader.borrow_and_update(), None);
        contact.record_contact(NodeId(2));
        assert_eq!(*leader.borrow_and_update(), Some(NodeId(2)));
    }
}
