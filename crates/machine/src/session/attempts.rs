//! Attempts to acquire a lock that are over. `lock/claims.rs` has those that keep an entry.
//!
//! A client numbers its attempts in ascending order. All copies of a call have the same number. An attempt is over
//! after a release, a cancel, or any other removal of its entry; a later copy is rejected. A session remembers the
//! newest attempt that is over for each lock and owner. When it forgets the oldest of these records, all attempts up to
//! that number are over, except those that keep an entry. A late copy therefore never has an effect. The numbering
//! follows "Implementing Linearizability at Large Scale and Low Latency" (Lee et al., SOSP 2015), with one watermark
//! for each lock and owner. Bounds: [`EndedAttempts::COUNT_MAX`] records, and [`EndedAttempts::BYTES_MAX`] bytes of their
//! names.

use std::collections::VecDeque;

use holdfast_types::{Attempt, LockName, Owner, ShardRequest};
use serde::{Deserialize, Serialize};

/// A session's record of a lock that one of its owners left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct EndedAttempt {
    pub(crate) lock: LockName,
    pub(crate) owner: Owner,
    /// True if the owner released the lock itself, and has not acquired it since.
    pub(crate) released: bool,
    /// True if the lock had shards: the record is about each of them.
    pub(crate) has_shards: bool,
    /// The newest attempt that is over; [`Attempt::UNNAMED`] if no attempt had a number.
    pub(crate) over: Attempt,
}

impl EndedAttempt {
    /// The number of bytes of its names.
    fn bytes(&self) -> usize {
        self.lock.as_str().len() + self.owner.as_str().len()
    }
}

/// The locks that a session left, oldest record first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct EndedAttempts {
    pub(crate) records: VecDeque<EndedAttempt>,
    /// Invariant: the number of bytes of the names in `records`.
    bytes: usize,
    /// All attempts up to this one are over, except those that keep an entry.
    floor: Attempt,
}

impl EndedAttempts {
    /// The largest number of records. The oldest record is forgotten first.
    pub(crate) const COUNT_MAX: usize = 256;
    /// The largest number of bytes of the names in all records. They count for no quota, because a release must not fail.
    pub(crate) const BYTES_MAX: usize = 32 << 10;

    /// Creates an empty set of records, with the floor of an ended session of the same name.
    pub(crate) fn after(floor: Attempt) -> Self {
        Self { floor, ..Self::default() }
    }

    /// False if a snapshot has too many records, or too long names.
    pub(crate) fn is_within_bounds(&self) -> bool {
        let bytes: usize = self.records.iter().map(EndedAttempt::bytes).sum();
        self.records.len() <= Self::COUNT_MAX && bytes == self.bytes && bytes <= Self::BYTES_MAX
    }

    /// The newest attempt that is over, for any lock.
    pub(crate) fn newest(&self) -> Attempt {
        self.records.iter().map(|record| record.over).fold(self.floor, Attempt::max)
    }

    /// The newest attempt that is over for a lock and owner. The lock may be, or may have been, a shard of another one.
    pub(crate) fn over(&self, lock: &LockName, owner: &Owner) -> Attempt {
        let sharded = ShardRequest::sharded_name(lock);
        let of_shards = sharded.and_then(|sharded| self.find(sharded, owner));
        let of_shards = of_shards.filter(|record| record.has_shards);
        let records = self.find(lock.as_str(), owner).into_iter().chain(of_shards);
        records.map(|record| record.over).fold(self.floor, Attempt::max)
    }

    /// True if the owner released this lock and has not acquired it since. False if the record is forgotten.
    pub(crate) fn has_released(&self, lock: &LockName, owner: &Owner) -> bool {
        self.find(lock.as_str(), owner).is_some_and(|record| record.released)
    }

    /// Ends the attempts of a lock and owner up to `ended.over`.
    pub(crate) fn end(&mut self, mut ended: EndedAttempt) {
        if let Some(old) = self.take(&ended.lock, &ended.owner) {
            // The end of another entry of the owner does not undo a release.
            ended.released |= old.released;
            ended.has_shards |= old.has_shards;
            ended.over = ended.over.max(old.over);
        }
        if ended.over > Attempt::UNNAMED || ended.released {
            self.push(ended);
        }
    }

    /// Records that the owner has an entry again.
    pub(crate) fn mark_reacquired(&mut self, lock: &LockName, owner: &Owner) {
        let at = self.position(lock.as_str(), owner);
        let Some(record) = at.and_then(|at| self.records.get_mut(at)) else { return };
        record.released = false;
        if record.over == Attempt::UNNAMED {
            self.take(lock, owner);
        }
    }

    fn push(&mut self, record: EndedAttempt) {
        self.bytes += record.bytes();
        self.records.push_back(record);
        while (self.records.len() > Self::COUNT_MAX || self.bytes > Self::BYTES_MAX)
            && let Some(oldest) = self.records.pop_front()
        {
            self.bytes -= oldest.bytes();
            self.floor = self.floor.max(oldest.over);
        }
    }

    fn take(&mut self, lock: &LockName, owner: &Owner) -> Option<EndedAttempt> {
        let taken = self.records.remove(self.position(lock.as_str(), owner)?)?;
        self.bytes -= taken.bytes();
        Some(taken)
    }

    fn find(&self, lock: &str, owner: &Owner) -> Option<&EndedAttempt> {
        self.records.get(self.position(lock, owner)?)
    }

    /// Searches from the newest record, because a busy owner leaves the same lock repeatedly.
    fn position(&self, lock: &str, owner: &Owner) -> Option<usize> {
        self.records
            .iter()
            .rposition(|record| record.owner == *owner && record.lock.as_str() == lock)
    }
}
