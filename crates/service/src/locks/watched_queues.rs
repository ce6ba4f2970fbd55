//! The lock queues whose waiters requested their positions.
//!
//! `apply` notifies the task of a changed queue (`queue_positions.rs`). The task then reads and publishes the contents.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_types::{Event, HolderView, LockName, LockView, Revision, Ticket, WaiterView};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// The queue of one lock, as applied by this node.
#[derive(Debug, Default)]
pub(crate) struct QueueContents {
    /// Positions start at 1.
    pub(crate) positions: HashMap<Ticket, u32>,
    pub(crate) holder: Option<HolderView>,
    pub(crate) first: Vec<WaiterView>,
    pub(crate) waiting: u32,
    pub(crate) revision: Revision,
}

impl QueueContents {
    /// Without the positions.
    pub(crate) fn of(view: LockView, revision: Revision) -> Self {
        let (positions, holder) = (HashMap::new(), view.holder().cloned());
        Self { positions, holder, first: view.waiters, waiting: view.waiters_total, revision }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WatchedQueue {
    pub(crate) changed: Arc<Notify>,
    pub(crate) contents: watch::Sender<Arc<QueueContents>>,
}

#[derive(Debug, Default)]
pub(crate) struct WatchedQueues {
    by_lock: Mutex<BTreeMap<LockName, WatchedQueue>>,
    /// The size of `by_lock`: `apply` skips the mutex while it is zero.
    count: AtomicUsize,
}

impl WatchedQueues {
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

    /// Subscribes to the contents of a queue. Also returns the queue if it is new: the caller starts its task.
    pub(crate) fn subscribe(
        &self,
        lock: &LockName,
    ) -> (watch::Receiver<Arc<QueueContents>>, Option<WatchedQueue>) {
        let mut by_lock = self.by_lock.lock();
        if let Some(queue) = by_lock.get(lock) {
            queue.changed.notify_one();
            return (queue.contents.subscribe(), None);
        }
        let (sender, contents) = watch::channel(Arc::default());
        let queue = WatchedQueue { changed: Arc::new(Notify::new()), contents: sender };
        by_lock.insert(lock.clone(), queue.clone());
        self.count.store(by_lock.len(), Ordering::Relaxed);
        (contents, Some(queue))
    }

    /// Removes a queue without subscribers. Returns false if it has subscribers.
    pub(crate) fn remove_if_unused(&self, lock: &LockName) -> bool {
        let mut by_lock = self.by_lock.lock();
        let used = by_lock.get(lock).is_some_and(|queue| queue.contents.receiver_count() > 0);
        if !used {
            by_lock.remove(lock);
            self.count.store(by_lock.len(), Ordering::Relaxed);
        }
        !used
    }
}
