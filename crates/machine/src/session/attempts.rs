//! Attempts to take a lock: which of them keep a place, and which are over.
//!
//! A client numbers its attempts, each larger than the one before. All copies of a call carry the same number. An
//! attempt is over when it was released or cancelled, or when its place went for any other reason; a copy that arrives
//! later is rejected. A session remembers for each lock and owner the newest attempt that is over. When it forgets the
//! oldest of these records, every attempt up to that number counts as over, unless it still keeps a place: so a late
//! copy never has an effect, however late it is. The numbering follows "Implementing Linearizability at Large Scale and
//! Low Latency" (Lee et al., SOSP 2015), with one watermark for each lock and owner. Bound: [`LeftLocks::COUNT_MAX`]
//! records.

use std::collections::VecDeque;

use holdfast_types::{Attempt, LockName, Owner};
use serde::{Deserialize, Serialize};

/// The attempts that keep an entry in its place: sorted, without duplicates, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempts(Vec<Attempt>);

impl Attempts {
    /// A set of one.
    pub(crate) fn of(attempt: Option<Attempt>) -> Self {
        Self(vec![attempt.unwrap_or(Attempt::UNNAMED)])
    }

    /// A set read from a snapshot; `None` if it breaks the invariants.
    pub(crate) fn restore(attempts: Vec<Attempt>) -> Option<Self> {
        let sound = !attempts.is_empty() && attempts.is_sorted_by(|a, b| a < b);
        sound.then_some(Self(attempts))
    }

    /// How many there are, at least one.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn contains(&self, attempt: Attempt) -> bool {
        self.0.binary_search(&attempt).is_ok()
    }

    /// Counts one more; one that is counted already changes nothing.
    pub(crate) fn insert(&mut self, attempt: Attempt) {
        if let Err(at) = self.0.binary_search(&attempt) {
            self.0.insert(at, attempt);
        }
    }

    /// Stops counting one, unless it is the last.
    pub(crate) fn remove(&mut self, attempt: Attempt) {
        if let (Ok(at), 2..) = (self.0.binary_search(&attempt), self.0.len()) {
            self.0.remove(at);
        }
    }

    /// The largest number among them.
    pub(crate) fn newest(&self) -> Attempt {
        self.0.last().copied().unwrap_or(Attempt::UNNAMED)
    }

    pub(crate) fn as_slice(&self) -> &[Attempt] {
        &self.0
    }
}

/// What a session remembers of a lock that one of its owners left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LeftLock {
    pub(crate) lock: LockName,
    pub(crate) owner: Owner,
    /// The owner released the lock itself and has not come back since.
    pub(crate) released: bool,
    /// The newest attempt that is over; [`Attempt::UNNAMED`] if none of them had a number.
    pub(crate) over: Attempt,
}

/// The locks that a session left, the oldest record first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftLocks {
    records: VecDeque<LeftLock>,
    /// Attempts up to this one are over, unless they keep a place.
    floor: Attempt,
}

impl LeftLocks {
    /// How many records are kept; the oldest is forgotten first.
    pub(crate) const COUNT_MAX: usize = 256;

    /// No records, and the floor of a session of the same name that ended.
    pub(crate) fn after(floor: Attempt) -> Self {
        Self { records: VecDeque::new(), floor }
    }

    /// As a snapshot had it; `None` if it breaks the bound.
    pub(crate) fn restore(records: Vec<LeftLock>, floor: Attempt) -> Option<Self> {
        (records.len() <= Self::COUNT_MAX).then(|| Self { records: records.into(), floor })
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &LeftLock> {
        self.records.iter()
    }

    pub(crate) fn floor(&self) -> Attempt {
        self.floor
    }

    /// The newest attempt that is over, of any lock.
    pub(crate) fn newest(&self) -> Attempt {
        self.records.iter().map(|record| record.over).fold(self.floor, Attempt::max)
    }

    /// The newest attempt of this lock and owner that is over.
    pub(crate) fn over(&self, lock: &LockName, owner: &Owner) -> Attempt {
        self.find(lock, owner).map_or(self.floor, |record| record.over.max(self.floor))
    }

    /// True if the owner released this lock and did not come back since, as far as is remembered.
    pub(crate) fn has_released(&self, lock: &LockName, owner: &Owner) -> bool {
        self.find(lock, owner).is_some_and(|record| record.released)
    }

    /// Ends the attempts of a lock and owner up to this one. `released` says that the owner gave up its place itself.
    pub(crate) fn end(&mut self, lock: &LockName, owner: &Owner, over: Attempt, released: bool) {
        let old = self.take(lock, owner);
        // The end of another entry of the owner does not undo a release.
        let released = released || old.as_ref().is_some_and(|old| old.released);
        let over = old.map_or(over, |old| old.over.max(over));
        if over == Attempt::UNNAMED && !released {
            return;
        }
        let (lock, owner) = (lock.clone(), owner.clone());
        self.push(LeftLock { lock, owner, released, over });
    }

    /// Ends one attempt of an owner that keeps its place, or has none.
    pub(crate) fn end_one(&mut self, lock: &LockName, owner: &Owner, attempt: Attempt) {
        self.end(lock, owner, attempt, false);
    }

    /// Notes that the owner has a place again.
    pub(crate) fn came_back(&mut self, lock: &LockName, owner: &Owner) {
        let at = self.position(lock, owner);
        let Some(record) = at.and_then(|at| self.records.get_mut(at)) else { return };
        record.released = false;
        if record.over == Attempt::UNNAMED {
            self.take(lock, owner);
        }
    }

    fn push(&mut self, record: LeftLock) {
        if self.records.len() >= Self::COUNT_MAX
            && let Some(oldest) = self.records.pop_front()
        {
            self.floor = self.floor.max(oldest.over);
        }
        self.records.push_back(record);
    }

    fn take(&mut self, lock: &LockName, owner: &Owner) -> Option<LeftLock> {
        self.records.remove(self.position(lock, owner)?)
    }

    fn find(&self, lock: &LockName, owner: &Owner) -> Option<&LeftLock> {
        self.records.get(self.position(lock, owner)?)
    }

    /// From the newest record on: a busy owner leaves the same lock again and again.
    fn position(&self, lock: &LockName, owner: &Owner) -> Option<usize> {
        self.records.iter().rposition(|record| record.owner == *owner && record.lock == *lock)
    }
}
