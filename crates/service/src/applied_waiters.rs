//! Callers that wait until this node has applied a revision.
//!
//! `apply` wakes exactly the callers whose revision it reaches, after the entry's events are dispatched. Bound: one entry a
//! call; a dropped call removes its entry.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_types::Revision;
use parking_lot::Mutex;
use tokio::sync::oneshot;

type Key = (Revision, u64);

#[derive(Debug, Default)]
struct Waiting {
    waiters: BTreeMap<Key, oneshot::Sender<()>>,
    last: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct AppliedWaiters {
    waiting: Mutex<Waiting>,
    /// The smallest revision waited for: `apply` looks no further before it.
    next: AtomicU64,
}

impl Default for AppliedWaiters {
    fn default() -> Self {
        Self { waiting: Mutex::default(), next: AtomicU64::new(u64::MAX) }
    }
}

/// One waiter's entry, taken out when it is dropped.
struct Entry<'a> {
    reach: &'a AppliedWaiters,
    key: Key,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut waiting = self.reach.waiting.lock();
        waiting.waiters.remove(&self.key);
        self.reach.note(&waiting);
    }
}

impl AppliedWaiters {
    /// Resolves when the revision is applied. `applied` reads how far this node is.
    pub(crate) async fn wait(&self, revision: Revision, applied: impl Fn() -> Revision) {
        if applied() >= revision {
            return;
        }
        let (entry, receiver) = self.enter(revision);
        // Either it was applied before this look, or `reached` finds the entry.
        if applied() < revision {
            // An error means that the entry is gone: it cannot be, while it is held here.
            let _woken = receiver.await;
        }
        drop(entry);
    }

    fn enter(&self, revision: Revision) -> (Entry<'_>, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        waiting.last += 1;
        let key = (revision, waiting.last);
        waiting.waiters.insert(key, sender);
        self.note(&waiting);
        (Entry { reach: self, key }, receiver)
    }

    /// This node has applied everything up to here. Inside the apply step.
    pub(crate) fn reached(&self, revision: Revision) {
        if revision.0 < self.next.load(Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let later = waiting.waiters.split_off(&(Revision(revision.0.saturating_add(1)), 0));
        let now = std::mem::replace(&mut waiting.waiters, later);
        self.note(&waiting);
        drop(waiting);
        for sender in now.into_values() {
            sender.send(()).ok();
        }
    }

    fn note(&self, waiting: &Waiting) {
        let next = waiting.waiters.first_key_value().map_or(u64::MAX, |((next, _), _)| next.0);
        self.next.store(next, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn exactly_those_whose_revision_is_reached_wake() {
        let reach = AppliedWaiters::default();
        let behind = || Revision(1);
        reach.wait(Revision(1), behind).await;
        let mut third = std::pin::pin!(reach.wait(Revision(3), behind));
        let mut fifth = std::pin::pin!(reach.wait(Revision(5), behind));
        assert!(futures_util::poll!(&mut third).is_pending());
        assert!(futures_util::poll!(&mut fifth).is_pending());
        reach.reached(Revision(2));
        assert!(futures_util::poll!(&mut third).is_pending());
        reach.reached(Revision(4));
        third.await;
        assert!(futures_util::poll!(&mut fifth).is_pending());
        reach.reached(Revision(5));
        fifth.await;
    }

    #[tokio::test]
    async fn a_waiter_that_goes_away_leaves_nothing() {
        let reach = AppliedWaiters::default();
        {
            let mut waiter = std::pin::pin!(reach.wait(Revision(3), || Revision(1)));
            assert!(futures_util::poll!(&mut waiter).is_pending());
            assert_eq!(reach.next.load(Ordering::SeqCst), 3);
        }
        assert_eq!(reach.next.load(Ordering::SeqCst), u64::MAX);
    }
}
