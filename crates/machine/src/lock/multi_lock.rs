//! Multi-locks: one entry in the queue of each lock, under one ticket, all granted together or none.
//!
//! A multi-lock entry ranks behind all waiters and is never overtaken. The entries are granted when each is first in
//! its queue and could hold. Until then, a lock in which its entry is first is reserved. One command adds all entries
//! (`acquire/new.rs`), so all queues order multi-locks the same way. Multi-locks therefore never deadlock with each other,
//! and smaller ones do not starve larger ones. Removing a waiting entry removes all; a held entry is released alone.

use std::sync::Arc;

use holdfast_types::{LockName, Stamp};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::SessionLockKey;
use crate::lock::lock_entry::LockEntry;

impl Machine {
    /// Returns the keys of the other entries of a multi-lock; none for a single lock.
    pub(crate) fn other_entries_of_multi_lock(
        &self,
        lock: &LockName,
        entry: &LockEntry,
    ) -> Vec<SessionLockKey> {
        let others = entry.multi_lock().filter(|other| *other != lock);
        let key = |other: &LockName| {
            let found = self.locks.find(entry.session, other, &entry.owner, entry.ticket)?;
            found.same_multi_lock(entry).then(|| SessionLockKey::of(other, found))
        };
        others.filter_map(key).collect()
    }

    /// Whether all entries of a multi-lock are first in their queues and can be granted now.
    pub(crate) fn can_grant_multi_lock(&self, entry: &LockEntry, now: Stamp) -> bool {
        entry.multi_lock().all(|name| {
            self.locks.get(name).is_some_and(|lock| {
                let first = lock.waiters.get_min().map(|(_, first)| first);
                first.is_some_and(|first| {
                    first.same_multi_lock(entry) && lock.has_room_for(first.request())
                }) && lock.is_out_of_cooldown(now)
            })
        })
    }

    /// Grants all entries of a multi-lock. The caller has checked [`Machine::can_grant_multi_lock`].
    pub(crate) fn grant_multi_lock(&mut self, entry: &LockEntry, ctx: &mut ApplyContext<'_>) {
        for name in entry.multi_lock() {
            self.end_cooldown_if_over(name, ctx);
            let first = self.locks.get(name).and_then(|lock| lock.waiters.get_min());
            if let Some(first) = first.map(|(_, first)| Arc::clone(first)) {
                self.grant(name, &first, ctx);
            }
            ctx.locks_to_grant.insert(name.clone());
        }
    }
}

impl LockEntry {
    pub(crate) fn is_of_multi_lock(&self) -> bool {
        self.multi_lock.is_some()
    }

    /// The locks of the entry's multi-lock in name order; empty for a single lock.
    pub(crate) fn multi_lock(&self) -> impl Iterator<Item = &LockName> {
        self.multi_lock.iter().flat_map(|locks| locks.iter())
    }

    /// Whether one multi-lock acquire added both entries.
    pub(crate) fn same_multi_lock(&self, other: &Self) -> bool {
        self.is_of_multi_lock()
            && self.ticket == other.ticket
            && self.session == other.session
            && self.owner == other.owner
            && self.multi_lock == other.multi_lock
    }
}
