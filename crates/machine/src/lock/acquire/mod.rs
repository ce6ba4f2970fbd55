//! Acquire: adds an entry to the queue of each lock (`new.rs`), or renews, nests and converts the entries that the owner
//! has (`again.rs`, `convert.rs`). A single lock is a multi-lock of one.
//!
//! # What rejects an acquire
//!
//! In this order. Those of one lock are checked for all locks before the next check begins:
//!
//! | an acquire is rejected if | with | in |
//! |---|---|---|
//! | an option is out of bounds, or not one of a multi-lock | `OutOfBounds`, `LimitReached`, `ModeConflict` | `policy.rs` |
//! | its session has expired, and no close acknowledged that | `Expired` | `session/commands.rs` |
//! | it requires an incarnation of its session that has ended | `IncarnationEnded` | `session/commands.rs` |
//! | it names another number of shards, another shard than its owner has, or two shards of one lock | `ShardsMismatch`, `AlreadyQueued` | `shards.rs` |
//! | it is a late copy: its attempt is over | `AttemptOver` | `session/ended_attempts.rs` |
//! | its owner has an entry, and cannot nest or convert it | see there | `again.rs` |
//! | a permit of its owner rejects re-entrance | `NotReentrant` | `owner_entries.rs` |
//! | a lock has a znode of a client that does not see HTTP callers | `ForeignRecipe` | `foreign.rs` |
//! | its limit, permits or mode do not fit the policy | `LimitMismatch`, `LimitReached`, `ModeConflict` | `policy.rs` |
//! | it would wait, but must not, or the queue has `queue_max` waiters | `Busy`, `InCooldown`, `Reserved` | `new.rs` |
//! | there is no room for its session or for its entries, or no token is left | `LimitReached` | `new.rs` |
//! | a queue is full | `LimitReached`, `QuotaFull` | `new.rs` |
//! | the directory's access list forbids a new child, or a znode has its name | `NotAllowed`, `ZnodeExists` | `new.rs` |
//! | the tree or a quota of the tree is full | `LimitReached`, `QuotaExceeded` | `tree/create.rs` |
//! | it would wait for itself | `Deadlock` | `deadlock.rs` |
//!
//! # What is undone
//!
//! All checks of a single lock come before its first change, so a rejection changes nothing: it does not open the session
//! either. The last four rows are checked for one lock of a multi-lock after the other, each after the entry of the one
//! before. `Machine::undo_if_rejected` then undoes all of them. `apply.rs` rejects, and undoes, what exceeds a quota or
//! `tree_bytes_max`.

mod again;
mod convert;
mod new;

use std::sync::Arc;

use holdfast_types::{
    Acquire, Bound, EntryState, LockName, LockRejection, LockSet, Outcome, Owner, Rejection, Reply,
    Revision, SessionName, Ticket,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::claims::ClaimCall;
use crate::lock::index::Lock;
use crate::lock::lock_entry::LockEntry;
use crate::lock::policy::check_bounds;
use crate::session::store::KnownSession;

impl Machine {
    /// Adds an entry to the queue of each lock of an acquire, or renews the owner's entries. Free locks are granted in
    /// the same command.
    pub(crate) fn acquire(&mut self, mut acquire: Acquire, ctx: &mut ApplyContext<'_>) -> Outcome {
        check_bounds(&acquire)?;
        let session = self.session_for(&acquire.open)?;
        let sharded = acquire.shards.map(|_| acquire.locks.first().clone());
        let new_shards = self.choose_shard(session, &mut acquire, ctx.now)?;
        let entry_in = |lock| self.entry_for(session?, lock, &acquire).cloned();
        let entries: Vec<Option<Arc<LockEntry>>> = acquire.locks.iter().map(entry_in).collect();
        self.check_copies(&acquire, sharded.as_ref(), &entries)?;
        let state = match acquire.change {
            _ if entries.iter().any(Option::is_some) => self.acquire_again(&entries, &acquire, ctx),
            Some(claim) => Err(self.no_claim(&acquire, claim)),
            None => self.acquire_new(session, &acquire, ctx),
        }?;
        if let Some(new_shards) = new_shards {
            self.remember_shard_count(new_shards);
        }
        Ok(Reply::Acquired(state))
    }

    /// Rejects a late copy of an attempt that is over. A change of a claim has its own check.
    fn check_copies(
        &self,
        acquire: &Acquire,
        sharded: Option<&LockName>,
        entries: &[Option<Arc<LockEntry>>],
    ) -> Result<(), Rejection> {
        if acquire.change.is_some() {
            return Ok(());
        }
        for (lock, entry) in acquire.locks.iter().zip(entries) {
            let keeps = |attempt| entry.as_ref().is_some_and(|e| e.claims.contains(attempt));
            if !acquire.attempt.is_some_and(keeps) {
                let (session, named) = (&acquire.open.session, sharded.unwrap_or(lock));
                self.check_attempt(session, named, &acquire.owner, acquire.attempt)
                    .map_err(|why| in_lock(&acquire.locks, lock, why))?;
            }
        }
        Ok(())
    }

    /// Returns the state of an owner's entries in these locks: those with a ticket, or those that a call without an
    /// attempt means. A holder that waits for an upgrade counts as waiting. Returns `None` if a lock has no such entry.
    pub fn entry_state(
        &self,
        locks: &LockSet,
        session: &SessionName,
        owner: &Owner,
        ticket: Option<Ticket>,
    ) -> Option<EntryState> {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return None };
        let entry = |lock: &LockName| match ticket {
            Some(ticket) => {
                let found = self.locks.find(id, lock, owner, ticket);
                let found = found.filter(|entry| entry.ticket == ticket);
                let here = found.map(|entry| (lock.clone(), entry));
                here.or_else(|| self.moved_entry(id, lock, owner, ticket))
            }
            None => Some((lock.clone(), self.unnamed_entry(id, lock, owner)?)),
        };
        let entry = |lock| entry(lock).map(|(lock, entry)| (lock, Arc::clone(entry)));
        let entries: Option<Vec<_>> = locks.iter().map(entry).collect();
        Some(self.state_of(&entries?, true))
    }

    /// The state of entries. With `upgrade_waits`, a holder that waits for an upgrade counts as waiting.
    fn state_of(&self, entries: &[(LockName, Arc<LockEntry>)], upgrade_waits: bool) -> EntryState {
        let waits = |entry: &LockEntry| entry.hold.is_none() || upgrade_waits && entry.converts();
        let all = entries.iter();
        if entries.iter().any(|(_, entry)| waits(entry)) {
            EntryState::Waiting(all.map(|(lock, entry)| self.queued_of(lock, entry)).collect())
        } else {
            let grants = all.filter_map(|(lock, entry)| self.grant_of(lock, entry, false));
            EntryState::Holding(grants.collect())
        }
    }

    /// What the entries of an acquire have become.
    fn present(
        &self,
        locks: &LockSet,
        entries: &[Arc<LockEntry>],
    ) -> Vec<(LockName, Arc<LockEntry>)> {
        let present = |(lock, entry): (&LockName, &Arc<LockEntry>)| {
            let entry = self.locks.get(lock)?.entry(&entry.rank)?;
            Some((lock.clone(), Arc::clone(entry)))
        };
        locks.iter().zip(entries).filter_map(present).collect()
    }

    /// The rejection of a no-wait acquire. The cause is another holder, a cooldown, or a reservation for a multi-lock.
    fn busy(&self, lock: &LockName, except: Option<&LockEntry>) -> Rejection {
        let indexed = self.locks.get(lock);
        let waiters = indexed.map_or(0, Lock::waiting);
        if let Some(holder) = indexed.and_then(|indexed| self.first_holder(indexed, except)) {
            return LockRejection::Busy { holder: Box::new(holder), waiters }.into();
        }
        match indexed.and_then(|indexed| indexed.cooldowns.as_ref()) {
            Some(cooldowns) => {
                LockRejection::InCooldown { cooldown: cooldowns.longest(), waiters }.into()
            }
            None => LockRejection::Reserved { waiters }.into(),
        }
    }

    /// Rejects an attempt beyond `hold_count_max`.
    fn check_room_for_attempt(&self, attempts: u32) -> Result<(), Rejection> {
        let max = self.limits.hold_count_max;
        if attempts >= max { Err(limit_reached(Bound::HoldCount, max)) } else { Ok(()) }
    }
}

/// The call of a claim. The first entry stores the deadline of a wait, because one cancel ends the wait for all locks.
fn claim_call(acquire: &Acquire, lock: &LockName, requested_in: Revision) -> ClaimCall {
    ClaimCall { requested_in, wait_ms: acquire.wait_ms.filter(|_| lock == acquire.locks.first()) }
}

/// Adds the name of the lock to a rejection of a multi-lock acquire.
pub(super) fn in_lock(locks: &LockSet, lock: &LockName, why: Rejection) -> Rejection {
    if locks.is_multi_lock() {
        LockRejection::OfMultiLock { lock: lock.clone(), why: Box::new(why) }.into()
    } else {
        why
    }
}
