//! Packs what waits and sends it off, as soon as a place in flight is free.
//!
//! Owns the order: what came back goes before what is new. Commands that would only queue wait for company, for a moment, and
//! nothing else does (`pending.rs`). It pauses after a pack came back, until the leader changes
//! or [`PAUSE`] has passed, so that a cluster without a leader is asked calmly.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::flight::{Landing, Route, fly};
use super::pending::{Pending, due};
use super::{Means, Packing};
use crate::error::ProposeError;

/// Between two attempts, unless the leader changes.
const PAUSE: Duration = Duration::from_millis(25);

/// See the module.
pub(crate) struct Worker {
    means: Means,
    packing: Packing,
    queue: mpsc::Receiver<Pending>,
    /// Certainly not appended, oldest first: what came back, and what waits for company.
    returned: VecDeque<Pending>,
    flights: FuturesUnordered<BoxFuture<'static, Landing>>,
    paused_until: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(means: Means, packing: Packing, queue: mpsc::Receiver<Pending>) -> Self {
        Self {
            means,
            packing,
            queue,
            returned: VecDeque::new(),
            flights: FuturesUnordered::new(),
            paused_until: None,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            self.launch();
            let paused = self.paused_until;
            let hungry = paused.is_none() && self.flights.len() < self.packing.inflight_max;
            // What is still here then waits for company.
            let due = due(&self.returned, self.packing.commands_max);
            tokio::select! {
                Some(landing) = self.flights.next(), if !self.flights.is_empty() => {
                    self.land(landing);
                }
                item = self.queue.recv(), if hungry => match item {
                    Some(item) => self.returned.push_back(item),
                    None => return,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if hungry && due.is_some() => {}
                () = sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => {
                    self.paused_until = None;
                    self.dismiss();
                }
                changed = self.means.leadership.changed(), if paused.is_some() => {
                    if changed.is_err() {
                        return;
                    }
                    self.paused_until = None;
                }
            }
        }
    }

    /// Sends off packs while there is something to pack, somewhere to send it, and a place in flight.
    fn launch(&mut self) {
        while self.paused_until.is_none() && self.flights.len() < self.packing.inflight_max {
            if !self.is_due(Instant::now()) {
                return;
            }
            let Some(first) = self.next() else { return };
            let Some(route) = self.route() else {
                self.returned.push_front(first);
                self.pause();
                return;
            };
            if route == Route::Here && self.means.disk.is_low() {
                first.answer(Err(ProposeError::DiskFull));
                continue;
            }
            let pack = self.pack(first, route);
            if !pack.is_empty() {
                self.flights.push(Box::pin(fly(self.means.clone(), route, pack)));
            }
        }
    }

    /// Whether there is something to pack that need not wait for company.
    fn is_due(&mut self, now: Instant) -> bool {
        let full = self.packing.commands_max;
        while self.returned.len() < full && self.returned.back().is_none_or(|last| last.patient) {
            let Ok(item) = self.queue.try_recv() else { break };
            self.returned.push_back(item);
        }
        due(&self.returned, full).is_some_and(|due| due <= now)
    }

    /// A new leader proposes only after it has applied what its predecessors committed: its stamps continue from there.
    fn route(&self) -> Option<Route> {
        let now = *self.means.leadership.borrow();
        match now.leader? {
            leader if leader != self.means.node => Some(Route::To(leader)),
            _ => now.epoch.map(|_| Route::Here),
        }
    }

    fn next(&mut self) -> Option<Pending> {
        self.returned.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    fn pack(&mut self, first: Pending, route: Route) -> Vec<Pending> {
        let mut pack = Vec::new();
        let (mut bytes, mut count) = (0, 0);
        let mut next = Some(first);
        while let Some(item) = next {
            let full = bytes + item.bytes > self.packing.bytes_max
                || count + item.commands.len() > self.packing.commands_max;
            if full && !pack.is_empty() {
                self.returned.push_front(item);
                break;
            }
            if item.forwarded && route != Route::Here {
                // One hop only: its sender finds the leader itself.
                item.answer(Err(ProposeError::NoLeader));
            } else if item.ticket.take() {
                bytes += item.bytes;
                count += item.commands.len();
                pack.push(item);
            }
            if count >= self.packing.commands_max {
                break;
            }
            next = self.next();
        }
        pack
    }

    fn land(&mut self, landing: Landing) {
        if landing.is_empty() {
            return;
        }
        for item in landing.into_iter().rev() {
            if item.ticket.put_back() {
                self.returned.push_front(item);
            }
        }
        self.pause();
    }

    fn pause(&mut self) {
        self.means.leadership.borrow_and_update();
        self.paused_until = Some(Instant::now() + PAUSE);
    }

    /// Tells those who waited too long for a leader. Looks at the whole queue, which has room for them.
    fn dismiss(&mut self) {
        while self.returned.len() < self.packing.queue_max {
            let Ok(item) = self.queue.try_recv() else { break };
            self.returned.push_back(item);
        }
        let (now, wait) = (Instant::now(), self.packing.leader_wait);
        for item in std::mem::take(&mut self.returned) {
            if now.duration_since(item.since) < wait {
                self.returned.push_back(item);
            } else if item.ticket.give_up() {
                item.answer(Err(ProposeError::NoLeader));
            }
        }
    }
}
