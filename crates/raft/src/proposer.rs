//! How a command gets into the log (design D9, D10).
//!
//! ```text
//! propose ─► queue ─► worker ─┬─ this node leads:    one log entry
//!                             └─ another node leads: one call to it, where the runs enter that node's queue
//! ```
//!
//! 1. [`Proposer::propose`] puts a *run* into the queue: commands of one caller that share a log entry, in order. A run
//!    is never split: all its commands are in one entry, or none is in the log.
//! 2. The worker packs waiting runs into *batches*: `departure.rs` decides when a batch leaves. Under
//!    load one batch is in flight, and runs that arrive meanwhile leave together in the next batch.
//! 3. A run with [`Urgency::MayWait`](crate::Urgency::MayWait) waits a few milliseconds on the leader for the entry of
//!    another run.
//! 4. A batch that was certainly not appended returns to the front of the queue. The worker sends it again until its
//!    callers' deadlines. A batch that may have been appended is never sent again: its callers get
//!    [`ProposeError::Unknown`]. `send.rs` draws that line.
//! 5. Runs of at least [`LARGE_MIN`] bytes have a queue and a worker of their own, with one batch in flight. So a small run
//!    waits for at most one large batch, however many large runs wait. Large batches give way ([`departure::BatchPace`]).
//! 6. The leader never forwards a run that a peer forwarded: one hop is the most.
//!
//! Bounds: `propose_queue_max` runs wait in the queue, and as many between two attempts; [`LARGE_QUEUE_MAX`] large runs, and as
//! many between two attempts. At most `propose_inflight_max` batches of each kind are in flight. A batch has at most `batch_commands_max` commands and `batch_bytes_max` bytes, or one
//! command of at most [`COMMAND_BYTES_MAX`].

mod departure;
mod send;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_types::{Command, NodeId, Stamp};
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tracing::Span;

use self::departure::BatchPace;
use self::worker::Worker;
use crate::config::{Clock, RaftConfig};
use crate::error::ProposeError;
use crate::failure::Failure;
use crate::leadership::Leadership;
use crate::metrics::RaftMetrics;
use crate::peers::Peers;
use crate::state_machine::{LocalMachine, Raft};
use crate::store::disk::DiskGauge;
use crate::type_config::Committed;
use crate::wire::Urgency;

pub(crate) use self::send::write_as_leader;

/// The largest command, bytes: the largest znode with room to spare.
pub(crate) const COMMAND_BYTES_MAX: usize = 2 << 20;

/// A run of at least this size, bytes, is large.
const LARGE_MIN: usize = 16 << 10;
/// Large runs that wait.
const LARGE_QUEUE_MAX: usize = 256;

/// The parts of the node that proposals, reads and membership changes use.
#[derive(Clone)]
pub(crate) struct NodeContext {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) disk: Arc<DiskGauge>,
    pub(crate) wall_clock: Clock,
    pub(crate) metrics: Arc<RaftMetrics>,
    pub(crate) local: Arc<LocalMachine>,
}

impl NodeContext {
    /// The stamp of an entry proposed now.
    pub(crate) fn stamp(&self) -> Stamp {
        self.local.stamps().read(std::time::Instant::now(), (self.wall_clock)())
    }

    /// The voters whose disks are below their reserves, if this leader can therefore write nothing: its own disk is low, or
    /// no majority is left without them. The leader knows a peer's disk from the rejection of an entry. openraft
    /// repeats that entry until the peer has space and accepts it.
    pub(crate) fn full_disks(&self) -> Option<BTreeSet<NodeId>> {
        let mut low = self.peers.low_disks.borrow().clone();
        let own = self.disk.is_low();
        if own {
            low.insert(self.node);
        }
        if low.is_empty() {
            return None;
        }
        let membership = self.raft.server_metrics().borrow_watched().membership_config.clone();
        low.retain(|node| membership.voter_ids().any(|id| id == node.0));
        let has_majority = |voters: &BTreeSet<u64>| {
            let with_space = voters.iter().filter(|id| !low.contains(&NodeId(**id)));
            with_space.count() > voters.len() / 2
        };
        let can_write = !own && membership.get_joint_config().iter().all(has_majority);
        (!can_write).then_some(low)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) queue_max: usize,
    pub(crate) inflight_max: usize,
    pub(crate) commands_max: usize,
    pub(crate) bytes_max: usize,
    /// How long a command waits for a leader to appear.
    pub(crate) leader_wait: Duration,
}

impl BatchLimits {
    pub(crate) fn new(config: &RaftConfig) -> Self {
        Self {
            queue_max: config.propose_queue_max,
            inflight_max: config.propose_inflight_max,
            commands_max: config.batch_commands_max,
            bytes_max: config.batch_bytes_max,
            leader_wait: config.timing.leader_wait(),
        }
    }
}

/// Puts runs into the queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Proposer {
    queue: mpsc::Sender<Pending>,
    large: mpsc::Sender<Pending>,
    failure: Failure,
    closed: Arc<AtomicBool>,
}

impl Proposer {
    /// Returns the proposer and its workers, which end when openraft stops.
    pub(crate) fn new(
        context: NodeContext,
        limits: BatchLimits,
        failure: Failure,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, small_runs) = mpsc::channel(limits.queue_max);
        let queue_max = LARGE_QUEUE_MAX.min(limits.queue_max);
        let (large, large_runs) = mpsc::channel(queue_max);
        let small_batches = Arc::new(AtomicU64::new(0));
        let pace = BatchPace::Small(small_batches.clone());
        let small = Worker::new(context.clone(), limits, pace, small_runs).run();
        let large_limits = BatchLimits { inflight_max: 1, queue_max, ..limits };
        let pace = BatchPace::Large(small_batches);
        let both = async move {
            tokio::join!(small, Worker::new(context, large_limits, pace, large_runs).run());
        };
        (Self { queue, large, failure, closed: Arc::default() }, both)
    }

    /// Rejects the runs of this node's callers from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Proposes a run of this node's callers, or one that a peer forwarded. A run must fit into one entry. Returns one
    /// result for each command.
    pub(crate) async fn propose(
        &self,
        commands: Vec<Command>,
        urgency: Urgency,
        deadline: Instant,
        forwarded: bool,
    ) -> ProposeResult {
        if !forwarded && self.closed.load(Ordering::Acquire) {
            return Err(ProposeError::ShuttingDown);
        }
        if self.failure.is_set() {
            return Err(ProposeError::Failed);
        }
        let bytes = commands.iter().map(command_len).sum::<Result<usize, _>>()?;
        let ticket = Arc::new(Ticket::default());
        let (reply, receiver) = oneshot::channel();
        let pending = Pending {
            commands,
            urgency,
            deadline,
            forwarded,
            bytes,
            since: Instant::now(),
            ticket: ticket.clone(),
            span: holdfast_trace::span!("propose"),
            reply,
        };
        let queue = if bytes < LARGE_MIN { &self.queue } else { &self.large };
        queue.try_send(pending).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => self.stopped(),
        })?;
        let _guard = WithdrawOnDrop(ticket.clone());
        match timeout_at(deadline, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) if ticket.withdraw() => Err(self.stopped()),
            Err(_) if ticket.withdraw() => Err(ProposeError::NoLeader),
            Ok(Err(_)) | Err(_) => Err(ProposeError::Unknown),
        }
    }

    fn stopped(&self) -> ProposeError {
        if self.failure.is_set() { ProposeError::Failed } else { ProposeError::ShuttingDown }
    }
}

/// Withdraws a run when the future of its caller is dropped, unless the run is in flight or answered by then.
struct WithdrawOnDrop(Arc<Ticket>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

/// The bytes of a command in an entry.
pub(crate) fn command_len(command: &Command) -> Result<usize, ProposeError> {
    match holdfast_codec::encoded_len(Kind::Batch, command) {
        Ok(bytes) if bytes <= COMMAND_BYTES_MAX => Ok(bytes),
        Ok(_) | Err(_) => Err(ProposeError::TooLarge),
    }
}

type ProposeResult = Result<Vec<Committed>, ProposeError>;

const WAITING: u8 = 0;
const IN_FLIGHT: u8 = 1;
const WITHDRAWN: u8 = 2;
const ABANDONED: u8 = 3;

/// Decides between the caller, which may withdraw a waiting run, and the worker, which may send it.
#[derive(Debug, Default)]
struct Ticket(AtomicU8);

impl Ticket {
    /// The worker sends the run; false if the caller withdrew it.
    fn take(&self) -> bool {
        self.change(WAITING, IN_FLIGHT)
    }

    /// The worker returns a run that was certainly not appended; false if its caller has gone.
    fn put_back(&self) -> bool {
        self.change(IN_FLIGHT, WAITING)
    }

    /// The caller withdraws the run; false if it is in flight. A run in flight is then not sent a second time.
    fn withdraw(&self) -> bool {
        self.change(WAITING, WITHDRAWN) || {
            self.change(IN_FLIGHT, ABANDONED);
            false
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A run in the queue, with the caller that waits for its result.
struct Pending {
    commands: Vec<Command>,
    urgency: Urgency,
    deadline: Instant,
    /// A peer forwarded the run: it is proposed on this node or not at all.
    forwarded: bool,
    /// Bytes of the commands in an entry.
    bytes: usize,
    since: Instant,
    ticket: Arc<Ticket>,
    /// The span `propose`; disabled if the call is not traced.
    span: Span,
    reply: oneshot::Sender<ProposeResult>,
}

impl Pending {
    fn may_wait(&self) -> bool {
        self.urgency == Urgency::MayWait
    }

    /// Sends the result to the caller, which may have gone.
    fn answer(self, result: ProposeResult) {
        self.reply.send(result).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_withdraws_only_a_run_that_is_not_in_flight() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(ticket.put_back());
        assert!(ticket.withdraw());
        assert!(!ticket.take());
    }

    #[test]
    fn a_run_in_flight_whose_caller_is_gone_is_not_sent_again() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(!ticket.withdraw());
        assert!(!ticket.put_back());
    }
}
