//! Adds entries to queues, removes them, and grants locks, a multi-lock as a whole.
//!
//! This file keeps three promises. Promise 1: holders are compatible. Promise 2: tokens only grow. Promise 4: no first
//! waiter waits for a lock that it could hold, unless the lock is in cooldown. Each command that changes a queue
//! therefore ends with [`Machine::grant_next`], or adds an entry that is granted immediately.

use std::sync::Arc;

use holdfast_types::{
    Bound, FencingToken, Grant, LockEvent, LockName, LossCause, Rejection, SessionId, Stamp,
    TreeEvent,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::index::{Lock, SessionLockKey};
use crate::lock::lock_entry::{Hold, LockEntry};
use crate::tree::znode::Znode;

impl Machine {
    /// Adds a new entry and its znode. The entry is granted immediately if the lock admits it; then its grant is returned,
    /// too. The caller has created the directory and done all checks.
    pub(crate) fn enqueue(
        &mut self,
        lock: &LockName,
        mut entry: LockEntry,
        is_admitted: bool,
        node: Znode,
        ctx: &mut ApplyContext<'_>,
    ) -> (Arc<LockEntry>, Option<Grant>) {
        // A multi-lock is granted after all its entries are in their queues.
        if is_admitted && !entry.is_of_multi_lock() {
            entry.hold = self.hold_for(lock, &entry, ctx).map(Box::new);
        }
        self.insert_entry(lock, entry, node, ctx)
    }

    /// Adds an entry in its current state, held or waiting, and its znode. Returns the grant of a holder, too.
    pub(crate) fn insert_entry(
        &mut self,
        lock: &LockName,
        entry: LockEntry,
        node: Znode,
        ctx: &mut ApplyContext<'_>,
    ) -> (Arc<LockEntry>, Option<Grant>) {
        let entry = Arc::new(entry);
        let exceeded = self.locks.enter(&mut self.tree, lock, &entry, node);
        ctx.emit(TreeEvent::Created { path: entry.path.clone() });
        ctx.soft_quota_exceeded(exceeded);
        let remembered = self.remembered_as(lock);
        self.sessions.set_queue_entries(entry.session, |count| count + 1);
        if let Some(session) = self.sessions.get_mut(entry.session) {
            session.ended_attempts.mark_reacquired(&remembered, &entry.owner);
        }
        let grant = self.granted(lock, &entry, ctx);
        (entry, grant)
    }

    /// Removes an entry and its znode. A waiting multi-lock entry takes the other entries of its multi-lock with it.
    /// The caller then grants the next waiters.
    pub(crate) fn leave(
        &mut self,
        key: &SessionLockKey,
        cause: LossCause,
        ctx: &mut ApplyContext<'_>,
    ) {
        let entry = self.locks.get(&key.lock).and_then(|indexed| indexed.entry(&key.rank));
        let waiting = entry.filter(|entry| entry.hold.is_none());
        let others =
            waiting.map_or(Vec::new(), |entry| self.other_entries_of_multi_lock(&key.lock, entry));
        self.leave_one(key, cause, ctx);
        for other in others {
            self.leave_one(&other, cause, ctx);
            ctx.locks_to_grant.insert(other.lock);
        }
    }

    fn leave_one(&mut self, key: &SessionLockKey, cause: LossCause, ctx: &mut ApplyContext<'_>) {
        let lock = key.lock.clone();
        let Some((entry, acl)) = self.locks.leave(&mut self.tree, key, ctx) else { return };
        ctx.emit(TreeEvent::Deleted { path: entry.path.clone(), acl });
        self.note_deleted_znode(&entry.path, ctx);
        let owner = entry.owner.clone();
        self.sessions.set_queue_entries(key.session, |count| count.saturating_sub(1));
        let released = cause == LossCause::Released;
        self.end_attempts(key.session, &lock, &owner, entry.claims.newest(), released);
        let (session, ticket) = (entry.session_name.clone(), entry.ticket);
        let Some(hold) = &entry.hold else {
            self.note_first_for_any_shard(&lock, &entry, ctx);
            return ctx.emit(LockEvent::WaitEnded { lock, session, owner, ticket, cause });
        };
        let Hold { token, granted_at, granted_in, .. } = **hold;
        ctx.emit(LockEvent::HoldEnded {
            lock: lock.clone(),
            session,
            owner,
            ticket,
            token,
            granted_at,
            granted_in,
            cause,
        });
        self.start_cooldown_after_loss(&lock, &entry, cause, ctx);
    }

    /// Grants a lock to the first waiter while that is compatible with the holders. Then grants all other locks whose
    /// queues changed.
    pub(crate) fn grant_next(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        ctx.locks_to_grant.insert(lock.clone());
        self.grant_stale(ctx);
    }

    /// Runs the grants of [`Machine::grant_next`] for the locks whose queues this command has changed so far.
    pub(crate) fn grant_stale(&mut self, ctx: &mut ApplyContext<'_>) {
        while let Some(lock) = ctx.locks_to_grant.pop_first() {
            // Most locks have nobody to grant them to.
            let is_idle = self.locks.get(&lock).is_none_or(Lock::is_idle);
            if is_idle && self.locks.waiting() == 0 {
                continue;
            }
            self.end_cooldown_if_over(&lock, ctx);
            self.upgrade_if_alone(&lock, ctx);
            while let Some(next) = self.next_of(&lock, ctx) {
                if next.is_of_multi_lock() {
                    self.grant_multi_lock(&next, ctx);
                } else {
                    self.grant(&lock, &next, ctx);
                }
            }
            while self.grant_to_other_shards_waiter(&lock, ctx) {}
            self.offer_free_shards(ctx);
        }
    }

    /// Returns the first waiter, if it can be granted now.
    fn next_of(&self, lock: &LockName, ctx: &ApplyContext<'_>) -> Option<Arc<LockEntry>> {
        let indexed = self.locks.get(lock).filter(|indexed| indexed.is_out_of_cooldown(ctx.now))?;
        let (_, next) = indexed.waiters.get_min()?;
        let tokens = next.multi_lock().count().max(1) as u64;
        let may_hold = indexed.has_room_for(next.request())
            && self.locks.tokens_left() >= tokens
            && (!next.is_of_multi_lock() || self.can_grant_multi_lock(next, ctx.now));
        may_hold.then(|| Arc::clone(next))
    }

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
    ///
    /// A multi-lock has one entry in the queue of each lock, under one ticket. Its entries rank behind all waiters and are
    /// never overtaken. Until they are granted, a lock in which its entry is first is reserved. One command adds all entries
    /// (`acquire/new.rs`), so all queues order multi-locks the same way. Multi-locks therefore never deadlock with each
    /// other, and smaller ones do not starve larger ones. Removing a waiting entry removes all; a held entry is released
    /// alone.
    fn can_grant_multi_lock(&self, entry: &LockEntry, now: Stamp) -> bool {
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
    fn grant_multi_lock(&mut self, entry: &LockEntry, ctx: &mut ApplyContext<'_>) {
        for name in entry.multi_lock() {
            self.end_cooldown_if_over(name, ctx);
            let first = self.locks.get(name).and_then(|lock| lock.waiters.get_min());
            if let Some(first) = first.map(|(_, first)| Arc::clone(first)) {
                self.grant(name, &first, ctx);
            }
            ctx.locks_to_grant.insert(name.clone());
        }
    }

    fn grant(&mut self, lock: &LockName, next: &Arc<LockEntry>, ctx: &mut ApplyContext<'_>) {
        let Some(hold) = self.hold_for(lock, next, ctx) else { return };
        let granted = Arc::new(LockEntry { hold: Some(Box::new(hold)), ..(**next).clone() });
        self.locks.replace(&mut self.tree, lock, next, &granted);
        self.granted(lock, &granted, ctx);
    }

    /// Emits and returns the grant of a holder, and starts the lock's cooldown. Has no effect for a waiter.
    pub(crate) fn granted(
        &mut self,
        lock: &LockName,
        granted: &LockEntry,
        ctx: &mut ApplyContext<'_>,
    ) -> Option<Grant> {
        let grant = self.grant_of(lock, granted, false)?;
        ctx.emit(LockEvent::Granted(grant.clone()));
        self.start_cooldown_after_grant(lock, ctx);
        self.note_first_for_any_shard(lock, granted, ctx);
        Some(grant)
    }

    /// Rejects grants for which the counter has too few tokens left.
    pub(crate) fn check_tokens_left(&self, count: u64) -> Result<(), Rejection> {
        if self.locks.tokens_left() < count {
            return Err(limit_reached(Bound::Counter, FencingToken::END));
        }
        Ok(())
    }

    /// Creates the hold of an entry that is granted now; `None` if no token is left.
    pub(crate) fn hold_for(
        &mut self,
        lock: &LockName,
        entry: &LockEntry,
        ctx: &ApplyContext<'_>,
    ) -> Option<Hold> {
        let indexed = self.locks.get(lock);
        let slots = match indexed.map(|indexed| (&indexed.holders, indexed.policy().limit)) {
            Some((holders, Some(_))) => holders.free_slots(entry.permits),
            Some((_, None)) | None => Arc::default(),
        };
        let token = self.locks.mint()?;
        Some(Hold {
            token,
            first_token: token,
            granted_at: ctx.now,
            granted_in: ctx.revision,
            mode: entry.mode,
            since: ctx.now,
            slots,
            release_request: None,
        })
    }

    /// Changes an entry. The change must keep its rank, and must not turn a waiter into a holder or the reverse.
    pub(crate) fn update_entry(
        &mut self,
        lock: &LockName,
        before: &Arc<LockEntry>,
        change: impl FnOnce(&mut LockEntry),
    ) -> Arc<LockEntry> {
        let mut entry = (**before).clone();
        change(&mut entry);
        let entry = Arc::new(entry);
        self.locks.replace(&mut self.tree, lock, before, &entry);
        entry
    }

    pub(crate) fn has_no_entries(&self, session: SessionId) -> bool {
        self.sessions.get(session).is_some_and(|session| session.queue_entries == 0)
    }

    /// Closes an anonymous session when its last entry is gone.
    pub(crate) fn close_if_anonymous_and_idle(
        &mut self,
        session: SessionId,
        ctx: &mut ApplyContext<'_>,
    ) {
        let anonymous = self.sessions.get(session).is_some_and(|session| session.anonymous);
        if anonymous && self.has_no_entries(session) {
            self.end_session_without_grants(session, LossCause::SessionClosed, ctx);
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
