//! The entries of an owner in one lock, and those that a call means.
//!
//! An owner has one entry in a lock, which its attempts share (`claims.rs`). In a semaphore each attempt has an entry of
//! its own, so that each has its own permits and token; calls without an attempt share one. A call that `enters` and a
//! multi-lock take no part: their attempts share an entry. Bound: `queue_entries_per_session_max` entries of an owner.

use std::cell::LazyCell;
use std::sync::Arc;

use holdfast_types::{
    Acquire, Attempt, HoldName, LockName, LockRejection, Owner, Rejection, SessionId, Ticket,
};

use crate::Machine;
use crate::lock::lock_entry::LockEntry;

impl Machine {
    /// The entries of an owner in a lock, oldest first.
    pub(super) fn entries_of_owner(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
    ) -> impl Iterator<Item = &Arc<LockEntry>> {
        let indexed = LazyCell::new(|| self.locks.get(lock));
        let keys = self.locks.keys_from(session, lock, owner, Ticket(0));
        let keys = keys.take_while(move |key| key.lock == *lock && key.owner == *owner);
        keys.filter_map(move |key| (*indexed)?.entry(&key.rank))
    }

    pub(super) fn is_semaphore(&self, lock: &LockName) -> bool {
        self.locks.get(lock).is_some_and(|lock| lock.policy().limit.is_some())
    }

    /// The entry that an acquire repeats, changes or nests in; `None` if it needs a new one.
    pub(super) fn entry_for(
        &self,
        session: SessionId,
        lock: &LockName,
        acquire: &Acquire,
    ) -> Option<&Arc<LockEntry>> {
        let owner = &acquire.owner;
        let mut own = self.entries_of_owner(session, lock, owner).peekable();
        own.peek()?;
        match acquire.change.or(acquire.attempt) {
            _ if acquire.locks.is_multi_lock() || !self.is_semaphore(lock) => own.next(),
            Some(attempt) if acquire.enters && acquire.change.is_none() => {
                let copied = own.find(|entry| entry.claims.contains(attempt));
                copied.or_else(|| self.unnamed_entry(session, lock, owner))
            }
            Some(attempt) => own.find(|entry| entry.claims.contains(attempt)),
            None => self.unnamed_entry(session, lock, owner),
        }
    }

    /// The entry that a call without an attempt means: the one without an attempt, otherwise the oldest.
    pub(super) fn unnamed_entry(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
    ) -> Option<&Arc<LockEntry>> {
        let unnamed = |entry: &&Arc<LockEntry>| entry.claims.contains(Attempt::UNNAMED);
        let mut own = self.entries_of_owner(session, lock, owner);
        let first = self.locks.find(session, lock, owner, Ticket(0));
        own.find(unnamed).or(first)
    }

    /// The entry whose hold or wait a partial release names.
    pub(super) fn named_entry(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        name: HoldName,
    ) -> Option<&Arc<LockEntry>> {
        let mut own = self.entries_of_owner(session, lock, owner);
        match name {
            HoldName::Unnamed => self.unnamed_entry(session, lock, owner),
            HoldName::Attempt(attempt) => own.find(|entry| entry.claims.contains(attempt)),
            HoldName::Token(token) => own.find(|entry| entry.is_named_by(token)),
        }
    }

    /// Rejects another permit for an owner if one of its calls rejects re-entrance. Returns the oldest of its entries.
    pub(super) fn check_reentrance(
        &self,
        session: Option<SessionId>,
        acquire: &Acquire,
    ) -> Result<Option<Arc<LockEntry>>, Rejection> {
        let (Some(session), Some(lock)) = (session, acquire.locks.single()) else {
            return Ok(None);
        };
        let mut own = self.entries_of_owner(session, lock, &acquire.owner).peekable();
        let oldest = own.peek().map(|oldest| Arc::clone(oldest));
        let rejects =
            |entry: &Arc<LockEntry>| !(acquire.options.reentrant && entry.options().reentrant);
        if own.any(rejects) { Err(LockRejection::NotReentrant.into()) } else { Ok(oldest) }
    }
}
