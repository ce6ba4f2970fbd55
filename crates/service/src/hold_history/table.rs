//! Ended holds in memory, by lock, and the revision after which they are complete.
//!
//! Bounds: [`HistoryBounds::holds_max`] holds in total and [`HistoryBounds::per_lock_max`] of one lock. A further
//! hold discards the oldest.

use std::collections::BTreeMap;

use holdfast_types::{FencingToken, LockName, Revision};

use super::{HistoryBounds, HistoryQuery, HistoryResult, PastHold};

/// The maps are flat, so a lock with one hold needs no nested map.
#[derive(Debug)]
pub(crate) struct HoldTable {
    bounds: HistoryBounds,
    holds: BTreeMap<(LockName, FencingToken), PastHold>,
    /// All holds, by the revisions of their ends.
    order: BTreeMap<(Revision, FencingToken), LockName>,
    /// Locks with at least one hold.
    locks: BTreeMap<LockName, LockHolds>,
    /// All holds that ended after this revision are here, for every lock.
    complete_after: Revision,
}

#[derive(Clone, Copy, Debug, Default)]
struct LockHolds {
    /// At least one.
    count: usize,
    /// All holds of this lock that ended after this revision are here, unless the table's `complete_after` is later.
    complete_after: Revision,
}

impl HoldTable {
    pub(crate) fn new(bounds: HistoryBounds) -> Self {
        Self {
            bounds,
            holds: BTreeMap::new(),
            order: BTreeMap::new(),
            locks: BTreeMap::new(),
            complete_after: Revision(0),
        }
    }

    #[cfg(test)]
    pub(crate) fn bounds(&self) -> HistoryBounds {
        self.bounds
    }

    pub(crate) fn len(&self) -> usize {
        self.holds.len()
    }

    pub(crate) fn has(&self, hold: &PastHold) -> bool {
        self.holds.contains_key(&(hold.lock.clone(), hold.token))
    }

    /// Adds a hold, and discards the oldest above a bound. Returns the lock whose last hold was discarded.
    pub(crate) fn add(&mut self, hold: PastHold) -> Option<LockName> {
        let name = hold.lock.clone();
        self.order.insert((hold.ended_in, hold.token), name.clone());
        if self.holds.insert((name.clone(), hold.token), hold).is_some() {
            return None;
        }
        let lock = self.locks.entry(name.clone()).or_default();
        lock.count += 1;
        if lock.count > self.bounds.per_lock_max {
            self.discard_oldest_of(&name);
        }
        (self.len() > self.bounds.holds_max).then(|| self.discard_oldest()).flatten()
    }

    fn discard_oldest_of(&mut self, name: &LockName) {
        let oldest = self.range_of(name).next().map(|hold| (hold.ended_in, hold.token));
        let Some((ended_in, token)) = oldest else { return };
        self.holds.remove(&(name.clone(), token));
        self.order.remove(&(ended_in, token));
        if let Some(lock) = self.locks.get_mut(name) {
            lock.count -= 1;
            lock.complete_after = lock.complete_after.max(ended_in);
        }
    }

    fn discard_oldest(&mut self) -> Option<LockName> {
        let ((ended_in, token), name) = self.order.pop_first()?;
        self.gap(ended_in);
        self.holds.remove(&(name.clone(), token));
        let lock = self.locks.get_mut(&name)?;
        lock.count -= 1;
        (lock.count == 0).then(|| {
            self.locks.remove(&name);
            name
        })
    }

    /// Returns the holds of a lock, the oldest first.
    fn range_of(&self, name: &LockName) -> impl DoubleEndedIterator<Item = &PastHold> {
        let (first, last) = (FencingToken(0), FencingToken(u64::MAX));
        let range = self.holds.range((name.clone(), first)..=(name.clone(), last));
        range.map(|(_, hold)| hold)
    }

    /// Marks holds up to a revision as missing.
    pub(crate) fn gap(&mut self, until: Revision) {
        self.complete_after = self.complete_after.max(until);
    }

    /// Marks holds of one lock up to a revision as missing, if the table has a hold of it.
    pub(crate) fn gap_of(&mut self, lock: &LockName, until: Revision) {
        if let Some(lock) = self.locks.get_mut(lock) {
            lock.complete_after = lock.complete_after.max(until);
        }
    }

    /// All holds that ended after this revision are here, for every lock.
    pub(crate) fn complete_after(&self) -> Revision {
        self.complete_after
    }

    /// Returns the lock's own `complete_after`, or `None` if the table has no hold of it.
    pub(crate) fn complete_of(&self, lock: &LockName) -> Option<Revision> {
        self.locks.get(lock).map(|lock| lock.complete_after)
    }

    pub(crate) fn find(&self, query: &HistoryQuery) -> HistoryResult {
        let at_that_time =
            |hold: &&PastHold| query.at.is_none_or(|at| hold.since <= at && at < hold.until);
        let youngest_first = self.range_of(&query.lock).rev();
        let of_lock = self.complete_of(&query.lock).unwrap_or_default();
        HistoryResult {
            holds: youngest_first.filter(at_that_time).take(query.limit).cloned().collect(),
            complete_after: self.complete_after.max(of_lock),
        }
    }
}
