//! Attempts to acquire a lock that are over. `lock/claims.rs` has those that keep an entry.
//!
//! A client numbers its attempts in ascending order. All copies of a call have the same number. An attempt is over
//! after a release, a cancel, or any other removal of its entry; a later copy is rejected. A session remembers the
//! newest attempt that is over for each lock and owner. When it forgets the oldest of these records, all attempts up to
//! that number are over, except those that keep an entry. A late copy therefore never has an effect. The numbering
//! follows "Implementing Linearizability at Large Scale and Low Latency" (Lee et al., SOSP 2015), with one watermark
//! for each lock and owner. Bound: [`EndedAttempts::COUNT_MAX`] records.

use std::collections::VecDeque;

use holdfast_types::{Attempt, LockName, Owner};
use serde::{Deserialize, Serialize};

/// A session's record of a lock that one of its owners left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct EndedAttempt {
    pub(crate) lock: LockName,
    pub(crate) owner: Owner,
    /// True if the owner released the lock itself, and has not acquired it since.
    pub(crate) released: bool,
    /// The newest attempt that is over; [`Attempt::UNNAMED`] if no attempt had a number.
    pub(crate) over: Attempt,
}

/// The locks that a session left, oldest record first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct EndedAttempts {
    pub(crate) records: VecDeque<EndedAttempt>,
    /// All attempts up to this one are over, except those that keep an entry.
    floor: Attempt,
}

impl EndedAttempts {
    /// The largest number of records. The oldest record is forgotten first.
    pub(crate) const COUNT_MAX: usize = 256;

    /// Creates an empty set of records, with the floor of an ended session of the same name.
    pub(crate) fn after(floor: Attempt) -> Self {
        Self { records: VecDeque::new(), floor }
    }

    /// False if a snapshot has too many records.
    pub(crate) fn is_within_bounds(&self) -> bool {
        self.records.len() <= Self::COUNT_MAX
    }

    /// The newest attempt that is over, for any lock.
    pub(crate) fn newest(&self) -> Attempt {
        self.records.iter().map(|record| record.over).fold(self.floor, Attempt::max)
    }

    /// The newest attempt that is over for a lock and owner.
    pub(crate) fn over(&self, lock: &LockName, owner: &Owner) -> Attempt {
        self.find(lock, owner).map_or(self.floor, |record| record.over.max(self.floor))
    }

    /// True if the owner released this lock and has not acquired it since. False if the record is forgotten.
    pub(crate) fn has_released(&self, lock: &LockName, owner: &Owner) -> bool {
        self.find(lock, owner).is_some_and(|record| record.released)
    }

    /// Ends the attempts of a lock and owner up to `over`. `released` is true if the owner released its entry itself.
    pub(crate) fn end(&mut self, lock: &LockName, owner: &Owner, over: Attempt, released: bool) {
        let old = self.take(lock, owner);
        // The end of another entry of the owner does not undo a release.
        let released = released || old.as_ref().is_some_and(|old| old.released);
        let over = old.map_or(over, |old| old.over.max(over));
        if over == Attempt::UNNAMED && !released {
            return;
        }
        let (lock, owner) = (lock.clone(), owner.clone());
        self.push(EndedAttempt { lock, owner, released, over });
    }

    /// Ends one attempt of an owner that keeps its entry, or has no entry.
    pub(crate) fn end_one(&mut self, lock: &LockName, owner: &Owner, attempt: Attempt) {
        self.end(lock, owner, attempt, false);
    }

    /// Records that the owner has an entry again.
    pub(crate) fn mark_reacquired(&mut self, lock: &LockName, owner: &Owner) {
        let at = self.position(lock, owner);
        let Some(record) = at.and_then(|at| self.records.get_mut(at)) else { return };
        record.released = false;
        if record.over == Attempt::UNNAMED {
            self.take(lock, owner);
        }
    }

    fn push(&mut self, record: EndedAttempt) {
        if self.records.len() >= Self::COUNT_MAX
            && let Some(oldest) = self.records.pop_front()
        {
            self.floor = self.floor.max(oldest.over);
        }
        self.records.push_back(record);
    }

    fn take(&mut self, lock: &LockName, owner: &Owner) -> Option<EndedAttempt> {
        self.records.remove(self.position(lock, owner)?)
    }

    fn find(&self, lock: &LockName, owner: &Owner) -> Option<&EndedAttempt> {
        self.records.get(self.position(lock, owner)?)
    }

    /// Searches from the newest record, because a busy owner leaves the same lock repeatedly.
    fn position(&self, lock: &LockName, owner: &Owner) -> Option<usize> {
        self.records.iter().rposition(|record| record.owner == *owner && record.lock == *lock)
    }
}
