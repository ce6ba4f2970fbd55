//! The service of one node: its parts, and how it proposes commands and reads the state machine.
//!
//! Each resource has a file of its own with the methods for clients.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use holdfast_machine::Machine;
use holdfast_raft::{Committed, ProposeError, RaftNode, ReadError, Urgency};
use holdfast_types::{
    AuthChange, ClockReading, Command, HandOver, LockName, MembershipChange, NodeId, NumberedCall,
    Page, Rejection, Reply, RequestRelease, Revision, SessionRejection, Stamp,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::apply_observer::ApplyObserver;
use crate::audit::sink::AuditSinkState;
use crate::auth::refusals::Refusals;
use crate::config::ServiceConfig;
use crate::digests::StateCheck;
use crate::health::alarms::{ClockFacts, ListenerCertificate, MemoryUse};
use crate::metrics::ServiceMetrics;
use crate::quotas::local_uses::{CallRates, LocalUses};
use crate::recent::RecentRows;
use crate::request::{Failure, ReadMode, RequestContext, Response};
use crate::stream::RenewalQueue;
use crate::waiting::WaiterPermit;

pub(crate) struct ServiceParts {
    pub(crate) raft: RaftNode,
    pub(crate) observer: Arc<ApplyObserver>,
    pub(crate) stream_renewals: RenewalQueue,
    pub(crate) node: NodeId,
    pub(crate) data_dir: PathBuf,
    /// The name of the cluster.
    pub(crate) cluster: String,
    pub(crate) config: ServiceConfig,
    /// The reason why this node must stop, once it contradicts the majority.
    pub(crate) diverged: tokio::sync::watch::Sender<Option<String>>,
    /// The revision at which the states of the nodes differ, without a majority that decides; 0 if they agree.
    pub(crate) digests_differ_at: AtomicU64,
    pub(crate) state_check: tokio::sync::watch::Sender<StateCheck>,
    /// The certificates of the listeners, as the last check found them.
    pub(crate) certificates: Mutex<Vec<ListenerCertificate>>,
    /// The memory of the process at the last measurement.
    pub(crate) memory: Mutex<Option<MemoryUse>>,
    /// Why the last scheduled backup failed.
    pub(crate) backup_failure: Mutex<Option<String>>,
    pub(crate) clocks: Mutex<ClockFacts>,
    /// The durable copies of the audit trail, at most two.
    pub(crate) audit_sinks: Mutex<Vec<AuditSinkState>>,
    /// The reserve of the disk, bytes.
    pub(crate) disk_reserve: u64,
    pub(crate) draining: CancellationToken,
    pub(crate) stopped: CancellationToken,
    /// Calls that this node refused, or would refuse in the mode `on`.
    pub(crate) refusals: Refusals,
    pub(crate) call_rates: CallRates,
    pub(crate) local_uses: LocalUses,
    /// One permit: the node makes one backup at a time.
    pub(crate) backups: Arc<Semaphore>,
    pub(crate) recent: RecentRows,
}

/// A handle to the node's service for one caller; clones share the service. The handle of [`Service::start`] is for callers
/// without a credential.
#[derive(Clone)]
pub struct Service {
    pub(crate) parts: Arc<ServiceParts>,
    pub(crate) context: Arc<RequestContext>,
    /// The number of the call: each change of it is executed once.
    pub(crate) call: Option<Arc<NumberedCall>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("node", &self.parts.node).finish_non_exhaustive()
    }
}

impl Service {
    pub fn node(&self) -> NodeId {
        self.parts.node
    }

    /// The leader that this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.parts.raft.leadership().borrow().leader
    }

    /// The newest term this node has seen.
    pub fn term(&self) -> u64 {
        self.parts.raft.leadership().borrow().term
    }

    /// The HTTP address of the leader.
    pub fn leader_http(&self) -> Option<String> {
        self.members().get(&self.leader()?).map(|member| member.http.to_string())
    }

    /// The last revision this node has applied.
    pub fn revision(&self) -> Revision {
        self.parts.raft.read(Machine::revision)
    }

    /// The log's time, from which ages and ends of holds are counted. It is independent of the node's wall clock.
    pub fn log_time(&self) -> Stamp {
        self.parts.raft.log_time()
    }

    /// The time for the expiry of access tokens. After a restart of this node it may be later than the log's.
    pub(crate) fn credential_time(&self) -> Stamp {
        let wall = self.parts.raft.wall_clock();
        self.observer().restart_time.at_least(self.log_time(), wall)
    }

    pub(crate) fn clock_reading(&self) -> ClockReading {
        let raft = &self.parts.raft;
        let run = self.observer().restart_time.run(raft.time_setbacks());
        ClockReading { wall: raft.wall_clock(), run }
    }

    pub(crate) fn raft(&self) -> &RaftNode {
        &self.parts.raft
    }

    pub(crate) fn observer(&self) -> &ApplyObserver {
        &self.parts.observer
    }

    pub(crate) fn metrics(&self) -> &ServiceMetrics {
        &self.parts.observer.metrics
    }

    pub(crate) fn config(&self) -> &ServiceConfig {
        &self.parts.config
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.parts.draining.is_cancelled()
    }

    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.parts.draining
    }

    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.parts.stopped
    }

    /// The deadline of an operation that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.parts.config.request_timeout
    }

    /// Runs the checks that need no proposal. A no-wait call takes no permit.
    pub(crate) fn admit(&self, wait: Duration) -> Result<Option<WaiterPermit>, Failure> {
        let max = self.config().wait_max;
        if wait > max {
            return Err(Failure::WaitTooLong { max });
        }
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        if wait.is_zero() {
            return Ok(None);
        }
        if self.raft().cannot_catch_up() {
            // The wait would end long after the grant.
            return Err(Failure::Behind { disk_full: true });
        }
        self.observer().waiter_permits.take().map(Some)
    }

    /// Proposes commands in their order; see [`RaftNode::propose_in_order`].
    pub(crate) async fn propose_in_order(
        &self,
        commands: Vec<Command>,
    ) -> (Vec<Committed>, Option<Failure>) {
        if let Err(failure) = self.wait_until_compared().await {
            return (Vec::new(), Some(failure));
        }
        let commands = commands.into_iter().map(|command| self.signed(command)).collect();
        let (done, error) = self.parts.raft.propose_in_order(commands, self.deadline()).await;
        (done, error.map(|error| self.propose_failure(&error)))
    }

    /// Proposes one command. Returns its reply, as `extract` reads it, and its revision; of a copy of a numbered call, those
    /// of the first. `extract` returns `None` for the reply to another command. A command that would only join a queue may wait
    /// for the log entry of another command (ADR 0005).
    ///
    /// # Errors
    /// A rejection for a copy whose command has a secret: its secret is not the one that the first call stored.
    pub(crate) async fn propose<T>(
        &self,
        command: Command,
        extract: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<Response<T>, Failure> {
        self.wait_until_compared().await?;
        self.authorize(&command).await?;
        if let Some(call) = &self.call {
            // Boxed, so that the future of a call without a number stays small.
            self.authorize_session(&call.session).boxed().await?;
        }
        let only_adds_waiter = self.raft().read(|machine| machine.only_adds_waiter(&command));
        let urgency = if only_adds_waiter { Urgency::MayWait } else { Urgency::Immediate };
        let has_secret = has_secret(&command);
        let lock = lock_of_hold(&command).cloned();
        let proposed = self.raft().propose(self.signed(command), urgency, self.deadline()).await;
        let Committed { outcome, revision } =
            proposed.map_err(|error| self.propose_failure(&error))?;
        let reply = outcome.map_err(|mut rejection| {
            self.hide_unreadable(&mut rejection, lock.as_ref());
            Failure::Rejected(rejection)
        });
        let (reply, first) = reply?.into_first();
        if let (true, Some(_), Some(call)) = (has_secret, first, &self.call) {
            let over = SessionRejection::RequestOver { newest: call.request };
            return Err(Failure::Rejected(over.into()));
        }
        let value = extract(reply).ok_or(Failure::UnexpectedReply)?;
        Ok(Response::new(value, first.unwrap_or(revision)))
    }

    /// Resolves when this node has applied everything that was acknowledged anywhere before the call.
    pub(crate) async fn read_barrier(&self) -> Result<(), Failure> {
        self.wait_until_compared().await?;
        let passed = self.parts.raft.read_barrier(self.deadline()).await;
        passed.map_err(|error| self.read_failure(&error))
    }

    /// Resolves when this node has applied a revision.
    ///
    /// # Errors
    /// [`Failure::Lagging`] if that takes longer than `ServiceConfig::catch_up_max`, [`Failure::Behind`] if the disk is full.
    pub async fn catch_up(&self, revision: Revision) -> Result<(), Failure> {
        if self.revision() < revision && self.raft().cannot_catch_up() {
            return Err(Failure::Behind { disk_full: true });
        }
        let reached = self.observer().applied_waiters.wait(revision, || self.revision());
        tokio::time::timeout(self.config().catch_up_max, reached)
            .await
            .map_err(|_| Failure::Lagging)
    }

    /// Reads the state machine, after a read barrier if the read is linearizable.
    pub(crate) async fn read<T>(
        &self,
        mode: ReadMode,
        look: impl FnOnce(&Machine) -> Result<T, Rejection>,
    ) -> Result<Response<T>, Failure> {
        self.freshen(mode).await?;
        let read = self.raft().read(|machine| Ok((look(machine)?, machine.revision())));
        let (value, revision) = read.map_err(Failure::Rejected)?;
        Ok(self.labelled(value, revision, mode))
    }

    /// Reads a page of a list in steps. A step reads a bounded number of names, and may end at one that the caller may
    /// not see; the page ends at its last item, or with the list. It has the revision of its first step. `key` reads
    /// the `next` of a step.
    pub(crate) async fn read_page<T, K>(
        &self,
        (mode, after, limit): (ReadMode, Option<K>, usize),
        key: impl Fn(&str) -> Option<K>,
        step: impl Fn(&Machine, Option<&K>, usize) -> Result<Page<T>, Rejection>,
    ) -> Result<Response<Page<T>>, Failure> {
        let mut page = self.read(mode, |machine| step(machine, after.as_ref(), limit)).await?;
        while let missing @ 1.. = limit.saturating_sub(page.value.items.len())
            && let Some(after) = page.value.next.take().and_then(|next| key(&next))
        {
            // Other tasks of this thread run between two steps.
            tokio::task::yield_now().await;
            let rest = self.raft().read(|machine| step(machine, Some(&after), missing));
            let rest = rest.map_err(Failure::Rejected)?;
            page.value.items.extend(rest.items);
            page.value.next = rest.next;
        }
        Ok(page)
    }

    /// Waits for a read barrier if the read is linearizable. A stale read needs only this node: its subjects and roles
    /// are as old as its other state.
    pub(crate) async fn freshen(&self, mode: ReadMode) -> Result<(), Failure> {
        match mode {
            ReadMode::Linearizable => self.read_barrier().await,
            ReadMode::Stale => Ok(()),
        }
    }

    pub(crate) fn labelled<T>(&self, value: T, revision: Revision, mode: ReadMode) -> Response<T> {
        let leader_contact = match mode {
            ReadMode::Linearizable => None,
            ReadMode::Stale => Some(self.raft().view_age()),
        };
        Response { value, revision, leader_contact }
    }

    pub(crate) fn propose_failure(&self, error: &ProposeError) -> Failure {
        match error {
            ProposeError::NoLeader => self.no_leader(),
            ProposeError::Unknown => Failure::OutcomeUnknown,
            ProposeError::Overloaded => Failure::Overloaded { retry_after: Duration::from_secs(1) },
            ProposeError::DiskFull { .. } => Failure::DiskFull(error.to_string()),
            ProposeError::TooLarge => Failure::TooLarge,
            // Nothing was done, so the caller can retry at another node.
            ProposeError::ShuttingDown | ProposeError::Failed => Failure::ShuttingDown,
        }
    }

    pub(crate) fn read_failure(&self, error: &ReadError) -> Failure {
        match error {
            ReadError::NoLeader => self.no_leader(),
            ReadError::Lagging => Failure::Behind { disk_full: self.raft().status().disk_low },
            ReadError::Overloaded => Failure::Overloaded { retry_after: Duration::from_secs(1) },
            ReadError::ShuttingDown | ReadError::Failed => Failure::ShuttingDown,
        }
    }

    /// The failure without a leader. A node without a log names the condition that it waits for.
    pub(crate) fn no_leader(&self) -> Failure {
        self.raft().status().waiting_for.map_or(Failure::NoLeader, Failure::Starting)
    }
}

/// Whether the response to a command has a secret, which the cluster does not keep.
fn has_secret(command: &Command) -> bool {
    matches!(
        command,
        Command::Auth(
            AuthChange::AddAdministrator { .. }
                | AuthChange::AddToken { .. }
                | AuthChange::RotateToken { .. }
        ) | Command::Membership(MembershipChange::Invite { .. })
    )
}

/// The lock of a command that needs a hold, and whose rejection names the holder.
fn lock_of_hold(command: &Command) -> Option<&LockName> {
    if let Command::Release(release) = command {
        release.locks.single()
    } else if let Command::RequestRelease(RequestRelease { lock, .. })
    | Command::HandOver(HandOver { lock, .. }) = command
    {
        Some(lock)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::queued::QueuedAcquire;

    fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand waiters keep both futures in memory.
    #[test]
    fn a_call_takes_little_room() {
        let acquire = size(|(service, acquire): (&'static Service, _)| service.acquire(acquire));
        assert!(acquire <= 3_456, "{acquire}");
        let wait = size(|(service, queued, permit): (&'static Service, QueuedAcquire, _)| {
            queued.wait(service, permit)
        });
        assert!(wait <= 2_192, "{wait}");
    }
}
