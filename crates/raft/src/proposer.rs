//! The way of a command into the log (design D9, D10).
//!
//! Owns the queue of commands that wait and the worker that packs them. While a few entries are in flight, whatever
//! arrives waits together and leaves together. One timer: a command that would only queue waits up to 1 ms for another
//! command's entry (ADR 0005). On the leader a pack becomes one entry; elsewhere it
//! becomes one call to the leader, whose own worker packs again. A pack that was certainly not appended is tried
//! again until its callers' deadlines; one that may have been appended never is. Commands that one caller proposes as
//! a run are never torn apart: they are in one entry, or in none.
//!
//! Bounds: `propose_queue_max` commands wait in the queue and as many between two attempts;
//! `propose_inflight_max` packs are in flight, each of at most `batch_commands_max` commands and
//! `batch_bytes_max` bytes, or of one command of at most [`COMMAND_BYTES_MAX`].

mod flight;
mod pending;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_types::{Command, NodeId, Outcome, Revision, Stamp};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

pub(crate) use self::flight::write_as_leader;
use self::pending::{Pending, Ticket};
use self::worker::Worker;
use crate::config::{Clock, RaftConfig};
use crate::counters::Counters;
use crate::disk::DiskGauge;
use crate::error::ProposeError;
use crate::failure::Failure;
use crate::leadership::Leadership;
use crate::peers::Peers;
use crate::state_machine::LocalMachine;
use crate::type_config::Raft;

/// The largest command, bytes: the largest znode with room to spare.
pub(crate) const COMMAND_BYTES_MAX: usize = 2 << 20;

/// A command that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The machine's answer.
    pub outcome: Outcome,
    /// The command's own revision.
    pub revision: Revision,
}

/// What packs are made by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) queue_max: usize,
    pub(crate) inflight_max: usize,
    pub(crate) commands_max: usize,
    pub(crate) bytes_max: usize,
    /// How long a command waits for a leader to appear.
    pub(crate) leader_wait: Duration,
}

impl Packing {
    pub(crate) fn of(config: &RaftConfig) -> Self {
        Self {
            queue_max: config.propose_queue_max,
            inflight_max: config.propose_inflight_max,
            commands_max: config.batch_commands_max,
            bytes_max: config.batch_bytes_max,
            leader_wait: config.timing.election_max * 4,
        }
    }
}

/// What the worker works with.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) disk: Arc<DiskGauge>,
    pub(crate) wall_clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) local: Arc<LocalMachine>,
}

impl Means {
    /// Whether all that commands would do, proposed here and now, is to queue.
    fn only_queue(&self, commands: &[Command]) -> bool {
        self.leadership.borrow().leader == Some(self.node)
            && self.local.read(|machine| commands.iter().all(|one| machine.only_queues(one)))
    }

    /// The stamp of an entry proposed now.
    pub(crate) fn stamp(&self) -> Stamp {
        self.local.stamps().read(std::time::Instant::now(), (self.wall_clock)())
    }
}

/// Puts commands into the queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Proposer {
    queue: mpsc::Sender<Pending>,
    means: Means,
    failure: Failure,
}

impl Proposer {
    /// Starts the worker; it ends when openraft has stopped or the future returned is dropped.
    pub(crate) fn new(
        means: Means,
        packing: Packing,
        failure: Failure,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, receiver) = mpsc::channel(packing.queue_max);
        let worker = Worker::new(means.clone(), packing, receiver);
        (Self { queue, means, failure }, worker.run())
    }

    /// Proposes a command. One that a peer `forwarded` is not forwarded again.
    pub(crate) async fn propose(
        &self,
        command: Command,
        deadline: Instant,
        forwarded: bool,
    ) -> Result<Committed, ProposeError> {
        let mut done = self.propose_run(vec![command], deadline, forwarded).await?;
        done.pop().ok_or(ProposeError::Unknown)
    }

    /// Proposes a run of commands, which fit into one entry.
    pub(crate) async fn propose_run(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
        forwarded: bool,
    ) -> Result<Vec<Committed>, ProposeError> {
        if self.failure.is_set() {
            return Err(ProposeError::Failed);
        }
        let bytes = commands.iter().map(command_len).sum::<Result<usize, _>>()?;
        let patient = self.means.only_queue(&commands);
        let ticket = Arc::new(Ticket::default());
        let (reply, receiver) = oneshot::channel();
        let pending = Pending {
            commands,
            bytes,
            forwarded,
            patient,
            deadline,
            since: Instant::now(),
            ticket: ticket.clone(),
            reply,
        };
        self.queue.try_send(pending).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => self.stopped(),
        })?;
        // A caller that goes away must not have its command proposed behind its back.
        let _gone = GiveUp(ticket.clone());
        match timeout_at(deadline, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) if ticket.give_up() => Err(self.stopped()),
            Err(_) if ticket.give_up() => Err(ProposeError::NoLeader),
            Ok(Err(_)) | Err(_) => Err(ProposeError::Unknown),
        }
    }

    fn stopped(&self) -> ProposeError {
        if self.failure.is_set() { ProposeError::Failed } else { ProposeError::ShuttingDown }
    }
}

/// Calls a command back when its caller's future is dropped, unless it is in flight or answered by then.
struct GiveUp(Arc<Ticket>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// How many bytes a command takes in an entry.
pub(crate) fn command_len(command: &Command) -> Result<usize, ProposeError> {
    match holdfast_codec::encoded_len(Kind::Batch, command) {
        Ok(bytes) if bytes <= COMMAND_BYTES_MAX => Ok(bytes),
        Ok(_) | Err(_) => Err(ProposeError::TooLarge),
    }
}
