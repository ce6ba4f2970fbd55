//! The interface of a node for the rest of holdfast.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_machine::Machine;
use holdfast_types::{Command, Member, MemberAddresses, NodeId, Outcome, Stamp};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, ServerState};
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::RaftNode;
use crate::error::{CallError, ProposeError, ReadError};
use crate::failure::StopReason;
use crate::leadership::{Leadership, handover};
use crate::metrics::RaftMetrics;
use crate::node::{PeerStatus, RaftStatus, Role};
use crate::proposer::{command_len, write_as_leader};
use crate::type_config::{Committed, LeaderEpoch, LogId, TypeConfig};
use crate::wire::{Purpose, ServiceRequest, Urgency};

/// How long a write of the leader itself may take. After that its outcome is unknown: openraft may still append it. The
/// caller may repeat commands that can be applied twice.
const OWN_WRITE_BOUND: Duration = Duration::from_secs(10);

type Metrics = openraft::RaftMetrics<TypeConfig>;

impl RaftNode {
    /// Proposes a command on any node. It shares a log entry with other commands, and is forwarded if another node leads.
    ///
    /// # Errors
    /// [`ProposeError`]; all except [`ProposeError::Unknown`] mean that the command was certainly not appended.
    pub async fn propose(
        &self,
        command: Command,
        urgency: Urgency,
        deadline: Instant,
    ) -> Result<Committed, ProposeError> {
        let run = vec![command];
        let mut done = self.inner.proposer.propose(run, urgency, deadline.into(), false).await?;
        done.pop().ok_or(ProposeError::Unknown)
    }

    /// Proposes commands of one caller in order, on any node. Commands that fit share one entry; the rest is proposed when
    /// the entry before it is committed. So if one command is certainly not applied, none after it is. Returns the
    /// applied commands, and the error of the next one if any is left.
    pub async fn propose_in_order(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> (Vec<Committed>, Option<ProposeError>) {
        let mut done = Vec::with_capacity(commands.len());
        let runs = match self.split(commands) {
            Ok(runs) => runs,
            Err(error) => return (done, Some(error)),
        };
        for run in runs {
            let proposing =
                self.inner.proposer.propose(run, Urgency::Immediate, deadline.into(), false);
            match proposing.await {
                Ok(committed) => done.extend(committed),
                Err(error) => return (done, Some(error)),
            }
        }
        (done, None)
    }

    /// Proposes commands of the leader itself, if it still leads in `epoch`. They are never forwarded. Many commands take
    /// several entries, and the first failure ends the call.
    ///
    /// # Errors
    /// [`ProposeError::NoLeader`] if the epoch has ended, and otherwise as [`RaftNode::propose`]. If an earlier entry
    /// of the same call was applied, the error is [`ProposeError::Unknown`].
    pub async fn propose_as_leader(
        &self,
        commands: Vec<Command>,
        epoch: LeaderEpoch,
    ) -> Result<Vec<Outcome>, ProposeError> {
        self.check_leader(epoch)?;
        let mut outcomes = Vec::with_capacity(commands.len());
        for run in self.split(commands)? {
            let writing = write_as_leader(&self.inner.context, run, epoch);
            let written = timeout(OWN_WRITE_BOUND, writing).await;
            match written.unwrap_or(Err(ProposeError::Unknown)) {
                Ok(done) => outcomes.extend(done.into_iter().map(|committed| committed.outcome)),
                Err(_) if !outcomes.is_empty() => return Err(ProposeError::Unknown),
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }

    fn check_leader(&self, epoch: LeaderEpoch) -> Result<(), ProposeError> {
        if self.inner.failure.is_set() {
            return Err(ProposeError::Failed);
        }
        if epoch.node != self.inner.node {
            return Err(ProposeError::NoLeader);
        }
        Ok(())
    }

    fn split(&self, commands: Vec<Command>) -> Result<Vec<Vec<Command>>, ProposeError> {
        let limits = &self.inner.limits;
        let mut runs: Vec<Vec<Command>> = Vec::new();
        let mut bytes = 0;
        for command in commands {
            let len = command_len(&command)?;
            match runs.last_mut() {
                Some(run) if run.len() < limits.commands_max && bytes + len <= limits.bytes_max => {
                    run.push(command);
                    bytes += len;
                }
                _ => {
                    runs.push(vec![command]);
                    bytes = len;
                }
            }
        }
        Ok(runs)
    }

    /// Resolves when [`RaftNode::read`] on this node sees every write that any node acknowledged before the call.
    ///
    /// # Errors
    /// [`ReadError`]; a retry is always safe.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ReadError> {
        self.inner.barrier.read(deadline.into()).await
    }

    /// Resolves when a quorum has confirmed, after the call began, that this node leads, and everything committed
    /// before is applied here.
    ///
    /// # Errors
    /// [`ReadError::NoLeader`] if this node does not lead.
    pub async fn confirm_leadership(&self, deadline: Instant) -> Result<LeaderEpoch, ReadError> {
        self.inner.barrier.lead(deadline.into()).await
    }

    /// Reads the machine of this node, which may be behind the leader's. `read` blocks the apply step and must be quick.
    pub fn read<T>(&self, read: impl FnOnce(&Machine) -> T) -> T {
        self.inner.local.read(read)
    }

    /// How old this node's state may be: the time since the last message from the leader; on the leader, from a quorum.
    /// A node that has had no leader since its start counts from its last entry, by the wall clock.
    pub fn view_age(&self) -> Duration {
        self.status().leader_contact.unwrap_or_else(|| {
            let last = self.read(Machine::now);
            let since_last = Duration::from_millis(self.wall_clock().0.saturating_sub(last.0));
            since_last.max(self.inner.started.elapsed())
        })
    }

    /// Whether this node lacks a committed entry and cannot accept it, because its disk is full.
    pub fn cannot_catch_up(&self) -> bool {
        let index = |position: Option<LogId>| position.map(|position| position.index);
        self.inner.disk.is_low() && {
            let metrics = self.inner.raft.data_metrics().borrow_watched().clone();
            index(metrics.cluster_committed) > index(metrics.last_log)
        }
    }

    /// Refuses or accepts the commands that other nodes forward to this one while it leads. They wait and try again.
    pub fn refuse_forwarded(&self, refuse: bool) {
        self.inner.refuses_forwarded.store(refuse, Ordering::Relaxed);
    }

    /// The stamp of an entry that this node would propose now.
    pub fn stamp(&self) -> Stamp {
        self.inner.context.stamp()
    }

    /// The log's time for ages and remaining times. A node that applies entries late counts its delay too.
    pub fn log_time(&self) -> Stamp {
        self.inner.local.stamps().read_for_ends(Instant::now(), self.wall_clock())
    }

    /// The wall clock of this node, which may jump.
    pub fn wall_clock(&self) -> Stamp {
        (self.inner.context.wall_clock)()
    }

    /// Makes the log's time follow the clocks of a majority, which are ahead of this node's by `ms` milliseconds.
    pub fn correct_wall_clock(&self, ms: i64) {
        self.inner.local.stamps().correct_wall_clock(ms);
    }

    /// Settles the log's time for this leadership; with `None`, for none. While it is not settled, this node as the leader
    /// delays the commands of clients.
    pub fn settle_time(&self, epoch: Option<LeaderEpoch>) {
        self.inner.local.stamps().settle(epoch);
    }

    /// Whether this node leads, and the log's time is settled.
    pub fn is_time_settled(&self) -> bool {
        let epoch = self.inner.context.leadership.borrow().epoch;
        epoch.is_some_and(|epoch| self.inner.local.stamps().is_settled(epoch))
    }

    /// How often a late entry has set this node's time back. Its monotonic clock has then not measured the log's time.
    pub fn time_setbacks(&self) -> u64 {
        self.inner.local.stamps().setbacks()
    }

    /// How long a call waits for a leader.
    pub fn leader_wait(&self) -> Duration {
        self.inner.limits.leader_wait
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Calls the service of another node; see [`Observer::called`](crate::Observer::called).
    ///
    /// # Errors
    /// [`CallError`]; only after [`CallError::Unknown`] the service may have received the request.
    pub async fn call_peer(
        &self,
        to: NodeId,
        request: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        let call = ServiceRequest(request);
        self.inner.peers.call(to, Purpose::Calls, call, deadline.into()).await
    }

    pub fn node(&self) -> NodeId {
        self.inner.node
    }

    /// The address on which this node listens for its peers.
    pub fn peer_address(&self) -> SocketAddr {
        self.inner.peer_address
    }

    /// Why this node stopped voting and serving, if it did. It does not recover; stop the process.
    pub fn failed(&self) -> Option<StopReason> {
        self.inner.failure.reason()
    }

    /// Resolves when [`RaftNode::failed`] has a reason.
    pub async fn wait_failed(&self) -> StopReason {
        self.inner.failure.wait().await
    }

    /// Resolves when the thread of the log has completed every earlier request; false if it cannot, or its queue is full.
    pub async fn probe_log(&self) -> bool {
        let (done, completed) = oneshot::channel();
        let probed = self.inner.log.probe(Box::new(move |result| {
            // An error means that the caller no longer waits.
            done.send(result.is_ok()).ok();
        }));
        probed.is_ok() && completed.await.unwrap_or(false)
    }

    /// Adds the metrics of the log to the registry, which adds the prefix.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.inner.metrics.register(registry);
        let help = "Seconds of one sync of the Raft log to the disk";
        registry.register("raft_log_sync_seconds", help, self.inner.log.sync_seconds());
    }

    pub fn metrics(&self) -> &RaftMetrics {
        &self.inner.metrics
    }

    pub fn status(&self) -> RaftStatus {
        let inner = &self.inner;
        let metrics = inner.raft.metrics().borrow_watched().clone();
        let leads = metrics.state == ServerState::Leader;
        let quorum_contact = metrics.last_quorum_acked.as_ref().map(|at| at.elapsed());
        let voters = self.voters();
        let contact = match (leads, voters.len()) {
            // The only voter is a quorum.
            (true, 1) => Some(Duration::ZERO),
            (true, _) => quorum_contact,
            (false, _) => inner.contact.age(),
        };
        let known = metrics.current_leader.map(NodeId);
        let leader = known.filter(|leader| {
            if *leader == inner.node { leads } else { inner.contact.last(*leader).is_some() }
        });
        RaftStatus {
            node: inner.node,
            role: self.role(&metrics),
            term: metrics.current_term,
            leader,
            applied_revision: self.read(Machine::revision),
            applied_index: inner.local.applied_index(),
            committed_index: metrics.local_committed.map(|id| id.index),
            last_log_index: metrics.last_log_index,
            snapshot_index: metrics.snapshot.map(|id| id.index),
            purged_index: metrics.purged.map(|id| id.index),
            has_quorum: inner.leadership.borrow().leader.is_some(),
            leader_contact: contact,
            behind_for: inner.contact.behind_for(inner.local.applied_index()),
            disk_free_bytes: inner.disk.free_bytes(),
            disk_low: inner.disk.is_low(),
            log_bytes: inner.log.bytes(),
            recent_syncs: inner.log.recent_syncs(),
            waiting_for: inner.bootstrap.waiting_for.lock().clone(),
            voters,
            change_waits_for: inner.membership_progress.read(),
            peers: self.peer_status(&metrics),
        }
    }

    fn role(&self, metrics: &Metrics) -> Role {
        if self.inner.failure.is_set() {
            return Role::Stopped;
        }
        match metrics.state {
            ServerState::Leader => Role::Leader,
            ServerState::Follower => Role::Follower,
            ServerState::Candidate => Role::Candidate,
            ServerState::Learner => Role::Learner,
            ServerState::Shutdown => Role::Stopped,
        }
    }

    fn peer_status(&self, metrics: &Metrics) -> BTreeMap<NodeId, PeerStatus> {
        let others = self.inner.members.ids().into_iter().filter(|id| *id != self.inner.node);
        others
            .map(|id| {
                let matched = metrics.replication.as_ref().and_then(|all| *all.get(&id.0)?);
                let contact = metrics.heartbeat.as_ref().and_then(|all| all.get(&id.0)?.as_ref());
                let status = PeerStatus {
                    matched: matched.map(|position| position.index),
                    contact: contact.map(|at| at.elapsed()),
                    stalled: self.inner.peers.handshake().acknowledged().stalled_for(id),
                    unreachable: self.inner.peers.failure(id),
                    refusal: self.inner.peers.handshake().refused_by(id),
                    connected: self.inner.peers.is_connected(id),
                };
                (id, status)
            })
            .collect()
    }

    /// All members with their addresses, by id, without those whose addresses this node does not know.
    pub fn members(&self) -> BTreeMap<NodeId, MemberAddresses> {
        self.addresses_of(self.inner.members.state().members())
    }

    /// As [`Self::members`], of the members at one position of the log.
    pub fn addresses_of(
        &self,
        members: BTreeMap<NodeId, Member>,
    ) -> BTreeMap<NodeId, MemberAddresses> {
        let members = self.inner.members.with_addresses(members).into_iter();
        members.filter_map(|(id, member)| Some((id, member.addresses?))).collect()
    }

    /// Transfers leadership to a voter that has every entry, or to `to`. Returns after the end of the leadership, or when no
    /// voter took over in time. Does nothing on another node than the leader.
    pub async fn transfer_leadership(&self, to: Option<NodeId>) {
        let bound = self.inner.election_max * 4;
        let rank = self.successor_rank(|node| to.is_none_or(|to| to == node));
        handover::transfer_to_current_voter(&self.inner.context, bound, rank).await;
    }

    /// Ranks the nodes that may lead next. One whose clock no record contains may have to wait for the clocks of a majority.
    pub(super) fn successor_rank(
        &self,
        may: impl Fn(NodeId) -> bool,
    ) -> impl Fn(NodeId) -> Option<u8> {
        let recorded: BTreeSet<NodeId> = self.read(|machine| {
            machine.clocks().into_iter().flat_map(|record| record.leads.keys().copied()).collect()
        });
        move |node| may(node).then(|| u8::from(!recorded.contains(&node)))
    }

    pub(super) fn voters(&self) -> Vec<NodeId> {
        let metrics = self.inner.raft.server_metrics().borrow_watched().clone();
        metrics.membership_config.voter_ids().map(NodeId).collect()
    }
}
