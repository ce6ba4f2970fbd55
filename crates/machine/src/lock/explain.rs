//! Explains why a lock is not free: the order of its queue, the chain of holders that block it, the longest queues.
//!
//! This file only reads. Leases are unknown here, because the leader decides how long a session lives. Bounds: a chain
//! has at most [`CHAIN_MAX`] links, each found among at most [`ENTRIES_MAX`] entries of a session. A listing reads at
//! most [`SCAN_MAX`] locks.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::{
    Grant, HolderView, LockName, LockPolicy, LockView, Owner, SessionName, Stamp, Ticket,
};

use crate::Machine;
use crate::lock::index::Lock;
use crate::lock::lock_entry::LockEntry;
use crate::reads::{LockFilter, SCAN_MAX};

pub const CHAIN_MAX: usize = 8;
/// Holders of one lock, or entries of one session, that the search for one link reads.
const ENTRIES_MAX: usize = 64;

/// A holder that waits for another lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingLink {
    /// The session that holds the previous lock of the chain and waits.
    pub session: SessionName,
    pub owner: Owner,
    /// The lock for which the session waits.
    pub waits_for: LockName,
    pub since: Stamp,
    /// The holder of that lock; `None` if the lock is free or in cooldown.
    pub held_by: Option<SessionName>,
    /// True if the chain has reached this lock before: the links since then form a cycle.
    pub cycle: bool,
}

/// An order of locks that puts the ones that hurt most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockUrgency {
    /// The most waiters first.
    Waiters,
    /// The longest wait first.
    LongestWait,
    /// The oldest hold first.
    OldestHold,
}

impl LockUrgency {
    /// The larger, the more urgent; `None` for a lock that is not listed.
    fn of(self, lock: &Lock) -> Option<u64> {
        let age = |since: Stamp| u64::MAX - since.0;
        match self {
            Self::Waiters => Some(lock.waiting().into()).filter(|waiters| *waiters > 0),
            Self::LongestWait => lock.waiting_since().map(age),
            Self::OldestHold => lock.holders.held_since().map(age),
        }
    }
}

/// A lock whose wait or hold is longer than its policy allows without an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueLock {
    pub lock: LockName,
    /// The longest wait, or the age of the oldest hold.
    pub ms: u64,
    /// The threshold in the policy.
    pub threshold_ms: u64,
    /// The holder with the oldest hold; `None` if the lock has none.
    pub holder: Option<HolderView>,
}

/// Returns the holders of a lock; of a free lock, the multi-lock for which it is reserved.
fn holders(lock: &Lock) -> impl Iterator<Item = &Arc<LockEntry>> {
    let first = lock.waiters.values().take(1).filter(|first| first.is_of_multi_lock());
    lock.holders.iter().chain(first.filter(|_| lock.holders.is_empty()))
}

impl Machine {
    /// Returns the tickets of the waiters, in queue order; at most `count_max`.
    pub fn queue(&self, lock: &LockName, count_max: usize) -> Vec<Ticket> {
        let Some(indexed) = self.locks.get(lock) else { return Vec::new() };
        indexed.waiters.values().take(count_max).map(|waiter| waiter.ticket).collect()
    }

    /// Milliseconds from the acquire of a current holder to its grant; `None` if it no longer holds the lock.
    pub fn waited_ms(&self, grant: &Grant) -> Option<u64> {
        let (id, _) = self.session_id(&grant.session)?;
        let entry = self.locks.find(id, &grant.lock, &grant.owner, grant.ticket)?;
        let hold = entry.hold.as_ref().filter(|hold| hold.token == grant.token)?;
        Some(hold.granted_at.0.saturating_sub(entry.since.0))
    }

    /// Returns the chain of blocked holders: the lock for which this lock's holder waits, then that lock's holder, and
    /// so on.
    pub fn blocking_chain(&self, lock: &LockName) -> Vec<BlockingLink> {
        let (mut links, mut visited) = (Vec::new(), BTreeSet::from([lock.clone()]));
        let mut at = lock.clone();
        while links.len() < CHAIN_MAX {
            let Some((holder, waiter, wanted)) = self.waiting_holder(&at) else { break };
            let holds_it = self.locks.get(&wanted).and_then(|lock| holders(lock).next());
            let cycle = !visited.insert(wanted.clone());
            links.push(BlockingLink {
                session: holder.session_name.clone(),
                owner: waiter.owner.clone(),
                waits_for: wanted.clone(),
                since: waiter.since,
                held_by: holds_it.map(|holder| holder.session_name.clone()),
                cycle,
            });
            if cycle {
                break;
            }
            at = wanted;
        }
        links
    }

    /// Returns a holder of a lock that waits for another lock, preferably as the same owner.
    fn waiting_holder(
        &self,
        lock: &LockName,
    ) -> Option<(&Arc<LockEntry>, &Arc<LockEntry>, LockName)> {
        let indexed = self.locks.get(lock)?;
        holders(indexed).take(ENTRIES_MAX).find_map(|holder| {
            let keys = self.locks.keys_of(holder.session).take(ENTRIES_MAX);
            let waits = keys.filter(|key| key.lock != *lock).filter_map(|key| {
                let found = self.locks.get(&key.lock)?.entry(&key.rank)?;
                found.hold.is_none().then(|| (found, key.lock.clone()))
            });
            let waits: Vec<_> = waits.collect();
            let own = waits.iter().position(|(waiter, _)| waiter.owner == holder.owner);
            let (waiter, wanted) = waits.into_iter().nth(own.unwrap_or(0))?;
            Some((holder, waiter, wanted))
        })
    }

    /// Returns the most urgent locks that match a filter, the most urgent first. The views have the number of
    /// waiters, but no waiters. Reads the first [`SCAN_MAX`] locks with the filter's prefix.
    pub fn most_urgent(
        &self,
        filter: &LockFilter,
        urgency: LockUrgency,
        limit: usize,
        is_visible: impl Fn(&LockName) -> bool,
    ) -> Vec<LockView> {
        let mut best: BTreeSet<(u64, std::cmp::Reverse<&LockName>)> = BTreeSet::new();
        let inside = self
            .locks
            .range(Bound::Included(filter.prefix.as_str()))
            .take_while(|(name, _)| name.as_str().starts_with(&filter.prefix))
            .take(SCAN_MAX);
        let urgent = inside.filter_map(|(name, lock)| Some((urgency.of(lock)?, name)));
        for (of_lock, name) in urgent.filter(|(_, name)| is_visible(name)) {
            best.insert((of_lock, std::cmp::Reverse(name)));
            if best.len() > limit {
                best.pop_first();
            }
        }
        best.into_iter().rev().map(|(_, name)| self.lock_in_list(name.0)).collect()
    }

    /// Returns locks with a wait that is longer than their policy allows without an alarm; at most `count_max`.
    pub fn locks_with_long_waits(&self, now: Stamp, count_max: usize) -> Vec<OverdueLock> {
        let since = |lock: &Lock| lock.waiting_since();
        self.overdue(now, count_max, |policy| policy.wait_alarm_ms, since)
    }

    /// Returns locks with a hold that is older than their policy allows without an alarm; at most `count_max`.
    pub fn locks_with_old_holds(&self, now: Stamp, count_max: usize) -> Vec<OverdueLock> {
        let since = |lock: &Lock| lock.holders.held_since();
        self.overdue(now, count_max, |policy| policy.hold_alarm_ms, since)
    }

    fn overdue(
        &self,
        now: Stamp,
        count_max: usize,
        threshold: impl Fn(&LockPolicy) -> u64,
        since: impl Fn(&Lock) -> Option<Stamp>,
    ) -> Vec<OverdueLock> {
        let overdue = self.locks.alarmed().filter_map(|(name, lock)| {
            let threshold_ms = threshold(lock.policy());
            let ms = now.0.saturating_sub(since(lock)?.0);
            let oldest =
                lock.holders.tokens().and_then(|(oldest, _)| lock.holders.of_token(oldest));
            (threshold_ms > 0 && ms > threshold_ms).then(|| OverdueLock {
                lock: name.clone(),
                threshold_ms,
                ms,
                holder: oldest.and_then(|holder| self.holder_view(holder)),
            })
        });
        overdue.take(count_max).collect()
    }
}
