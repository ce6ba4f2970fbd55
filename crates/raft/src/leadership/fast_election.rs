//! Starts an election early after the end of the leader's process.
//!
//! The connections of a dead process close, and its machine refuses new ones. If a majority of the voters, this node
//! included, sees both ([`LeaderLoss`]), the voter with the most entries requests votes that do not wait for the
//! leader's lease. The lease protects no read and no renewal, because each of them confirms the leader by a quorum (ADR
//! 0034). A leader that is paused, overloaded or cut off keeps its leadership as before.
//!
//! Without such a majority, for example because the whole machine is lost, followers skip the random part of the
//! election timeout: when the leader's lease has expired, they request pre-votes one after the other, in the order of
//! their ids.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::leadership::{LeaderContact, Leadership};
use crate::peers::{IncomingConnections, Peers};
use crate::state_machine::Raft;
use crate::type_config::Vote;
use crate::wire::{ConfirmLoss, LogIdDto, LossReply, Purpose};

/// The delay between the attempts of two nodes, and between two attempts of one node: long enough for an election on a
/// local network.
const TURN: Duration = Duration::from_millis(40);
/// The time limit for the other voters to confirm the loss.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_millis(100);
/// The pause before the other voters are asked again: they may notice the closed connections slightly later.
const CONFIRMATION_PAUSE: Duration = Duration::from_millis(5);
/// The slack for the lease: this module starts to count slightly later than openraft.
const LEASE_SLACK: Duration = Duration::from_millis(10);
/// After this many attempts openraft's own election timer takes over.
const ATTEMPTS_MAX: u32 = 8;

/// Whether the process of the leader has ended, as far as this node sees. The connections of a dead process are closed, and
/// the kernel refuses new ones at once. A leader that is paused, overloaded or cut off does neither: its connections stay
/// open, or a new one gets no answer.
pub(crate) struct LeaderLoss {
    raft: Raft,
    leadership: watch::Receiver<Leadership>,
    incoming: Arc<IncomingConnections>,
    peers: Arc<Peers>,
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
        let is_lost = self.may_lead(call) && self.is_gone(call.leader).await && self.may_lead(call);
        let last = self.raft.data_metrics().borrow_watched().last_log;
        let up_for = holdfast_types::millis(self.started_at.elapsed());
        let uptime = u8::try_from(up_for.checked_ilog2().unwrap_or(0)).unwrap_or(u8::MAX);
        LossReply { is_lost, last: last.map(Into::into), uptime }
    }

    /// Whether this node knows no other leader and no later term. A node that has just started knows no leader at all.
    fn may_lead(&self, call: &ConfirmLoss) -> bool {
        let now = *self.leadership.borrow();
        now.term <= call.term && now.leader.is_none_or(|leader| leader == call.leader)
    }

    async fn is_gone(&self, leader: NodeId) -> bool {
        !self.incoming.has(leader) && self.peers.is_refused(leader).await
    }
}

pub(crate) struct FastElection {
    node: NodeId,
    contact: Arc<LeaderContact>,
    leadership: watch::Receiver<Leadership>,
    lease: Duration,
    loss: Arc<LeaderLoss>,
}

/// The leader to replace, and the voters of the cluster.
struct LostLeader {
    node: NodeId,
    vote: Vote,
    heard_at: Instant,
    voters: Vec<u64>,
}

/// The outcome of one question to the other voters.
enum Confirmation {
    /// A majority sees the loss, and this node starts the election.
    Elect,
    /// A majority sees the loss, and another voter starts the election.
    Defer,
    /// Too few voters see the loss.
    Denied,
}

impl FastElection {
    pub(crate) fn new(
        loss: &Arc<LeaderLoss>,
        node: NodeId,
        contact: Arc<LeaderContact>,
        lease: Duration,
    ) -> Self {
        Self { node, contact, leadership: loss.leadership.clone(), lease, loss: loss.clone() }
    }

    /// Starts an election whenever a connection of the leader has ended.
    pub(crate) async fn run(mut self, mut ends: mpsc::Receiver<NodeId>) {
        while let Some(lost) = ends.recv().await {
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
        let metrics = self.loss.raft.server_metrics().borrow_watched().clone();
        let voters: Vec<u64> = metrics.membership_config.voter_ids().collect();
        if !voters.contains(&self.node.0) || metrics.vote.leader_id.node_id != lost.0 {
            return;
        }
        let lost = LostLeader { node: lost, vote: metrics.vote, heard_at, voters };
        self.elect_with_a_majority(&lost).await;
        self.elect_after_the_lease(&lost).await;
    }

    /// Whether no other leader is known, and the lost one has sent nothing.
    fn is_unreplaced(&self, lost: &LostLeader) -> bool {
        self.leads(lost.node) && self.contact.last(lost.node) == Some(lost.heard_at)
    }

    /// Starts an election as soon as a majority of the voters sees the loss, until the lease expires.
    async fn elect_with_a_majority(&mut self, lost: &LostLeader) {
        while self.is_unreplaced(lost) && Instant::now() < lost.heard_at + self.lease {
            match self.confirm(lost).await {
                Confirmation::Denied => sleep(CONFIRMATION_PAUSE).await,
                Confirmation::Elect => {
                    tracing::info!(
                        leader = lost.node.0,
                        "the leader has ended: starting an election"
                    );
                    let transfer = TransferLeaderRequest::new(lost.vote, self.node.0, None);
                    if self.loss.raft.handle_transfer_leader(transfer).await.is_err() {
                        return;
                    }
                    self.wait_for_election(lost).await;
                }
                Confirmation::Defer => self.wait_for_election(lost).await,
            }
        }
    }

    async fn wait_for_election(&mut self, lost: &LostLeader) {
        let elected = self.leadership.wait_for(|now| now.leader != Some(lost.node));
        timeout(TURN, elected).await.ok();
    }

    /// Asks the other voters whether they see the loss, if this node does.
    async fn confirm(&self, lost: &LostLeader) -> Confirmation {
        let term = lost.vote.leader_id.term;
        let question = || ConfirmLoss { leader: lost.node, term };
        let own = self.loss.judge(&question()).await;
        if !own.is_lost {
            return Confirmation::Denied;
        }
        let deadline = Instant::now() + CONFIRMATION_TIMEOUT;
        let mut replies = JoinSet::new();
        let others = lost.voters.iter().filter(|id| ![self.node.0, lost.node.0].contains(id));
        for other in others.copied().map(NodeId) {
            let (peers, question) = (self.loss.peers.clone(), question());
            replies.spawn(async move {
                (other, peers.call(other, Purpose::Control, question, deadline).await)
            });
        }
        let majority = lost.voters.len() / 2 + 1;
        let (mut seen_by, mut best) = (1, rank(self.node, &own));
        while seen_by < majority {
            match replies.join_next().await {
                Some(Ok((other, Ok(reply)))) if reply.is_lost => {
                    seen_by += 1;
                    best = best.max(rank(other, &reply));
                }
                Some(_) => {}
                None => return Confirmation::Denied,
            }
        }
        if best == rank(self.node, &own) { Confirmation::Elect } else { Confirmation::Defer }
    }

    /// Requests pre-votes when the lease has expired.
    async fn elect_after_the_lease(&mut self, lost: &LostLeader) {
        let is_earlier = |id: &&u64| **id < self.node.0 && **id != lost.node.0;
        let earlier = lost.voters.iter().filter(is_earlier).count();
        let wait = TURN.saturating_mul(u32::try_from(earlier).unwrap_or(u32::MAX));
        if !self.is_unreplaced(lost) {
            return;
        }
        sleep_until(lost.heard_at + self.lease + LEASE_SLACK + wait).await;
        for _ in 0..ATTEMPTS_MAX {
            if !self.is_unreplaced(lost) {
                return;
            }
            let leader = lost.node.0;
            tracing::info!(leader, "the leader disconnected: starting an election");
            if self.loss.raft.trigger().elect(true).await.is_err() {
                return;
            }
            // The next attempt reads the new state.
            timeout(TURN, self.leadership.changed()).await.ok();
        }
    }
}

/// The order of the candidates: the most entries, then the longest uptime, then the smallest id.
fn rank(node: NodeId, reply: &LossReply) -> (Option<(u64, u64)>, u8, Reverse<NodeId>) {
    let position = |last: &LogIdDto| (last.term, last.index);
    (reply.last.as_ref().map(position), reply.uptime, Reverse(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_voter_with_the_most_entries_and_then_the_longest_uptime_starts_the_election() {
        let of = |node, last: Option<(u64, u64)>, uptime| {
            let last = last.map(|(term, index)| LogIdDto { term, leader: 1, index });
            rank(NodeId(node), &LossReply { is_lost: true, last, uptime })
        };
        assert!(of(2, Some((1, 9)), 8) > of(3, Some((1, 9)), 8));
        assert!(of(3, Some((1, 9)), 9) > of(2, Some((1, 9)), 8));
        assert!(of(3, Some((1, 9)), 8) > of(2, Some((1, 8)), 9));
        assert!(of(3, Some((2, 1)), 8) > of(2, Some((1, 9)), 8));
        assert!(of(3, Some((1, 0)), 8) > of(2, None, 9));
    }
}
