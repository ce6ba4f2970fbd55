//! The order of a queue: each waiter gets a rank when it is enqueued, and the rank never changes.
//!
//! Waiters are ordered by the class from the policy, then by time, then by sequence number. The time is the enqueue
//! time minus the worth of the priority. A priority level is worth a fixed waiting time. Within its class, a waiter
//! that has waited long enough is therefore never overtaken, and the queue is never sorted again.

use holdfast_types::{Acquire, LockPolicy, Mode, Owner, QueueOrder, SessionId, Stamp};

use crate::lock::entry_name::EntryRecipe;

/// The inputs of an entry's rank and grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantRequest {
    pub(crate) mode: Mode,
    pub(crate) permits: u32,
    pub(crate) priority: u8,
    pub(crate) never_overtaken: bool,
    pub(crate) recipe: EntryRecipe,
}

impl GrantRequest {
    pub(crate) fn of(acquire: &Acquire) -> Self {
        Self {
            mode: acquire.mode.unwrap_or_default(),
            permits: acquire.permits.unwrap_or(1),
            priority: acquire.options.priority,
            never_overtaken: acquire.locks.is_multi_lock(),
            recipe: EntryRecipe::Own,
        }
    }

    /// Whether an HTTP caller's shared holders admit it.
    pub(crate) fn is_beside_readers(self) -> bool {
        self.mode != Mode::Exclusive && self.recipe == EntryRecipe::Own
    }

    /// The request of an entry that a ZooKeeper client creates. It is alone on a semaphore, too.
    pub(crate) fn of_tree(recipe: EntryRecipe, policy: &LockPolicy) -> Self {
        let permits = policy.limit.unwrap_or(1);
        Self { mode: recipe.mode(), permits, priority: 0, never_overtaken: true, recipe }
    }
}

/// The position of a waiter in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) class: u8,
    /// Milliseconds; negative if the priority is worth more than the log time at the enqueue.
    pub(crate) at: i64,
    /// The sequence number in the directory, unique within the lock.
    pub(crate) sequence: u64,
}

impl Rank {
    pub(crate) const CLASS_MAX: u8 = 1;

    /// The least rank of a class.
    pub(crate) fn first_of(class: u8) -> Self {
        Self { class, at: i64::MIN, sequence: 0 }
    }

    /// True if no waiter with this rank, or a later one of its class, began to wait before this time: a priority only
    /// moves a waiter forward.
    pub(crate) fn is_since(&self, stamp: Stamp) -> bool {
        self.at >= signed(stamp.0)
    }

    pub(crate) fn of(
        policy: &LockPolicy,
        request: GrantRequest,
        since: Stamp,
        sequence: u64,
    ) -> Self {
        let shared = request.mode == Mode::Shared;
        let class = match policy.order {
            QueueOrder::Fifo => 0,
            QueueOrder::WriterFirst => u8::from(shared),
            QueueOrder::ReaderFirst => u8::from(!shared),
        };
        let worth = u64::from(request.priority).saturating_mul(policy.ageing_ms);
        let at = signed(since.0).saturating_sub(signed(worth));
        Self { class, at, sequence }
    }

    /// The rank of an entry that received a hand-over, before all waiters.
    pub(crate) fn before_all(sequence: u64) -> Self {
        Self { class: 0, at: i64::MIN, sequence }
    }

    /// Returns this rank, or one directly behind `other` if `other` is later.
    pub(crate) fn behind(self, other: Option<&Self>) -> Self {
        match other {
            Some(other) if *other > self => Self { sequence: self.sequence, ..*other },
            Some(_) | None => self,
        }
    }
}

/// A place before another one in a queue. It counts as the holder that it becomes, except that of a waiting multi-lock or of a
/// ZooKeeper client.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceAhead<'a> {
    pub(super) request: GrantRequest,
    pub(super) rank: Rank,
    pub(super) any_shard: bool,
    pub(super) agent: (SessionId, &'a Owner),
}

impl PlaceAhead<'_> {
    pub(super) fn waits_for_upgradable(&self) -> bool {
        self.request.mode == Mode::Upgradable && !self.any_shard
    }

    /// A multi-lock gets no lock before it gets all of them, so all later entries wait for it.
    pub(super) fn is_a_holder(&self) -> bool {
        self.request.recipe == EntryRecipe::Own && !self.request.never_overtaken
    }

    /// Whether this place admits a later request once it holds the lock, and blocks no unsearched waiter between the two.
    pub(super) fn admits(
        &self,
        later: GrantRequest,
        last_writer: Option<Rank>,
        last_upgradable: Option<Rank>,
    ) -> bool {
        let is_last = |blocked: Option<Rank>| blocked.is_none_or(|blocked| blocked <= self.rank);
        let by_mode = match self.request.mode {
            Mode::Shared => later.is_beside_readers(),
            Mode::Upgradable => {
                let is_reader = (later.mode, later.recipe) == (Mode::Shared, EntryRecipe::Own);
                !self.any_shard && is_reader && is_last(last_upgradable)
            }
            Mode::Exclusive => false,
        };
        by_mode && self.is_a_holder() && is_last(last_writer)
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(order: QueueOrder, mode: Mode, priority: u8, since: u64, sequence: u64) -> Rank {
        let policy = LockPolicy { order, ..LockPolicy::DEFAULT };
        let recipe = EntryRecipe::Own;
        let request = GrantRequest { mode, permits: 1, priority, never_overtaken: false, recipe };
        Rank::of(&policy, request, Stamp(since), sequence)
    }

    #[test]
    fn a_level_of_priority_is_worth_ten_seconds() {
        let fifo = |priority, since, sequence| {
            rank(QueueOrder::Fifo, Mode::Exclusive, priority, since, sequence)
        };
        assert!(fifo(0, 5, 1) < fifo(0, 5, 2));
        assert!(fifo(1, 10_004, 2) < fifo(0, 5, 1));
        assert!(fifo(1, 10_006, 2) > fifo(0, 5, 1));
        assert!(fifo(9, 0, 9) < fifo(8, 0, 1));
    }

    #[test]
    fn the_class_precedes_priority_and_time() {
        let writer = |order| rank(order, Mode::Exclusive, 0, 99, 9);
        let reader = |order| rank(order, Mode::Shared, 9, 0, 1);
        assert!(writer(QueueOrder::WriterFirst) < reader(QueueOrder::WriterFirst));
        assert!(reader(QueueOrder::ReaderFirst) < writer(QueueOrder::ReaderFirst));
        assert!(reader(QueueOrder::Fifo) < writer(QueueOrder::Fifo));
    }

    #[test]
    fn behind_returns_a_rank_after_the_other() {
        let first = rank(QueueOrder::Fifo, Mode::Exclusive, 0, 50, 1);
        let urgent = rank(QueueOrder::Fifo, Mode::Exclusive, 9, 60, 2);
        let put = urgent.behind(Some(&first));
        assert!(urgent < first && put > first && put.behind(Some(&first)) == put);
        assert_eq!(first.behind(Some(&urgent)), first);
    }
}
