//! The service of one node: its parts, and how it proposes commands and reads the state machine.
//!
//! Each resource has a file of its own with the methods for clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_raft::{
    Committed, MemberAddresses, Observer, RaftConfig, RaftNode, StartError, Urgency,
};
use holdfast_types::{Command, Limits, NodeId, Reply, Revision, Stamp, Ticket};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::applied_waiters::AppliedWaiters;
use crate::apply_observer::ApplyObserver;
use crate::contention::Contention;
use crate::context::Response;
use crate::failure::Failure;
use crate::hold_history::HistoryBounds;
use crate::hold_recorder::HoldRecorder;
use crate::lease::Leases;
use crate::metrics::ServiceMetrics;
use crate::queue_positions::QueuePositions;
use crate::queued::QueueEvent;
use crate::recipes::RecipeWaiters;
use crate::session_events::SessionEvents;
use crate::stream::{Renewals, StreamEnd, Streams};
use crate::waiting::{ParkedCalls, WaiterPermits};
use crate::watch::ChangeLog;

/// The service's tunables.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The longest wait of one acquire.
    pub wait_max: Duration,
    /// Callers parked on this node at most.
    pub waiters_max: usize,
    /// How long a write or a linearizable read may take before the answer is `OutcomeUnknown` or `NoLeader`.
    pub request_timeout: Duration,
    /// How often the leader looks for leases that ran out.
    pub tick: Duration,
    /// How much later than asked the leader ends a wait that the caller's own node did not end.
    pub wait_grace: Duration,
    /// Empty lock directories stay at least this long.
    pub container_idle: Duration,
    /// Streams on this node at most.
    pub streams_max: usize,
    /// Watches of all streams of this node at most.
    pub watches_max: usize,
    /// How long a client that has seen more than this node has applied is made to wait.
    pub catch_up_max: Duration,
    /// Sessions whose clients ask for news with their keepalives, at most.
    pub listeners_max: usize,
    /// Holds that are over, kept in this node's history.
    pub past_holds: HistoryBounds,
    /// Changes remembered for those who watch from a revision on.
    pub history_events_max: usize,
    /// Bytes of them.
    pub history_bytes_max: usize,
    /// Who follows the changes of this node at once, at most.
    pub watch_streams_max: usize,
    /// How often a follower to whom nothing happens is told up to where.
    pub bookmark_every: Duration,
    /// Bytes that clients may store in the cluster. A leader writes its own value into the replicated limits.
    pub tree_bytes_max: u64,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            wait_max: Duration::from_mins(5),
            waiters_max: 20_000,
            request_timeout: Duration::from_secs(5),
            tick: Duration::from_millis(50),
            wait_grace: Duration::from_secs(10),
            container_idle: Duration::from_mins(1),
            streams_max: 20_000,
            watches_max: 4_000_000,
            catch_up_max: Duration::from_secs(3),
            listeners_max: 20_000,
            past_holds: HistoryBounds { holds_max: 100_000, per_lock_max: 1_000 },
            history_events_max: 65_536,
            history_bytes_max: 32 << 20,
            watch_streams_max: 10_000,
            bookmark_every: Duration::from_secs(10),
            tree_bytes_max: Limits::default().tree_bytes_max,
        }
    }
}

/// What the service remembers of the cluster's configuration.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) cluster: String,
    pub(crate) members: BTreeMap<NodeId, MemberAddresses>,
}

struct Inner {
    raft: RaftNode,
    observer: Arc<ApplyObserver>,
    renewals: Renewals,
    node: NodeId,
    membership: Membership,
    config: ServiceConfig,
    /// Set once, when the node contradicts the majority.
    diverged: tokio::sync::watch::Sender<Option<String>>,
    draining: CancellationToken,
    stopped: CancellationToken,
}

/// A handle to the node's service; clones share it.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Service").field(&self.0.node).finish()
    }
}

impl Service {
    /// Starts the node: opens its data, joins its peers, and serves as soon as there is a leader.
    ///
    /// # Errors
    /// [`StartError`] says what is wrong with the data directory or the configuration, and what to do.
    pub async fn start(
        config: ServiceConfig,
        raft: RaftConfig,
        metrics: ServiceMetrics,
    ) -> Result<Self, StartError> {
        Self::start_observed(config, raft, metrics, |observer| observer).await
    }

    /// the same, with an observer around this one: tests insert bugs there.
    pub(crate) async fn start_observed(
        config: ServiceConfig,
        raft: RaftConfig,
        metrics: ServiceMetrics,
        wrap: impl FnOnce(Arc<ApplyObserver>) -> Arc<dyn Observer>,
    ) -> Result<Self, StartError> {
        let node = raft.node;
        let membership =
            Membership { cluster: raft.cluster.clone(), members: raft.members.clone() };
        let observer = ApplyObserver::new(&config, &raft.data_dir, metrics);
        let raft = RaftNode::start(raft, |_| wrap(observer.clone())).await?;
        let (draining, stopped) = (CancellationToken::new(), CancellationToken::new());
        let diverged = tokio::sync::watch::Sender::new(None);
        let renewals = Renewals::default();
        let inner = Inner {
            raft,
            observer,
            renewals,
            node,
            membership,
            config,
            diverged,
            draining,
            stopped,
        };
        let service = Self(Arc::new(inner));
        service.0.observer.connect(service.clone());
        tokio::spawn(crate::leader_timers::run(service.clone()));
        tokio::spawn(crate::digest_check::run(service.clone()));
        tokio::spawn(crate::stream::renew_streams(service.clone()));
        Ok(service)
    }

    /// Refuses new waits, and answers the parked ones with `ShuttingDown`; ends streams and watches the same way.
    /// Resolves when nobody is parked.
    pub async fn drain(&self) {
        self.0.draining.cancel();
        self.streams().end_all(StreamEnd::ShuttingDown);
        self.waiter_permits().drained().await;
    }

    /// Drains, hands leadership over and stops.
    pub async fn shutdown(&self) {
        self.drain().await;
        self.0.stopped.cancel();
        self.0.raft.shutdown().await;
        self.0.observer.hold_recorder.stop().await;
    }

    /// Resolves with the reason when the node cannot go on.
    pub async fn wait_failed(&self) -> String {
        let mut diverged = self.0.diverged.subscribe();
        tokio::select! {
            reason = self.0.raft.wait_failed() => reason,
            found = diverged.wait_for(Option::is_some) => {
                found.ok().and_then(|reason| reason.clone()).unwrap_or_default()
            }
        }
    }

    /// Why the node cannot go on, if so.
    pub(crate) fn failed(&self) -> Option<String> {
        self.0.diverged.borrow().clone().or_else(|| self.0.raft.failed())
    }

    /// Stops the node for good.
    pub(crate) fn fail(&self, reason: String) {
        tracing::error!(reason, "this node must stop");
        self.0.diverged.send_replace(Some(reason));
    }

    pub(crate) fn digest_log(&self) -> Vec<crate::digest_check::DigestAt> {
        self.0.observer.digests.lock().list()
    }

    /// This node's id.
    pub fn node(&self) -> NodeId {
        self.0.node
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.0.raft.leadership().borrow().leader
    }

    /// The newest term this node has seen.
    pub fn term(&self) -> u64 {
        self.0.raft.leadership().borrow().term
    }

    /// Where clients reach the leader.
    pub fn leader_http(&self) -> Option<String> {
        self.leader().and_then(|leader| self.config().members.get(&leader)).map(|m| m.http.clone())
    }

    /// The last revision this node has applied.
    pub fn revision(&self) -> Revision {
        self.0.raft.read(holdfast_machine::Machine::revision)
    }

    /// The log's time as this node knows it: what ages and ends of holds are counted from. The node's wall clock may
    /// differ from it by any amount.
    pub fn log_time(&self) -> Stamp {
        self.0.raft.stamp()
    }

    pub(crate) fn raft(&self) -> &RaftNode {
        &self.0.raft
    }

    pub(crate) fn leases(&self) -> &Mutex<Leases> {
        &self.0.observer.leases
    }

    pub(crate) fn waiter_permits(&self) -> &WaiterPermits {
        &self.0.observer.permits
    }

    pub(crate) fn lock_waiters(&self) -> &ParkedCalls<Ticket, QueueEvent> {
        &self.0.observer.lock_waiters
    }

    pub(crate) fn recipe_waiters(&self) -> &RecipeWaiters {
        &self.0.observer.recipe_waiters
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.0.observer.streams
    }

    pub(crate) fn change_log(&self) -> &ChangeLog {
        &self.0.observer.change_log
    }

    pub(crate) fn applied_waiters(&self) -> &AppliedWaiters {
        &self.0.observer.applied_waiters
    }

    pub(crate) fn queue_positions(&self) -> &QueuePositions {
        &self.0.observer.queue_positions
    }

    pub(crate) fn lock_times(&self) -> &Contention {
        &self.0.observer.contention
    }

    pub(crate) fn hold_recorder(&self) -> &HoldRecorder {
        &self.0.observer.hold_recorder
    }

    pub(crate) fn session_events(&self) -> &SessionEvents {
        &self.0.observer.session_events
    }

    pub(crate) fn renewals(&self) -> &Renewals {
        &self.0.renewals
    }

    pub(crate) fn metrics(&self) -> &ServiceMetrics {
        &self.0.observer.metrics
    }

    pub(crate) fn config(&self) -> &Membership {
        &self.0.membership
    }

    pub(crate) fn tunables(&self) -> &ServiceConfig {
        &self.0.config
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.0.draining
    }

    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.0.stopped
    }

    /// When an operation that begins now must be answered.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.config.request_timeout
    }

    /// Proposes commands in their order; see [`RaftNode::propose_in_order`].
    pub(crate) async fn propose_in_order(
        &self,
        commands: Vec<Command>,
    ) -> (Vec<Committed>, Option<Failure>) {
        let (done, error) = self.0.raft.propose_in_order(commands, self.deadline()).await;
        (done, error.map(|error| self.propose_failure(&error)))
    }

    /// Proposes one command and waits for the reply of the state machine. A command that would only join a queue may wait
    /// for the log entry of another command (ADR 0005).
    pub(crate) async fn propose(&self, command: Command) -> Result<(Reply, Revision), Failure> {
        let only_queues = self.raft().read(|machine| machine.only_queues(&command));
        let urgency = if only_queues { Urgency::MayWait } else { Urgency::Immediate };
        let proposed = self.0.raft.propose(command, urgency, self.deadline()).await;
        let Committed { outcome, revision } =
            proposed.map_err(|error| self.propose_failure(&error))?;
        Ok((outcome.map_err(Failure::Rejected)?, revision))
    }

    /// The same for a command whose reply `extract` takes apart; `None` means that the reply belongs to another command.
    pub(crate) async fn propose_for<T>(
        &self,
        command: Command,
        extract: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<Response<T>, Failure> {
        let (reply, revision) = self.propose(command).await?;
        let value = extract(reply).ok_or(Failure::UnexpectedReply)?;
        Ok(Response::new(value, revision))
    }

    /// Resolves when this node has applied everything that was acknowledged anywhere before the call.
    pub(crate) async fn read_barrier(&self) -> Result<(), Failure> {
        let passed = self.0.raft.read_barrier(self.deadline()).await;
        passed.map_err(|error| self.read_failure(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queued::QueuedAcquire;

    fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    /// Each of ten thousand waiters keeps both, and a caller that does not wait moves the first as a whole.
    #[test]
    fn a_call_takes_little_room() {
        let acquire = size(|(service, context, acquire): (&'static Service, _, _)| {
            service.acquire(context, acquire)
        });
        assert!(acquire <= 3_072, "{acquire}");
        let wait = size(|(service, queued, permit): (&'static Service, QueuedAcquire, _)| {
            queued.wait(service, permit)
        });
        assert!(wait <= 2_048, "{wait}");
    }
}
