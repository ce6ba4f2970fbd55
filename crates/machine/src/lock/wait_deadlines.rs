//! Deadlines of waits, in the order of their acquires.
//!
//! The state machine never ends a wait by itself. The leader reads each deadline once, and proposes a cancel if the
//! caller's own node has not ended the wait. Bound: one record for each claim that waits.

use holdfast_types::{Cancel, LockName, Revision};
use imbl::OrdMap;

use crate::Machine;
use crate::lock::lock_entry::LockEntry;
use crate::lock::rank::Rank;

/// A waiter with a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The command that ends the wait. It has no effect once the owner has repeated its acquire, holds the lock, or has
    /// left.
    pub cancel: Cancel,
    /// The maximum wait in milliseconds, counted from the apply of the acquire.
    pub wait_ms: u64,
}

/// Waits with a deadline, in the order of their latest acquires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitDeadlines {
    /// Lock and rank, by the revision of the latest acquire. No two acquires share a revision.
    by_request: OrdMap<Revision, (LockName, Rank)>,
}

/// The calls of an entry that wait with a deadline: the revision of each, and its maximum wait.
fn waits_of(entry: &LockEntry) -> impl Iterator<Item = (Revision, u64)> {
    let calls = entry.claims.waiting(entry.held_mode());
    calls.filter_map(|call| Some((call.requested_in, call.wait_ms?)))
}

impl WaitDeadlines {
    /// Adds the deadlines of an entry. Returns false if another entry has an acquire of the same revision.
    pub(crate) fn enter(&mut self, lock: &LockName, entry: &LockEntry) -> bool {
        let mut is_own = true;
        for (requested_in, _) in waits_of(entry) {
            is_own &= self.by_request.insert(requested_in, (lock.clone(), entry.rank)).is_none();
        }
        is_own
    }

    pub(crate) fn leave(&mut self, entry: &LockEntry) {
        for (requested_in, _) in waits_of(entry) {
            self.by_request.remove(&requested_in);
        }
    }
}

impl Machine {
    /// Returns waits with a deadline whose latest acquire is after a revision, oldest first; at most `count_max`.
    pub fn waits_after(&self, requested_in: Revision, count_max: usize) -> Vec<Wait> {
        let later =
            self.locks.waits().by_request.range(Revision(requested_in.0.saturating_add(1))..);
        let waits = later.filter_map(|(began, (lock, rank))| self.wait_of(*began, lock, rank));
        waits.take(count_max).collect()
    }

    /// The number of waits with a deadline.
    pub fn waits(&self) -> usize {
        self.locks.waits().by_request.len()
    }

    /// Returns the wait whose latest acquire has this revision, if it has not ended.
    pub fn wait_requested_in(&self, requested_in: Revision) -> Option<Wait> {
        let (lock, rank) = self.locks.waits().by_request.get(&requested_in)?;
        self.wait_of(requested_in, lock, rank)
    }

    fn wait_of(&self, requested_in: Revision, lock: &LockName, rank: &Rank) -> Option<Wait> {
        let entry = self.locks.get(lock)?.entry(rank)?;
        let (_, wait_ms) = waits_of(entry).find(|(began, _)| *began == requested_in)?;
        let cancel = Cancel {
            lock: lock.clone(),
            session: entry.session_name.clone(),
            owner: entry.owner.clone(),
            ticket: entry.ticket,
            requested_in,
        };
        Some(Wait { cancel, wait_ms })
    }
}
