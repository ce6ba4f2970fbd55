//! Makes the Raft membership equal to the members of the replicated state, while this node leads.
//!
//! The leader first writes the first command of a new cluster and registers data directories (design D14): an unregistered
//! member gets neither votes nor entries. Then it takes one step of the unfinished change (`plan.rs`) at a time. Every
//! step can be repeated, so the next leader finishes the change of a leader that stopped.

mod automatic;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_machine::Machine;
use holdfast_types::{
    Actor, Command, Invitation, Member, MembershipChange, NodeId, Reason, Stamp, millis,
};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::Precondition;
use openraft::{ChangeMembers, EmptyNode, Instant as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use self::automatic::{AutomaticChange, AutomaticFacts};
use self::plan::{RaftView, Step, next_step};
use crate::leadership::{LeaderContact, Leadership, handover};
use crate::proposer::{NodeContext, write_as_leader};
use crate::transport::handshake::PeerHandshake;
use crate::type_config::{LeaderEpoch, TypeConfig};
use crate::wire::{CheckPeer, Ping, Purpose};

type Changes = ChangeMembers<u64, EmptyNode>;

/// The interval between two calls to the members without contact to a leader.
const CALL_EVERY: Duration = Duration::from_secs(1);
/// The interval between two steps.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// The time limit of one write of the leader.
const WRITE_BOUND: Duration = Duration::from_secs(5);
/// The time limit of a voter's connection to a new voter.
const REACH_BOUND: Duration = Duration::from_secs(2);
/// A learner with fewer missing entries than this has caught up.
const LAG_MAX: u64 = 200;
/// An emptied node joins within this time after its invitation: longer than the longest pause of a supervisor between two starts.
const READMISSION_TTL: Duration = Duration::from_mins(15);
/// A learner votes only after it has been caught up for this long.
const STABLE_MIN: Duration = Duration::from_secs(1);

/// What the unfinished change waits for, for the status of the leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct MembershipProgress(Arc<Mutex<Option<String>>>);

impl MembershipProgress {
    pub(crate) fn read(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn set(&self, reason: Option<String>) {
        let mut current = self.0.lock();
        if let Some(reason) = &reason
            && current.as_ref() != Some(reason)
        {
            tracing::info!(reason, "the change of a member waits");
        }
        *current = reason;
    }
}

pub(crate) struct Membership {
    pub(crate) context: NodeContext,
    pub(crate) handshake: Arc<PeerHandshake>,
    pub(crate) progress: MembershipProgress,
    pub(crate) contact: Arc<LeaderContact>,
    /// A node that acknowledged nothing for longer is not healthy.
    pub(crate) silence_max: Duration,
    /// A standby replaces a voter that has been silent for this long.
    pub(crate) replace_after: Duration,
    pub(crate) observed: ObservedNodes,
}

/// What this node has observed about the others in one leadership.
#[derive(Debug, Default)]
pub(crate) struct ObservedNodes {
    leadership: Option<LeaderEpoch>,
    /// Since when each node has been caught up without a break.
    caught_up: BTreeMap<NodeId, Instant>,
    /// Since when each node has not been healthy.
    silent: BTreeMap<NodeId, Instant>,
}

impl ObservedNodes {
    fn observe(&mut self, node: NodeId, is_healthy: bool, is_current: bool, now: Instant) {
        if is_healthy {
            self.silent.remove(&node);
        } else {
            self.silent.entry(node).or_insert(now);
        }
        if is_current && is_healthy {
            self.caught_up.entry(node).or_insert(now);
        } else {
            self.caught_up.remove(&node);
        }
    }
}

impl Membership {
    /// Runs until openraft stops.
    pub(crate) async fn run(mut self, mut leadership: watch::Receiver<Leadership>) {
        loop {
            let epoch = leadership.borrow_and_update().epoch;
            if self.observed.leadership != epoch {
                self.observed = ObservedNodes { leadership: epoch, ..ObservedNodes::default() };
            }
            if let Some(epoch) = epoch {
                self.register(epoch).await;
                self.take_step(epoch).await;
            } else {
                self.progress.set(None);
                self.call_members().await;
            }
            let pause = sleep(if epoch.is_some() { CHECK_EVERY } else { CALL_EVERY });
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                () = pause => {}
            }
        }
    }

    /// Without contact to a leader, this node may have left the cluster. A member then refuses its connection with the
    /// reason, and this node stops (`handshake.rs`). A former member starts no election, so nothing else would tell it.
    async fn call_members(&self) {
        if self.contact.age().is_some_and(|age| age < self.silence_max * 2) {
            return;
        }
        let others = self.handshake.members().ids().into_iter();
        let others = others.filter(|node| *node != self.context.node);
        let calls = others.map(|node| {
            let deadline = Instant::now() + REACH_BOUND;
            self.context.peers.call(node, Purpose::Control, Ping, deadline)
        });
        join_all(calls).await;
    }

    /// Writes the first command of a new log, and registers the data directories that it can.
    async fn register(&self, epoch: LeaderEpoch) {
        let members = self.handshake.members();
        let is_new = members.state().members().is_empty();
        let bootstrap = self.handshake.bootstrap_command().filter(|_| is_new);
        let missing = members.ids().into_iter().filter(|node| {
            members.state().member(*node).is_none_or(|member| member.incarnation.is_none())
        });
        let registered = missing.filter_map(|node| {
            let incarnation = self.handshake.to_register(node)?;
            Some(Command::RegisterNode { node, incarnation })
        });
        let commands: Vec<_> = bootstrap.into_iter().chain(registered).collect();
        if !commands.is_empty() {
            self.write(commands, epoch).await;
        }
    }

    async fn write(&self, commands: Vec<Command>, epoch: LeaderEpoch) {
        let writing = write_as_leader(&self.context, commands, epoch);
        // The next turn repeats a failed write.
        let Ok(Ok(committed)) = timeout(WRITE_BOUND, writing).await else { return };
        let rejected = committed.iter().filter(|committed| committed.outcome.is_err()).count();
        if rejected > 0 {
            tracing::error!(rejected, "the state machine rejected commands about the members");
        }
    }

    async fn take_step(&mut self, epoch: LeaderEpoch) {
        let members: Vec<(NodeId, Member)> = self.context.local.read(|machine| {
            machine.members().map(|(node, member)| (node, member.clone())).collect()
        });
        let (view, membership_at) = self.view();
        let step = next_step(&members, &view);
        if matches!(step, Step::Idle | Step::Wait(_))
            && let Some(change) = self.automatic_change(&members, &view)
        {
            // An unfinished replacement would block every other change.
            if let MembershipChange::Replace { node, .. } = &change
                && let Some(reason) = self.unreachable(&view, &BTreeSet::from([*node])).await
            {
                return self.progress.set(Some(reason));
            }
            return self.write(vec![Command::Membership(change).by(Actor::Node)], epoch).await;
        }
        if step == Step::Idle {
            return self.progress.set(None);
        }
        if let Some(reason) = self.blocked(&step, &view).await {
            return self.progress.set(Some(reason));
        }
        tracing::info!(%step, "changing the Raft membership");
        if let Some((changes, keep)) = changes_of(&step) {
            let preconditions = [
                Precondition::CommittedLeaderId { committed_leader_id: epoch.leader_id() },
                Precondition::LastMembershipLogId { last_membership_log_id: membership_at },
            ];
            self.change(changes, keep, preconditions).await;
        } else if let Step::TransferLeadership { to } = step {
            let rank = |node| to.contains(&node).then_some(0);
            handover::transfer_to_current_voter(&self.context, WRITE_BOUND, rank).await;
        } else if let Step::Finish(node) = step {
            let finish = Command::Membership(MembershipChange::Finish { node });
            self.write(vec![finish.by(Actor::Node)], epoch).await;
            self.progress.set(None);
        }
    }

    /// The change that this leader proposes without an operator.
    fn automatic_change(
        &self,
        members: &[(NodeId, Member)],
        view: &RaftView,
    ) -> Option<MembershipChange> {
        let replaced_at = self.context.local.read(Machine::last_replacement);
        // The applied time stands still while nothing is written.
        let now = self.context.stamp();
        let silent = self.observed.silent.iter().map(|(node, since)| (*node, since.elapsed()));
        let silent = silent.collect();
        let emptied = self.handshake.emptied_members();
        let facts = AutomaticFacts { members, view, silent, emptied, replaced_at, now };
        match facts.choose(self.replace_after)? {
            AutomaticChange::Readmit { member, secret } => {
                tracing::warn!(member = member.0, "inviting an emptied member under a new id");
                let expires_at = Stamp(now.0.saturating_add(millis(READMISSION_TTL)));
                self.readmission(member, Invitation { secret, expires_at })
            }
            AutomaticChange::Cancel { joiner: node } => {
                tracing::warn!(member = node.0, "a readmitted node was emptied again");
                let reason = Reason::new("its data directory was emptied again").ok()?;
                Some(MembershipChange::Remove { node, reason })
            }
            AutomaticChange::Replace { standby: node, voter: replaces } => {
                tracing::warn!(
                    standby = node.0,
                    voter = replaces.0,
                    "a standby replaces a silent voter"
                );
                Some(MembershipChange::Replace { node, replaces })
            }
        }
    }

    /// The invitation of an emptied node to the place of its member.
    fn readmission(&self, node: NodeId, invitation: Invitation) -> Option<MembershipChange> {
        let members = self.handshake.members();
        let Member { zone, role, .. } = members.state().member(node)?;
        let addresses = members.addresses(node)?;
        let replaces = Some(node);
        Some(MembershipChange::Invite { addresses, zone, role, invitation, replaces })
    }

    /// The reason why a step must wait.
    async fn blocked(&self, step: &Step, view: &RaftView) -> Option<String> {
        if let Step::Wait(reason) = step {
            Some(reason.clone())
        } else if let Step::SetVoters { voters, .. } = step {
            self.unreachable(view, voters).await
        } else {
            None
        }
    }

    async fn change(&self, changes: Changes, keep: bool, only_if: [Precondition<TypeConfig>; 2]) {
        let changing = self.context.raft.change_membership_if(changes, keep, only_if);
        match timeout(WRITE_BOUND, changing).await {
            Ok(Ok(_)) => self.progress.set(None),
            Ok(Err(error)) => self.progress.set(Some(format!("the voters do not change: {error}"))),
            Err(_) => self.progress.set(Some("no quorum acknowledged the change in time".into())),
        }
    }

    /// Returns what this leader knows, and the log position of the Raft membership.
    fn view(&mut self) -> (RaftView, Option<crate::type_config::LogId>) {
        let metrics = self.context.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let set = |ids: &BTreeSet<u64>| ids.iter().copied().map(NodeId).collect();
        let voters: Vec<BTreeSet<NodeId>> = membership.get_joint_config().iter().map(set).collect();
        let nodes: BTreeSet<NodeId> = membership.nodes().map(|(id, _)| NodeId(*id)).collect();
        let heartbeat = metrics.heartbeat.unwrap_or_default();
        let is_healthy = |node: &&NodeId| {
            let contact = heartbeat.get(&node.0).and_then(Option::as_ref).map(|at| at.elapsed());
            **node == self.context.node || contact.is_some_and(|age| age < self.silence_max)
        };
        let healthy: BTreeSet<NodeId> = nodes.iter().filter(is_healthy).copied().collect();
        let replication = metrics.replication.unwrap_or_default();
        let last = metrics.last_log_index.unwrap_or_default();
        let now = Instant::now();
        for node in &nodes {
            let matched = replication.get(&node.0).copied().flatten().map(|id| id.index);
            let is_current = matched.is_some_and(|matched| matched + LAG_MAX >= last);
            self.observed.observe(*node, healthy.contains(node), is_current, now);
        }
        let caught_up = self.observed.caught_up.iter();
        let stable = caught_up.filter(|(_, since)| now - **since >= STABLE_MIN);
        let caught_up = stable.map(|(node, _)| *node).collect();
        let own = self.context.node;
        let view = RaftView { own, voters, nodes, healthy, caught_up };
        (view, *metrics.membership_config.log_id())
    }

    /// The reason why a voter cannot reach a new one; `None` if all healthy voters can.
    async fn unreachable(&self, view: &RaftView, voters: &BTreeSet<NodeId>) -> Option<String> {
        let old: BTreeSet<NodeId> = view.voters.iter().flatten().copied().collect();
        let from = old.intersection(&view.healthy).filter(|node| **node != view.own);
        let pairs: Vec<(NodeId, NodeId)> =
            from.flat_map(|from| voters.difference(&old).map(|to| (*from, *to))).collect();
        let checks = pairs.into_iter().map(|(from, to)| async move {
            let deadline = Instant::now() + REACH_BOUND;
            let call = CheckPeer(to);
            let checked = self.context.peers.call(from, Purpose::Calls, call, deadline).await;
            checked.err().map(|error| format!("node {from} does not reach node {to}: {error}"))
        });
        join_all(checks).await.into_iter().flatten().next()
    }
}

/// The change for openraft, and whether voters without a vote become learners; `None` for other steps.
fn changes_of(step: &Step) -> Option<(Changes, bool)> {
    let one = |node: &NodeId| BTreeSet::from([node.0]);
    Some(match step {
        Step::AddLearner(node) => (ChangeMembers::AddNodes([(node.0, EmptyNode {})].into()), true),
        Step::RemoveLearner(node) => (ChangeMembers::RemoveNodes(one(node)), true),
        Step::SetVoters { voters, keep } => {
            (ChangeMembers::ReplaceAllVoters(voters.iter().map(|node| node.0).collect()), *keep)
        }
        Step::LeaveJoint { keep } => (ChangeMembers::AddVoterIds(BTreeSet::new()), *keep),
        Step::Idle | Step::Wait(_) | Step::TransferLeadership { .. } | Step::Finish(_) => {
            return None;
        }
    })
}
