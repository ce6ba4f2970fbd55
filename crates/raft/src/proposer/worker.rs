//! Packs waiting runs into batches and sends each when [`Departures`] says so.
//!
//! Returned runs are sent before new ones. After a batch was returned, the worker pauses until the leader or its settled time
//! changes, or [`PAUSE`] has passed, so that it does not flood a cluster without a leader. It does not pause if the leader
//! has changed since the batch left.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use holdfast_types::NodeId;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::departure::{BatchKind, BatchPace, Departures, SentBatch, WaitingRuns};
use super::send::{Returned, Route, append_batch, forward_batch};
use super::{BatchLimits, NodeContext, Pending};
use crate::error::ProposeError;
use crate::leadership::Leadership;
use crate::stamps::SettledTime;

/// Between two attempts, unless the leader or its settled time changes.
const PAUSE: Duration = Duration::from_millis(25);

pub(super) struct Worker {
    context: NodeContext,
    settled: watch::Receiver<SettledTime>,
    /// Wakes the worker when a peer begins or ends to reject entries for its disk.
    low_disks: watch::Receiver<BTreeSet<NodeId>>,
    limits: BatchLimits,
    queue: mpsc::Receiver<Pending>,
    /// Runs taken from the queue but not in flight, oldest first: returned ones, and ones that may wait.
    waiting: VecDeque<Pending>,
    in_flight: FuturesUnordered<BoxFuture<'static, ReturnedBatch>>,
    departures: Departures,
    pace: BatchPace,
    paused_until: Option<Instant>,
}

/// A batch that is no longer in flight.
struct ReturnedBatch {
    sent: SentBatch,
    /// The leadership when it left.
    leadership: Leadership,
    returned: Returned,
}

impl Worker {
    pub(super) fn new(
        context: NodeContext,
        limits: BatchLimits,
        pace: BatchPace,
        queue: mpsc::Receiver<Pending>,
    ) -> Self {
        Self {
            settled: context.local.stamps().settled(),
            low_disks: context.peers.low_disks.subscribe(),
            context,
            limits,
            queue,
            waiting: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            departures: Departures::new(limits.inflight_max),
            pace,
            paused_until: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.send_batches();
            let paused = self.paused_until;
            let running = paused.is_none();
            let due = self.due();
            tokio::select! {
                Some(batch) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    self.departures.returned(batch.sent);
                    if !batch.returned.is_empty() {
                        self.take_back(batch);
                    }
                }
                pending = self.queue.recv(), if running && self.wants_another() => match pending {
                    Some(pending) => self.waiting.push_back(pending),
                    None => return,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if running && due.is_some() => {}
                () = sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => {
                    self.paused_until = None;
                    self.expire_waiting();
                }
                changed = self.context.leadership.changed(), if paused.is_some() => {
                    if changed.is_err() {
                        return;
                    }
                    self.paused_until = None;
                }
                Ok(()) = self.settled.changed(), if paused.is_some() => self.paused_until = None,
                Ok(()) = self.low_disks.changed() => {}
            }
        }
    }

    /// Sends batches while there are due runs and a known leader.
    fn send_batches(&mut self) {
        while self.paused_until.is_none() {
            while self.wants_another() {
                let Ok(pending) = self.queue.try_recv() else { break };
                self.waiting.push_back(pending);
            }
            self.refuse_without_space();
            let now = Instant::now();
            if self.due().is_none_or(|due| due > now) {
                return;
            }
            let Some(first) = self.next() else { return };
            // A later change ends the pause.
            self.settled.mark_unchanged();
            let leadership = *self.context.leadership.borrow_and_update();
            let Some(route) = self.route(leadership) else {
                self.waiting.push_front(first);
                self.pause();
                return;
            };
            let batch = self.pack(first, route);
            if !batch.is_empty() {
                let may_wait = batch.iter().all(Pending::may_wait);
                let kind = if may_wait { BatchKind::MayWait } else { BatchKind::Immediate };
                let commands = batch.iter().map(|pending| pending.commands.len()).sum();
                let sent = SentBatch { kind, commands };
                self.departures.left(sent, now);
                for pending in &batch {
                    let waited = now.saturating_duration_since(pending.since);
                    self.context.metrics.propose_wait_seconds.observe(waited.as_secs_f64());
                }
                let context = self.context.clone();
                let sending = async move {
                    match route {
                        Route::Local => append_batch(&context, batch).await,
                        Route::Leader(leader) => forward_batch(&context, leader, batch).await,
                    }
                };
                let paced = self.pace.clone().send(sending);
                self.in_flight.push(Box::pin(async move {
                    ReturnedBatch { sent, leadership, returned: paced.await }
                }));
            }
        }
    }

    /// Rejects the waiting runs while this leader can write nothing: batches in flight may not return before it can.
    fn refuse_without_space(&mut self) {
        let leadership = *self.context.leadership.borrow();
        if self.route(leadership) != Some(Route::Local) {
            return;
        }
        let Some(members) = self.context.full_disks() else { return };
        while let Some(pending) = self.next() {
            pending.answer(Err(ProposeError::DiskFull { members: members.clone() }));
        }
    }

    /// Whether the next run in the queue can change when the waiting ones leave.
    fn wants_another(&self) -> bool {
        self.waiting.len() < self.limits.commands_max
            && self.waiting.back().is_none_or(Pending::may_wait)
    }

    fn due(&self) -> Option<Instant> {
        self.departures.due(WaitingRuns {
            oldest: self.waiting.front()?.since,
            all_may_wait: self.waiting.iter().all(Pending::may_wait),
            full: self.waiting.len() + self.queue.len() >= self.limits.commands_max,
            on_leader: self.route(*self.context.leadership.borrow()) == Some(Route::Local),
        })
    }

    /// A new leader appends only after it applied what its predecessors committed, and settled the log's time: its stamps
    /// continue from there.
    fn route(&self, now: Leadership) -> Option<Route> {
        match now.leader? {
            leader if leader != self.context.node => Some(Route::Leader(leader)),
            _ => {
                let stamps = self.context.local.stamps();
                now.epoch.filter(|epoch| stamps.is_settled(*epoch)).map(|_| Route::Local)
            }
        }
    }

    fn next(&mut self) -> Option<Pending> {
        self.waiting.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    fn pack(&mut self, first: Pending, route: Route) -> Vec<Pending> {
        let mut batch = Vec::new();
        let (mut bytes, mut count) = (0, 0);
        let mut next = Some(first);
        while let Some(pending) = next {
            let commands = pending.commands.len();
            let full = bytes + pending.bytes > self.limits.bytes_max
                || count + commands > self.limits.commands_max;
            if full && !batch.is_empty() {
                self.waiting.push_front(pending);
                break;
            }
            if pending.forwarded && route != Route::Local {
                // One hop only: the forwarding node finds the new leader itself.
                pending.answer(Err(ProposeError::NoLeader));
            } else if pending.ticket.take() {
                bytes += pending.bytes;
                count += commands;
                batch.push(pending);
            }
            if count >= self.limits.commands_max {
                break;
            }
            next = self.next();
        }
        batch
    }

    fn take_back(&mut self, batch: ReturnedBatch) {
        for pending in batch.returned.into_iter().rev() {
            if pending.ticket.put_back() {
                self.waiting.push_front(pending);
            }
        }
        if *self.context.leadership.borrow() == batch.leadership {
            self.pause();
        }
    }

    fn pause(&mut self) {
        self.paused_until = Some(Instant::now() + PAUSE);
    }

    /// Answers runs that waited too long for a leader, in the whole queue: `waiting` has room for all of it.
    fn expire_waiting(&mut self) {
        while self.waiting.len() < self.limits.queue_max {
            let Ok(pending) = self.queue.try_recv() else { break };
            self.waiting.push_back(pending);
        }
        let (now, wait) = (Instant::now(), self.limits.leader_wait);
        for pending in std::mem::take(&mut self.waiting) {
            if now.duration_since(pending.since) < wait {
                self.waiting.push_back(pending);
            } else if pending.ticket.withdraw() {
                pending.answer(Err(ProposeError::NoLeader));
            }
        }
    }
}
