//! The read barrier: a read after it sees every write acknowledged before it.
//!
//! One worker confirms a leader for all waiting callers in one *round*: on the leader with a heartbeat to a quorum, on
//! other nodes with one call to the leader. A round proves nothing for later callers, so the next round serves callers
//! that arrive during a round. A round ends when its leader is lost. The worker repeats a failed round until
//! `leader_wait` after the arrival of its waiters.
//!
//! Bounds: [`QUEUE_MAX`] waiters in the queue, [`LAGGING_MAX`] waiters until this node has applied the leader's
//! position, one round at a time.

use std::sync::Arc;
use std::time::Duration;

use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver as _;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::ReadError;
use crate::failure::Failure;
use crate::proposer::NodeContext;
use crate::type_config::{LeaderEpoch, LogId};
use crate::wire::{Purpose, ReadIndex};

const QUEUE_MAX: usize = 65_536;
/// The maximum number of waiters with a confirmed leader whose position this node has not applied yet.
const LAGGING_MAX: usize = 16_384;
/// The maximum number of waiters in one round.
const ROUND_MAX: usize = 8_192;
/// The time limit of one round; after it the worker repeats the round.
const ROUND_BOUND: Duration = Duration::from_secs(2);
/// How long a confirmed read waits until this node has caught up.
const CATCH_UP_MAX: Duration = Duration::from_millis(1_500);
/// The pause between two failed rounds, unless the leader changes.
const PAUSE: Duration = Duration::from_millis(25);

/// The result of a successful round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Every write acknowledged before the round is at or before this position.
    pub(crate) index: u64,
    /// The confirmed leadership, if this node leads.
    pub(crate) epoch: Option<LeaderEpoch>,
}

/// The condition that a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierGoal {
    /// This node has applied every acknowledged write, whichever node leads.
    Read,
    /// `Read`, and this node leads.
    Lead,
    /// This node leads; only the position matters.
    Index,
}

struct Waiter {
    goal: BarrierGoal,
    arrived: Instant,
    deadline: Instant,
    reply: oneshot::Sender<Result<RoundEffect, ReadError>>,
}

/// The effect of a successful round on a waiter.
#[derive(Debug)]
enum RoundEffect {
    /// The waiter's goal is reached.
    Now(Proof),
    /// This node must catch up first; the receiver resolves when this node has caught up.
    Lagging(oneshot::Receiver<Proof>),
}

/// Queues waiters. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Barrier {
    queue: mpsc::Sender<Waiter>,
    failure: Failure,
}

impl Barrier {
    pub(crate) fn new(
        context: NodeContext,
        leader_wait: Duration,
        failure: Failure,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let lagging = Lagging::new(context.local.applied(), LAGGING_MAX);
        let worker = Worker { context, leader_wait, queue: receiver, lagging };
        (Self { queue, failure }, worker.run())
    }

    /// Resolves when this node has applied all writes acknowledged before the call.
    pub(crate) async fn read(&self, deadline: Instant) -> Result<(), ReadError> {
        self.wait(BarrierGoal::Read, deadline).await.map(drop)
    }

    /// Like [`Self::read`], on the leader only. Returns the leader's epoch.
    pub(crate) async fn lead(&self, deadline: Instant) -> Result<LeaderEpoch, ReadError> {
        self.wait(BarrierGoal::Lead, deadline).await?.epoch.ok_or(ReadError::NoLeader)
    }

    /// Returns the position that a read must see, on the leader only.
    pub(crate) async fn index(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.wait(BarrierGoal::Index, deadline).await.map(|proof| proof.index)
    }

    async fn wait(&self, goal: BarrierGoal, deadline: Instant) -> Result<Proof, ReadError> {
        if self.failure.is_set() {
            return Err(ReadError::Failed);
        }
        let (reply, receiver) = oneshot::channel();
        let arrived = Instant::now();
        self.queue.try_send(Waiter { goal, arrived, deadline, reply }).map_err(
            |error| match error {
                mpsc::error::TrySendError::Full(_) => ReadError::Overloaded,
                mpsc::error::TrySendError::Closed(_) => self.stopped(),
            },
        )?;
        let served = match timeout_at(deadline, receiver).await {
            Ok(Ok(result)) => result?,
            Ok(Err(_)) => return Err(self.stopped()),
            Err(_) => return Err(ReadError::NoLeader),
        };
        match served {
            RoundEffect::Now(proof) => Ok(proof),
            RoundEffect::Lagging(caught_up) => {
                caught_up_by(caught_up, deadline.min(Instant::now() + CATCH_UP_MAX)).await
            }
        }
    }

    fn stopped(&self) -> ReadError {
        if self.failure.is_set() { ReadError::Failed } else { ReadError::ShuttingDown }
    }
}

struct Worker {
    context: NodeContext,
    /// How long a read waits for a leader.
    leader_wait: Duration,
    queue: mpsc::Receiver<Waiter>,
    lagging: Lagging,
}

/// Waiters for an applied position of this node.
struct Lagging {
    applied: watch::Receiver<Option<LogId>>,
    permits: Arc<Semaphore>,
}

impl Lagging {
    fn new(applied: watch::Receiver<Option<LogId>>, count_max: usize) -> Self {
        Self { applied, permits: Arc::new(Semaphore::new(count_max)) }
    }

    fn has_reached(&self, index: u64) -> bool {
        reached(*self.applied.borrow(), index)
    }

    /// Completes the waiters when the position is applied, in a separate task, so that the next round does not wait.
    /// Rejects waiters without a permit.
    fn admit(&self, waiters: Vec<Waiter>, proof: Proof) {
        let Some(deadline) = waiters.iter().map(|waiter| waiter.deadline).max() else { return };
        // Their callers wait no longer.
        let deadline = deadline.min(Instant::now() + CATCH_UP_MAX);
        let count = u32::try_from(waiters.len()).unwrap_or(u32::MAX);
        let Ok(permits) = self.permits.clone().try_acquire_many_owned(count) else {
            for waiter in waiters {
                waiter.reply.send(Err(ReadError::Overloaded)).ok();
            }
            return;
        };
        let mut applied = self.applied.clone();
        let waiting: Vec<_> = waiters.into_iter().map(Waiter::into_lagging).collect();
        tokio::spawn(async move {
            let reached = applied.wait_for(|applied| reached(*applied, proof.index));
            if timeout_at(deadline, reached).await.is_ok_and(|result| result.is_ok()) {
                for waiter in waiting {
                    waiter.send(proof).ok();
                }
            }
            drop(permits);
        });
    }
}

impl Waiter {
    /// Notifies the caller that this node must catch up. Returns the sender for the result.
    fn into_lagging(self) -> oneshot::Sender<Proof> {
        let (caught_up, receiver) = oneshot::channel();
        self.reply.send(Ok(RoundEffect::Lagging(receiver))).ok();
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
            self.context.leadership.borrow_and_update();
            if let Some(proof) = self.round(&mut waiters).await {
                self.serve(std::mem::take(&mut waiters), proof);
            } else if !self.pause(&mut waiters).await {
                return;
            }
        }
    }

    async fn round(&self, waiters: &mut Vec<Waiter>) -> Option<Proof> {
        let mut leadership = self.context.leadership.clone();
        let leader = leadership.borrow_and_update().leader;
        self.context.metrics.read_rounds.inc();
        let lost = leadership.wait_for(|now| now.leader != leader);
        if leader == Some(self.context.node) {
            return tokio::select! {
                proof = self.confirm_own_leadership() => proof,
                _ = lost => None,
            };
        }
        for waiter in waiters.extract_if(.., |waiter| waiter.goal != BarrierGoal::Read) {
            waiter.reply.send(Err(ReadError::NoLeader)).ok();
        }
        let leader = leader?;
        if waiters.is_empty() {
            return None;
        }
        let deadline = Instant::now() + ROUND_BOUND;
        tokio::select! {
            index = self.context.peers.call(leader, Purpose::Calls, ReadIndex, deadline) => {
                Some(Proof { index: index.ok()?, epoch: None })
            }
            _ = lost => None,
        }
    }

    async fn confirm_own_leadership(&self) -> Option<Proof> {
        let deadline = Instant::now() + ROUND_BOUND;
        let asking = self.context.raft.get_read_linearizer(ReadPolicy::ReadIndex);
        let linearizer = timeout_at(deadline, asking).await.ok()?.ok()?;
        let read = linearizer.read_log_id();
        let epoch = LeaderEpoch::new(*read.committed_leader_id());
        Some(Proof { index: read.index(), epoch: Some(epoch) })
    }

    fn serve(&self, waiters: Vec<Waiter>, proof: Proof) {
        self.context.metrics.reads.inc_by(waiters.len() as u64);
        let (now, later): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|waiter| {
            waiter.goal == BarrierGoal::Index || self.lagging.has_reached(proof.index)
        });
        for waiter in now {
            waiter.reply.send(Ok(RoundEffect::Now(proof))).ok();
        }
        if !later.is_empty() && self.cannot_catch_up(proof.index) {
            for waiter in later {
                waiter.reply.send(Err(ReadError::Lagging)).ok();
            }
            return;
        }
        self.lagging.admit(later, proof);
    }

    /// A node with a full disk accepts no new entries.
    fn cannot_catch_up(&self, index: u64) -> bool {
        let last = self.context.raft.data_metrics().borrow_watched().last_log;
        self.context.disk.is_low() && last.is_none_or(|last| last.index < index)
    }

    /// Returns false after the end of the leadership monitor.
    async fn pause(&mut self, waiters: &mut Vec<Waiter>) -> bool {
        tokio::select! {
            () = sleep(PAUSE) => {}
            changed = self.context.leadership.changed() => if changed.is_err() {
                return false;
            }
        }
        let now = Instant::now();
        let leader_wait = self.leader_wait;
        let is_over =
            |waiter: &mut Waiter| waiter.deadline.min(waiter.arrived + leader_wait) <= now;
        for waiter in waiters.extract_if(.., is_over) {
            waiter.reply.send(Err(ReadError::NoLeader)).ok();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_config::LeaderId;

    const LONG: Duration = Duration::from_mins(1);
    const PROOF: Proof = Proof { index: 7, epoch: None };

    type Answer = oneshot::Receiver<Result<RoundEffect, ReadError>>;

    fn waiters(count: usize, timeout: Duration) -> (Vec<Waiter>, Vec<Answer>) {
        let waiter = |_| {
            let (reply, receiver) = oneshot::channel();
            let arrived = Instant::now();
            let deadline = arrived + timeout;
            (Waiter { goal: BarrierGoal::Read, arrived, deadline, reply }, receiver)
        };
        (0..count).map(waiter).unzip()
    }

    async fn outcome(answer: Answer, timeout: Duration) -> Result<Proof, ReadError> {
        match answer.await.unwrap()? {
            RoundEffect::Now(proof) => Ok(proof),
            RoundEffect::Lagging(caught_up) => {
                caught_up_by(caught_up, Instant::now() + timeout).await
            }
        }
    }

    fn applied(index: u64) -> LogId {
        LogId::new(LeaderId { term: 1, node_id: 1 }, index)
    }

    #[tokio::test]
    async fn a_lagging_node_limits_its_waiting_readers() {
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
    async fn a_reader_that_times_out_gets_the_reason_and_returns_its_permit() {
        let position = watch::Sender::new(Some(applied(3)));
        let lagging = Lagging::new(position.subscribe(), 1);
        let (first, mut answers) = waiters(1, Duration::ZERO);
        lagging.admit(first, PROOF);
        let answer = outcome(answers.remove(0), Duration::from_millis(20)).await;
        assert_eq!(answer, Err(ReadError::Lagging));
        let _permit = lagging.permits.acquire().await.unwrap();
    }
}
