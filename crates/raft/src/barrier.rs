//! Reads that see every write acknowledged before them.
//!
//! Owns the queue of those who wait for a leader to be confirmed, and the worker that serves all who wait with one
//! round: on the leader a heartbeat to a quorum, elsewhere one call to the leader. Whoever comes while a round runs
//! is served by the next one, since a round proves nothing about what came after its start. A round that failed is
//! repeated until the deadlines of those who wait. Bounds: [`QUEUE_MAX`] waiters in the queue, [`LAGGING_MAX`] that wait
//! until this node has applied what the leader named; one round at a time.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::ReadPolicy;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::counters::Counters;
use crate::error::ReadError;
use crate::failure::Failure;
use crate::leadership::Leadership;
use crate::peers::Peers;
use crate::type_config::{LeaderEpoch, LogId, Raft};
use crate::wire::{Purpose, ReplyBody, RequestBody};

const QUEUE_MAX: usize = 65_536;
/// Waiters of rounds that were won, whose position is not applied here yet.
const LAGGING_MAX: usize = 16_384;
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
    reply: oneshot::Sender<Result<Served, ReadError>>,
}

/// What a round that was won means to a waiter.
#[derive(Debug)]
enum Served {
    /// All it wanted.
    Now(Proof),
    /// This node must catch up first; says when it has.
    Lagging(oneshot::Receiver<Proof>),
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
        let lagging = Lagging::new(means.applied.clone(), LAGGING_MAX);
        (Self { queue, failure }, Worker { means, queue: receiver, lagging }.run())
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
        let served = match timeout_at(deadline, receiver).await {
            Ok(Ok(result)) => result?,
            Ok(Err(_)) => return Err(self.stopped()),
            Err(_) => return Err(ReadError::NoLeader),
        };
        match served {
            Served::Now(proof) => Ok(proof),
            Served::Lagging(caught_up) => caught_up_by(caught_up, deadline).await,
        }
    }

    fn stopped(&self) -> ReadError {
        if self.failure.is_set() { ReadError::Failed } else { ReadError::ShuttingDown }
    }
}

struct Worker {
    means: Means,
    queue: mpsc::Receiver<Waiter>,
    lagging: Lagging,
}

/// Those who wait until this node has applied a position.
struct Lagging {
    applied: watch::Receiver<Option<LogId>>,
    seats: Arc<Semaphore>,
}

impl Lagging {
    fn new(applied: watch::Receiver<Option<LogId>>, count_max: usize) -> Self {
        Self { applied, seats: Arc::new(Semaphore::new(count_max)) }
    }

    fn has_reached(&self, index: u64) -> bool {
        reached(*self.applied.borrow(), index)
    }

    /// Tells when the position is applied; the next round need not wait for it. Whoever finds no seat is sent away:
    /// there is a task for each of at most as many waiters as there are seats, until their deadline.
    fn admit(&self, waiters: Vec<Waiter>, proof: Proof) {
        let Some(deadline) = waiters.iter().map(|waiter| waiter.deadline).max() else { return };
        let count = u32::try_from(waiters.len()).unwrap_or(u32::MAX);
        let Ok(seats) = self.seats.clone().try_acquire_many_owned(count) else {
            for waiter in waiters {
                waiter.reply.send(Err(ReadError::Overloaded)).ok();
            }
            return;
        };
        let mut applied = self.applied.clone();
        let waiting: Vec<_> = waiters.into_iter().map(Waiter::lags).collect();
        tokio::spawn(async move {
            let reached = applied.wait_for(|applied| reached(*applied, proof.index));
            if timeout_at(deadline, reached).await.is_ok_and(|result| result.is_ok()) {
                for waiter in waiting {
                    waiter.send(proof).ok();
                }
            }
            drop(seats);
        });
    }
}

impl Waiter {
    /// Tells it that the round was won, and gives the means to tell it that this node has caught up.
    fn lags(self) -> oneshot::Sender<Proof> {
        let (caught_up, receiver) = oneshot::channel();
        self.reply.send(Ok(Served::Lagging(receiver))).ok();
        caught_up
    }
}

async fn caught_up_by(
    caught_up: oneshot::Receiver<Proof>,
    deadline: Instant,
) -> Result<Proof, ReadError> {
    match timeout_at(deadline, caught_up).await {
        Ok(Ok(proof)) => Ok(proof),
        Ok(Err(_)) | Err(_) => Err(ReadError::Lagging),
    }
}

fn reached(applied: Option<LogId>, index: u64) -> bool {
    applied.is_some_and(|id| id.index >= index)
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
        let (now, later): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|waiter| {
            waiter.want == Want::Index || self.lagging.has_reached(proof.index)
        });
        for waiter in now {
            waiter.reply.send(Ok(Served::Now(proof))).ok();
        }
        self.lagging.admit(later, proof);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_config::LeaderId;

    const LONG: Duration = Duration::from_mins(1);
    const PROOF: Proof = Proof { index: 7, epoch: None };

    type Answer = oneshot::Receiver<Result<Served, ReadError>>;

    fn waiters(count: usize, patience: Duration) -> (Vec<Waiter>, Vec<Answer>) {
        let waiter = |_| {
            let (reply, receiver) = oneshot::channel();
            let deadline = Instant::now() + patience;
            (Waiter { want: Want::Read, deadline, reply }, receiver)
        };
        (0..count).map(waiter).unzip()
    }

    async fn outcome(answer: Answer, patience: Duration) -> Result<Proof, ReadError> {
        match answer.await.unwrap()? {
            Served::Now(proof) => Ok(proof),
            Served::Lagging(caught_up) => caught_up_by(caught_up, Instant::now() + patience).await,
        }
    }

    fn applied(index: u64) -> LogId {
        LogId::new(LeaderId { term: 1, node_id: 1 }, index)
    }

    #[tokio::test]
    async fn a_node_that_lags_behind_holds_only_so_many_readers() {
        let position = watch::Sender::new(Some(applied(3)));
        let lagging = Lagging::new(position.subscribe(), 3);
        let (first, answers) = waiters(2, LONG);
        lagging.admit(first, PROOF);
        let (second, refused) = waiters(2, LONG);
        lagging.admit(second, PROOF);
        for refused in refused {
            assert_eq!(outcome(refused, LONG).await, Err(ReadError::Overloaded));
        }
        position.send_replace(Some(applied(7)));
        for answer in answers {
            assert_eq!(outcome(answer, LONG).await, Ok(PROOF));
        }
    }

    #[tokio::test]
    async fn a_reader_that_is_not_served_in_time_learns_why_and_gives_its_seat_back() {
        let position = watch::Sender::new(Some(applied(3)));
        let lagging = Lagging::new(position.subscribe(), 1);
        let (first, mut answers) = waiters(1, Duration::ZERO);
        lagging.admit(first, PROOF);
        let answer = outcome(answers.remove(0), Duration::from_millis(20)).await;
        assert_eq!(answer, Err(ReadError::Lagging));
        let _seat = lagging.seats.acquire().await.unwrap();
    }
}
