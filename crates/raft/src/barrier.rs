//! Reads that see every write acknowledged before them.
//!
//! Owns the queue of those who wait for a leader to be confirmed, and the worker that serves all who wait with one
//! round: on the leader a heartbeat to a quorum, elsewhere one call to the leader. Whoever comes while a round runs
//! is served by the next one, since a round proves nothing about what came after its start. A round that failed is
//! repeated until the deadlines of those who wait. Bounds: [`QUEUE_MAX`] waiters; one round at a time.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::ReadPolicy;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::counters::Counters;
use crate::error::ReadError;
use crate::failure::Failure;
use crate::leadership::Leadership;
use crate::peers::Peers;
use crate::type_config::{LeaderEpoch, LogId, Raft};
use crate::wire::{Purpose, ReplyBody, RequestBody};

const QUEUE_MAX: usize = 65_536;
/// Waiters served by one round.
const ROUND_MAX: usize = 8_192;
/// One round takes at most this long; then it is repeated.
const ROUND_BOUND: Duration = Duration::from_secs(2);
/// Between two rounds that failed, unless the leader changes.
const PAUSE: Duration = Duration::from_millis(25);

/// What a round proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Everything acknowledged before the round lies at or before this position.
    pub(crate) index: u64,
    /// The leadership that was confirmed, if it is this node's.
    pub(crate) epoch: Option<LeaderEpoch>,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// That this node has applied everything acknowledged; any leader will do.
    Read,
    /// The same, and that this node leads.
    Lead,
    /// The position alone, and that this node leads.
    Index,
}

struct Waiter {
    want: Want,
    deadline: Instant,
    reply: oneshot::Sender<Result<Proof, ReadError>>,
}

/// What the worker works with.
pub(crate) struct Means {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) applied: watch::Receiver<Option<LogId>>,
    pub(crate) counters: Arc<Counters>,
}

/// Puts waiters into the queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Barrier {
    queue: mpsc::Sender<Waiter>,
    failure: Failure,
}

impl Barrier {
    pub(crate) fn new(
        means: Means,
        failure: Failure,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        (Self { queue, failure }, Worker { means, queue: receiver }.run())
    }

    /// Resolves when this node has applied everything acknowledged before the call.
    pub(crate) async fn read(&self, deadline: Instant) -> Result<(), ReadError> {
        self.wait(Want::Read, deadline).await.map(drop)
    }

    /// The same, on the leader; gives its epoch.
    pub(crate) async fn lead(&self, deadline: Instant) -> Result<LeaderEpoch, ReadError> {
        self.wait(Want::Lead, deadline).await?.epoch.ok_or(ReadError::NoLeader)
    }

    /// The position a read must see, on the leader.
    pub(crate) async fn index(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.wait(Want::Index, deadline).await.map(|proof| proof.index)
    }

    async fn wait(&self, want: Want, deadline: Instant) -> Result<Proof, ReadError> {
        if self.failure.is_set() {
            return Err(ReadError::Failed);
        }
        let (reply, receiver) = oneshot::channel();
        self.queue.try_send(Waiter { want, deadline, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ReadError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => self.stopped(),
        })?;
        match timeout_at(deadline, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.stopped()),
            Err(_) => Err(ReadError::NoLeader),
        }
    }

    fn stopped(&self) -> ReadError {
        if self.failure.is_set() { ReadError::Failed } else { ReadError::ShuttingDown }
    }
}

struct Worker {
    means: Means,
    queue: mpsc::Receiver<Waiter>,
}

impl Worker {
    async fn run(mut self) {
        let mut waiters = Vec::new();
        loop {
            if waiters.is_empty() {
                let Some(first) = self.queue.recv().await else { return };
                waiters.push(first);
            }
            while waiters.len() < ROUND_MAX {
                let Ok(waiter) = self.queue.try_recv() else { break };
                waiters.push(waiter);
            }
            self.means.leadership.borrow_and_update();
            match self.round(&mut waiters).await {
                Some(proof) => self.serve(std::mem::take(&mut waiters), proof),
                None => self.pause(&mut waiters).await,
            }
        }
    }

    async fn round(&self, waiters: &mut Vec<Waiter>) -> Option<Proof> {
        let leader = self.means.leadership.borrow().leader;
        self.means.counters.read_rounds.add(1);
        if leader == Some(self.means.node) {
            return self.round_here().await;
        }
        for waiter in waiters.extract_if(.., |waiter| waiter.want != Want::Read) {
            waiter.reply.send(Err(ReadError::NoLeader)).ok();
        }
        let leader = leader?;
        if waiters.is_empty() {
            return None;
        }
        let deadline = Instant::now() + ROUND_BOUND;
        let call = self.means.peers.call(leader, Purpose::Calls, &RequestBody::ReadIndex, deadline);
        match call.await {
            Ok(ReplyBody::ReadIndex(Some(index))) => Some(Proof { index, epoch: None }),
            Ok(_) | Err(_) => None,
        }
    }

    async fn round_here(&self) -> Option<Proof> {
        let deadline = Instant::now() + ROUND_BOUND;
        let asking = self.means.raft.get_read_linearizer(ReadPolicy::ReadIndex);
        let linearizer = timeout_at(deadline, asking).await.ok()?.ok()?;
        let read = linearizer.read_log_id();
        let epoch = LeaderEpoch::of(*read.committed_leader_id());
        Some(Proof { index: read.index(), epoch: Some(epoch) })
    }

    fn serve(&self, waiters: Vec<Waiter>, proof: Proof) {
        self.means.counters.reads.add(waiters.len());
        let index = proof.index;
        let reached = move |applied: Option<LogId>| applied.is_some_and(|id| id.index >= index);
        let (now, later): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|waiter| {
            waiter.want == Want::Index || reached(*self.means.applied.borrow())
        });
        for waiter in now {
            waiter.reply.send(Ok(proof)).ok();
        }
        let Some(deadline) = later.iter().map(|waiter| waiter.deadline).max() else { return };
        let mut applied = self.means.applied.clone();
        // Ends by its deadline at the latest; the next round need not wait for it.
        tokio::spawn(async move {
            let waiting = applied.wait_for(|applied| reached(*applied));
            let caught_up = timeout_at(deadline, waiting).await.is_ok_and(|result| result.is_ok());
            for waiter in later {
                waiter.reply.send(if caught_up { Ok(proof) } else { Err(ReadError::Lagging) }).ok();
            }
        });
    }

    async fn pause(&mut self, waiters: &mut Vec<Waiter>) {
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = self.means.leadership.changed() => {}
        }
        let now = Instant::now();
        for waiter in waiters.extract_if(.., |waiter| waiter.deadline <= now) {
            waiter.reply.send(Err(ReadError::NoLeader)).ok();
        }
    }
}
