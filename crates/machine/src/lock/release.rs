//! Release and cancel: an entry leaves the lock or its queue. A repeated call has no further effect.

use std::sync::Arc;

use holdfast_types::{
    Attempt, Cancel, EntryState, HoldName, LockName, LockRejection, LossCause, Outcome, Owner,
    Rejection, Release, ReleaseTarget, Released, Reply, SessionEnd, SessionId,
};

use crate::Machine;
use crate::context::{ApplyContext, expired, no_session};
use crate::lock::index::SessionLockKey;
use crate::lock::lock_entry::LockEntry;
use crate::session::store::KnownSession;

const NOTHING_RELEASED: Released = Released { hold_count: 0, changed: false };

impl Machine {
    /// Releases locks, or leaves their queues. For a sharded lock, this is the shard with the owner's entry. A release
    /// that names an attempt or a token has no effect if that attempt or hold has ended.
    pub(crate) fn release(&mut self, release: Release, ctx: &mut ApplyContext<'_>) -> Outcome {
        let Release { locks, session, owner, target } = release;
        let id = match self.sessions.named(&session) {
            Some(KnownSession::Open(id)) => id,
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(session));
            }
            ended @ (Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None) => {
                for lock in locks.iter() {
                    self.acknowledge_losses_in(&session, lock, (&owner, target), ctx);
                }
                return match target {
                    ReleaseTarget::Attempt(attempt) => {
                        self.end_attempt_unopened(session, attempt, ctx);
                        Ok(Reply::Released(NOTHING_RELEASED))
                    }
                    _ if ended.is_some() => Ok(Reply::Released(NOTHING_RELEASED)),
                    ReleaseTarget::AnyEntry
                    | ReleaseTarget::Hold(_)
                    | ReleaseTarget::Permits(..) => Err(no_session(session)),
                };
            }
        };
        let mut released = NOTHING_RELEASED;
        let mut left = Vec::new();
        for lock in locks.iter() {
            let lock = self.lock_of_owner(id, lock.clone(), &owner);
            let own: Vec<Arc<LockEntry>> =
                self.entries_of_owner(id, &lock, &owner).cloned().collect();
            if own.is_empty() {
                let lost = self.acknowledge_losses_in(&session, &lock, (&owner, target), ctx);
                self.release_again(id, &lock, &owner, target, lost);
                let only = locks.single().is_some() && target == ReleaseTarget::AnyEntry;
                if only && !lost {
                    self.check_released_before(id, &lock, &owner)?;
                }
                continue;
            }
            let one = self.release_entries(&lock, &own, target, ctx)?;
            if !one.changed {
                // It may name an earlier hold, which the owner has lost.
                self.acknowledge_losses_in(&session, &lock, (&owner, target), ctx);
            }
            if one.changed && one.hold_count == 0 {
                left.push(lock);
            }
            released.changed |= one.changed;
            released.hold_count = released.hold_count.max(one.hold_count);
        }
        if !left.is_empty() {
            self.close_if_anonymous_and_idle(id, ctx);
            for lock in &left {
                self.grant_next(lock, ctx);
            }
        }
        Ok(Reply::Released(released))
    }

    /// Ends the hold, the attempt or the permits that a release names, of an owner with these entries. The caller then
    /// grants the next waiter.
    fn release_entries(
        &mut self,
        lock: &LockName,
        own: &[Arc<LockEntry>],
        target: ReleaseTarget,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Released, Rejection> {
        let is_semaphore = self.is_semaphore(lock);
        let Some(first) = own.first() else { return Ok(NOTHING_RELEASED) };
        let meant: Vec<&Arc<LockEntry>> = match target {
            ReleaseTarget::Attempt(attempt) if is_semaphore => {
                let Some(entry) = own.iter().find(|entry| entry.claims.contains(attempt)) else {
                    self.end_attempt(first.session, lock, &first.owner, attempt);
                    return Ok(NOTHING_RELEASED);
                };
                return Ok(self.leave_attempt(lock, entry, attempt, ctx));
            }
            ReleaseTarget::Attempt(attempt) => {
                return Ok(self.leave_attempt(lock, first, attempt, ctx));
            }
            ReleaseTarget::Permits(name, permits) => {
                let named = self.named_entry(first.session, lock, &first.owner, name).cloned();
                let Some(entry) = named else { return Ok(NOTHING_RELEASED) };
                return self.release_permits(lock, &entry, name, permits, ctx);
            }
            ReleaseTarget::Hold(token) => {
                own.iter().filter(|entry| entry.is_named_by(token)).collect()
            }
            ReleaseTarget::AnyEntry if is_semaphore => own.iter().collect(),
            ReleaseTarget::AnyEntry => vec![first],
        };
        for entry in &meant {
            self.leave(&SessionLockKey::of(lock, entry), LossCause::Released, ctx);
        }
        Ok(Released { hold_count: 0, changed: !meant.is_empty() })
    }

    /// Gives back permits of an entry, from its highest slot down; the last one ends the hold or the wait.
    fn release_permits(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        name: HoldName,
        permits: u32,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Released, Rejection> {
        if permits == 0 || permits > entry.permits {
            return Err(LockRejection::PermitsMismatch { permits: entry.permits }.into());
        }
        let left = entry.permits - permits;
        if left > 0 {
            self.update_entry(lock, entry, |entry| {
                entry.permits = left;
                if let Some(hold) = &mut entry.hold {
                    hold.slots = hold.slots.iter().copied().take(left as usize).collect();
                }
            });
            if entry.hold.is_none() {
                self.note_first_for_any_shard(lock, entry, ctx);
            }
            self.grant_next(lock, ctx);
            return Ok(Released { hold_count: entry.claims.count(), changed: true });
        }
        if let HoldName::Attempt(attempt) = name {
            return Ok(self.leave_attempt(lock, entry, attempt, ctx));
        }
        self.leave(&SessionLockKey::of(lock, entry), LossCause::Released, ctx);
        Ok(Released { hold_count: 0, changed: true })
    }

    /// Ends the wait of one call: its claim, and with the last claim the entry. Has no effect if the entry was granted or
    /// removed, or if the owner has repeated the call.
    pub(crate) fn cancel(&mut self, cancel: Cancel, ctx: &mut ApplyContext<'_>) -> Reply {
        let Some((lock, entry)) = self.entry_to_cancel(&cancel) else { return Reply::Cancelled };
        let Cancel { owner, ticket, requested_in, .. } = cancel;
        let id = entry.session;
        if !entry.waits()
            && let Some(grant) = self.grant_of(&lock, &entry, false)
        {
            return Reply::Acquired(EntryState::Holding(vec![grant]));
        }
        match entry.end_wait(requested_in) {
            Some((None, _)) => self.leave_queue(&lock, &entry, ctx),
            Some((Some(_), number)) => {
                let locks: Vec<LockName> = entry.multi_lock().cloned().collect();
                for lock in if locks.is_empty() { vec![lock] } else { locks } {
                    let Some(entry) = self.locks.find(id, &lock, &owner, ticket).cloned() else {
                        continue;
                    };
                    // The last claim of an entry stays: the multi-lock waits as a whole.
                    let Some((Some(rest), _)) = entry.end_wait(requested_in) else { continue };
                    self.end_attempt(id, &lock, &owner, number);
                    self.keep_claims(&lock, &entry, rest, ctx);
                }
            }
            None => {
                let queued = self.queued_of(&lock, &entry);
                return Reply::Acquired(EntryState::Waiting(vec![queued]));
            }
        }
        Reply::Cancelled
    }

    fn entry_to_cancel(&self, cancel: &Cancel) -> Option<(LockName, Arc<LockEntry>)> {
        let Cancel { lock, session, owner, ticket, .. } = cancel;
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return None };
        let moved = self.moved_entry(id, lock, owner, *ticket).map(|(there, _)| there);
        let lock = moved.unwrap_or_else(|| lock.clone());
        let entry = self.locks.find(id, &lock, owner, *ticket)?;
        (entry.ticket == *ticket).then(|| (lock, Arc::clone(entry)))
    }

    /// Whether a cancel would end a wait: the entry waits, and its owner has not repeated the call.
    pub fn would_cancel(&self, cancel: &Cancel) -> bool {
        let entry = self.entry_to_cancel(cancel).map(|(_, entry)| entry);
        entry.is_some_and(|entry| entry.waits() && entry.end_wait(cancel.requested_in).is_some())
    }

    /// Records a release by an owner without an entry: its attempt is over, or it has acknowledged a loss.
    fn release_again(
        &mut self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        target: ReleaseTarget,
        lost: bool,
    ) {
        match target {
            ReleaseTarget::Attempt(attempt) => self.end_attempt(session, lock, owner, attempt),
            ReleaseTarget::AnyEntry if lost => {
                self.end_attempts(session, lock, owner, Attempt::UNNAMED, true);
            }
            ReleaseTarget::AnyEntry | ReleaseTarget::Hold(_) | ReleaseTarget::Permits(..) => {}
        }
    }

    /// Rejects a release of a lock that another owner holds, unless this owner has released it before.
    fn check_released_before(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
    ) -> Result<(), Rejection> {
        let remembered = self.remembered_as(lock);
        let known = self.sessions.get(session);
        let released =
            known.is_some_and(|known| known.ended_attempts.has_released(&remembered, owner));
        match self.locks.get(lock).and_then(|lock| self.first_holder(lock, None)) {
            Some(holder) if !released => {
                Err(LockRejection::NotHolder { holder: Box::new(holder) }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn leave_queue(&mut self, lock: &LockName, entry: &LockEntry, ctx: &mut ApplyContext<'_>) {
        self.leave(&SessionLockKey::of(lock, entry), LossCause::Released, ctx);
        self.close_if_anonymous_and_idle(entry.session, ctx);
        self.grant_next(lock, ctx);
    }

    /// Ends one claim of an entry, or a change that waits. With its last claim the entry is removed, and the caller then
    /// grants the next waiter.
    fn leave_attempt(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        attempt: Attempt,
        ctx: &mut ApplyContext<'_>,
    ) -> Released {
        let Some(claims) = entry.claims.without(attempt) else {
            self.leave(&SessionLockKey::of(lock, entry), LossCause::Released, ctx);
            return Released { hold_count: 0, changed: true };
        };
        self.end_attempt(entry.session, lock, &entry.owner, attempt);
        let (hold_count, changed) = (claims.count(), claims != entry.claims);
        if changed {
            self.keep_claims(lock, entry, claims, ctx);
        }
        Released { hold_count, changed }
    }
}
