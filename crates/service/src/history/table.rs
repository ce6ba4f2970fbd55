//! The holds that are remembered, in memory: who held a lock when, and from where on that is all there was.
//!
//! Owns the bounds and which hold makes room. Pure: refuses to know where it is kept (`history.rs`).
//! Bounds: [`Bounds::holds_max`] holds in all and [`Bounds::per_lock_max`] of one lock, the oldest make room.

use std::collections::BTreeMap;

use holdfast_types::{FencingToken, LockName, Revision};

use super::{Bounds, Found, PastHold, Question};

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    bounds: Bounds,
    locks: BTreeMap<LockName, OfLock>,
    /// All holds, in the order in which they ended.
    order: BTreeMap<(Revision, FencingToken), LockName>,
    /// Nothing that ended after this is missing, whatever the lock.
    complete_after: Revision,
}

/// The holds of one lock; at least one.
#[derive(Debug, Default)]
struct OfLock {
    holds: BTreeMap<FencingToken, PastHold>,
    /// Nothing of this lock that ended after this is missing, but for what is missing of all.
    complete_after: Revision,
}

impl Table {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let complete_after = Revision(0);
        Self { bounds, locks: BTreeMap::new(), order: BTreeMap::new(), complete_after }
    }

    #[cfg(test)]
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// How many holds are remembered.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether this hold is remembered.
    pub(crate) fn has(&self, hold: &PastHold) -> bool {
        self.locks.get(&hold.lock).is_some_and(|lock| lock.holds.contains_key(&hold.token))
    }

    /// Remembers a hold; the oldest makes room. Says of which lock nothing is remembered any more.
    pub(crate) fn add(&mut self, hold: PastHold) -> Option<LockName> {
        self.order.insert((hold.ended_in, hold.token), hold.lock.clone());
        let lock = self.locks.entry(hold.lock.clone()).or_default();
        lock.holds.insert(hold.token, hold);
        if lock.holds.len() > self.bounds.per_lock_max
            && let Some((_, gone)) = lock.holds.pop_first()
        {
            lock.complete_after = lock.complete_after.max(gone.ended_in);
            self.order.remove(&(gone.ended_in, gone.token));
        }
        (self.len() > self.bounds.holds_max).then(|| self.forget_oldest()).flatten()
    }

    fn forget_oldest(&mut self) -> Option<LockName> {
        let ((ended_in, token), name) = self.order.pop_first()?;
        self.gap(ended_in);
        let lock = self.locks.get_mut(&name)?;
        lock.holds.remove(&token);
        lock.holds.is_empty().then(|| {
            self.locks.remove(&name);
            name
        })
    }

    /// Something that ended up to here is not known.
    pub(crate) fn gap(&mut self, until: Revision) {
        self.complete_after = self.complete_after.max(until);
    }

    /// The same of one lock, if any of its holds is remembered.
    pub(crate) fn gap_of(&mut self, lock: &LockName, until: Revision) {
        if let Some(lock) = self.locks.get_mut(lock) {
            lock.complete_after = lock.complete_after.max(until);
        }
    }

    /// Nothing that ended after this is missing, whatever the lock.
    pub(crate) fn complete_after(&self) -> Revision {
        self.complete_after
    }

    /// From where on a lock is whole, as far as the lock alone has to do with it; none if nothing is remembered of it.
    pub(crate) fn complete_of(&self, lock: &LockName) -> Option<Revision> {
        self.locks.get(lock).map(|lock| lock.complete_after)
    }

    /// What is known of a lock.
    pub(crate) fn find(&self, question: &Question) -> Found {
        let Some(lock) = self.locks.get(&question.lock) else {
            return Found { holds: Vec::new(), complete_after: self.complete_after };
        };
        let asked =
            |hold: &&PastHold| question.at.is_none_or(|at| hold.since <= at && at < hold.until);
        let youngest_first = lock.holds.values().rev();
        Found {
            holds: youngest_first.filter(asked).take(question.limit).cloned().collect(),
            complete_after: self.complete_after.max(lock.complete_after),
        }
    }
}
