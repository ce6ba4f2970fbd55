//! Queue positions of waiting callers that asked to see them.
//!
//! One task a lock reads the queue after a change, at most once in [`READ_INTERVAL_MIN`], and shares it with all watching
//! callers: a release wakes one task instead of every waiter. Positions are information and may be late.
//!
//! Bounds: one task for each watched lock, which ends with its last watcher; one position a waiter. The waiter permits of
//! the calls bound the watchers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_types::{Event, HolderView, LockName, Revision, Ticket, WaiterView};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::contention::WaitEstimate;
use crate::service::Service;

/// The shortest time between two reads of one queue.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// The longest time between two reads: an arrival with priority moves waiters without an event of theirs.
const READ_INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Waiters listed in [`QueuePosition::ahead`].
const AHEAD_MAX: usize = 10;

/// The queue of one lock, as applied by this node.
#[derive(Debug, Default)]
pub(crate) struct QueueContents {
    /// From 1.
    positions: HashMap<Ticket, u32>,
    holder: Option<HolderView>,
    first: Vec<WaiterView>,
    waiting: u32,
    revision: Revision,
}

#[derive(Debug)]
struct WatchedQueue {
    changed: Arc<Notify>,
    contents: watch::Sender<Arc<QueueContents>>,
}

/// The queues that callers watch.
#[derive(Debug, Default)]
pub(crate) struct QueuePositions {
    by_lock: Mutex<BTreeMap<LockName, WatchedQueue>>,
    /// The size of `by_lock`: `apply` skips the mutex while it is zero.
    count: AtomicUsize,
}

/// The position of a waiter in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    pub lock: LockName,
    /// Begins with 1.
    pub position: u32,
    /// All waiters of the lock.
    pub waiting: u32,
    pub holder: Option<HolderView>,
    /// The first waiters before this one.
    pub ahead: Vec<WaiterView>,
    /// From the holds that this node has recorded.
    pub estimate: Option<WaitEstimate>,
    /// The revision at which this was true.
    pub revision: Revision,
}

/// Reports the positions of one waiter.
#[derive(Debug)]
pub(crate) struct PositionWatcher {
    service: Service,
    lock: LockName,
    ticket: Ticket,
    contents: watch::Receiver<Arc<QueueContents>>,
    reported: Option<u32>,
}

impl QueuePositions {
    /// Runs inside the apply step.
    pub(crate) fn on_event(&self, event: &Event) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Event::Lock(event) = event else { return };
        if let Some(queue) = self.by_lock.lock().get(event.lock()) {
            queue.changed.notify_one();
        }
    }

    /// Begins to report the position of a waiter.
    pub(crate) fn watch(
        &self,
        service: &Service,
        lock: &LockName,
        ticket: Ticket,
    ) -> PositionWatcher {
        let mut by_lock = self.by_lock.lock();
        let contents = if let Some(queue) = by_lock.get(lock) {
            queue.changed.notify_one();
            queue.contents.subscribe()
        } else {
            let (sender, contents) = watch::channel(Arc::default());
            let changed = Arc::new(Notify::new());
            let queue = WatchedQueue { changed: changed.clone(), contents: sender.clone() };
            by_lock.insert(lock.clone(), queue);
            self.count.store(by_lock.len(), Ordering::Relaxed);
            tokio::spawn(keep(service.clone(), lock.clone(), changed, sender));
            contents
        };
        PositionWatcher {
            service: service.clone(),
            lock: lock.clone(),
            ticket,
            contents,
            reported: None,
        }
    }

    /// Stops watching a queue without watchers; false if there are some.
    fn end(&self, lock: &LockName) -> bool {
        let mut by_lock = self.by_lock.lock();
        let followed = by_lock.get(lock).is_some_and(|queue| queue.contents.receiver_count() > 0);
        if !followed {
            by_lock.remove(lock);
            self.count.store(by_lock.len(), Ordering::Relaxed);
        }
        !followed
    }
}

/// Reads one queue until it has no watchers.
async fn keep(
    service: Service,
    lock: LockName,
    changed: Arc<Notify>,
    sender: watch::Sender<Arc<QueueContents>>,
) {
    loop {
        if sender.receiver_count() == 0 && service.queue_positions().end(&lock) {
            return;
        }
        sender.send_replace(Arc::new(read(&service, &lock)));
        tokio::select! {
            () = sender.closed() => continue,
            () = tokio::time::sleep(READ_INTERVAL_MIN) => {}
        }
        tokio::select! {
            () = sender.closed() => {}
            () = changed.notified() => {}
            () = tokio::time::sleep(READ_INTERVAL_MAX) => {}
        }
    }
}

fn read(service: &Service, lock: &LockName) -> QueueContents {
    let (tickets, view, revision) = service.raft().read(|machine| {
        let queue = machine.queue(lock, usize::MAX);
        (queue, machine.lock(lock, AHEAD_MAX), machine.revision())
    });
    QueueContents {
        positions: tickets.into_iter().zip(1..).collect(),
        holder: view.holder().cloned(),
        first: view.waiters,
        waiting: view.waiters_total,
        revision,
    }
}

impl PositionWatcher {
    /// Resolves when the waiter stands somewhere else than reported before, at first as soon as it is known. Never
    /// resolves for a position that is no more. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> QueuePosition {
        loop {
            let found = {
                let contents = self.contents.borrow_and_update();
                let position = contents.positions.get(&self.ticket).copied();
                position
                    .filter(|position| self.reported != Some(*position))
                    .map(|position| (position, contents.clone()))
            };
            if let Some((position, contents)) = found {
                self.reported = Some(position);
                return self.position(position, &contents);
            }
            if self.contents.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn position(&self, position: u32, contents: &QueueContents) -> QueuePosition {
        let before = |waiter: &&WaiterView| waiter.ticket != self.ticket;
        let now = self.service.log_time();
        let held_since = contents.holder.as_ref().map(|holder| (holder.granted_at, now));
        QueuePosition {
            lock: self.lock.clone(),
            position,
            waiting: contents.waiting,
            holder: contents.holder.clone(),
            ahead: contents.first.iter().take_while(before).cloned().collect(),
            estimate: self.service.lock_times().estimate(&self.lock, position, held_since),
            revision: contents.revision,
        }
    }
}
