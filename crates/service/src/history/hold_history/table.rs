//! Ended holds in memory, by lock, and the revision after which they are complete.
//!
//! Bounds: [`HistoryBounds::holds_max`] holds in total and [`HistoryBounds::per_lock_max`] of one lock. A further
//! hold discards the oldest.

use std::collections::{BTreeMap, HashMap, VecDeque};

use holdfast_types::{FencingToken, LockName, Revision};

use super::{HistoryBounds, HistoryRequest, HistoryResult, PastHold};

#[derive(Debug)]
pub(crate) struct HoldTable {
    bounds: HistoryBounds,
    /// Locks with at least one hold.
    locks: HashMap<LockName, LockHolds>,
    /// All holds, by the revisions of their ends.
    order: BTreeMap<(Revision, FencingToken), LockName>,
    /// All holds that ended after this revision are here, for every lock.
    complete_after: Revision,
}

#[derive(Debug, Default)]
struct LockHolds {
    /// At least one, in the order of the tokens.
    holds: VecDeque<PastHold>,
    /// All holds of this lock that ended after this revision are here, unless the table's `complete_after` is later.
    complete_after: Revision,
}

impl LockHolds {
    /// The position of a token, or the position at which its hold belongs.
    fn position(&self, token: FencingToken) -> Result<usize, usize> {
        self.holds.binary_search_by_key(&token, |hold| hold.token)
    }

    /// Adds or replaces a hold. Returns whether it is new.
    fn add(&mut self, hold: PastHold) -> bool {
        match self.position(hold.token) {
            Ok(at) => {
                if let Some(old) = self.holds.get_mut(at) {
                    *old = hold;
                }
                false
            }
            Err(at) => {
                // Most locks have few holds, so the first allocation has room for one.
                if self.holds.len() == self.holds.capacity() {
                    self.holds.reserve_exact(self.holds.len().max(1));
                }
                self.holds.insert(at, hold);
                true
            }
        }
    }

    fn remove(&mut self, token: FencingToken) {
        if let Ok(at) = self.position(token) {
            self.holds.remove(at);
        }
    }
}

impl HoldTable {
    pub(crate) fn new(bounds: HistoryBounds) -> Self {
        let (locks, order) = (HashMap::new(), BTreeMap::new());
        Self { bounds, locks, order, complete_after: Revision(0) }
    }

    #[cfg(test)]
    pub(crate) fn bounds(&self) -> HistoryBounds {
        self.bounds
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn has(&self, hold: &PastHold) -> bool {
        self.locks.get(&hold.lock).is_some_and(|lock| lock.position(hold.token).is_ok())
    }

    /// Adds a hold, and discards the oldest above a bound. Returns the lock whose last hold was discarded.
    pub(crate) fn add(&mut self, hold: PastHold) -> Option<LockName> {
        let name = hold.lock.clone();
        self.order.insert((hold.ended_in, hold.token), name.clone());
        let lock = self.locks.entry(name).or_default();
        if !lock.add(hold) {
            return None;
        }
        if lock.holds.len() > self.bounds.per_lock_max
            && let Some(oldest) = lock.holds.pop_front()
        {
            lock.complete_after = lock.complete_after.max(oldest.ended_in);
            self.order.remove(&(oldest.ended_in, oldest.token));
        }
        (self.len() > self.bounds.holds_max).then(|| self.discard_oldest()).flatten()
    }

    fn discard_oldest(&mut self) -> Option<LockName> {
        let ((ended_in, token), name) = self.order.pop_first()?;
        self.gap(ended_in);
        let lock = self.locks.get_mut(&name)?;
        lock.remove(token);
        lock.holds.is_empty().then(|| {
            self.locks.remove(&name);
            name
        })
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

    pub(crate) fn find(&self, query: &HistoryRequest) -> HistoryResult {
        let at_that_time =
            |hold: &&PastHold| query.at.is_none_or(|at| hold.since <= at && at < hold.until);
        let of_query = self.locks.get(&query.lock);
        let youngest_first = of_query.into_iter().flat_map(|lock| lock.holds.iter().rev());
        let of_lock = self.complete_of(&query.lock).unwrap_or_default();
        HistoryResult {
            holds: youngest_first.filter(at_that_time).take(query.limit).cloned().collect(),
            complete_after: self.complete_after.max(of_lock),
        }
    }
}
