//! Release and cancel: an entry leaves the lock or its queue. A repeated call has no second effect.

use std::sync::Arc;

use holdfast_types::{
    Attempt, Cancel, LockName, LockRejection, LossCause, Outcome, Owner, Rejection, Release,
    ReleaseTarget, Released, Reply, SessionEnd, SessionId, Ticket,
};

use crate::Machine;
use crate::apply::{ApplyContext, expired, no_session};
use crate::lock::index::SessionLockKey;
use crate::lock::lock_entry::LockEntry;
use crate::session::store::KnownSession;

const NOTHING_TO_GIVE_UP: Reply = Reply::Released(Released { hold_count: 0, changed: false });

impl Machine {
    /// Releases a lock, or leaves its queue. Of a sharded lock it is the shard in which the owner has its entry. A release that
    /// names an attempt or a token changes nothing if that is over already.
    pub(crate) fn release(&mut self, release: Release, ctx: &mut ApplyContext<'_>) -> Outcome {
        let Release { lock, session, owner, target } = release;
        let id = match self.sessions.named(&session) {
            Some(KnownSession::Open(id)) => id,
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(session));
            }
            ended @ (Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None) => {
                self.acknowledge_losses_in(&session, &lock, ctx);
                return match target {
                    ReleaseTarget::Attempt(attempt) => {
                        self.end_attempt_unopened(session, attempt, ctx);
                        Ok(NOTHING_TO_GIVE_UP)
                    }
                    _ if ended.is_some() => Ok(NOTHING_TO_GIVE_UP),
                    ReleaseTarget::AnyPlace | ReleaseTarget::Hold(_) => Err(no_session(session)),
                };
            }
        };
        let lock = self.lock_of_owner(id, lock, &owner);
        let Some(entry) = self.locks.find(id, &lock, &owner, Ticket(0)).cloned() else {
            let lost = self.acknowledge_losses_in(&session, &lock, ctx);
            return self.release_again(id, (lock, owner), target, lost);
        };
        match target {
            ReleaseTarget::Attempt(attempt) if entry.attempts.contains(attempt) => {
                let hold_count = self.leave_attempt(&lock, &entry, attempt, ctx);
                if hold_count == 0 {
                    self.after_leaving(&lock, id, ctx);
                }
                Ok(Reply::Released(Released { hold_count, changed: true }))
            }
            ReleaseTarget::Attempt(attempt) => {
                self.end_attempt(id, (&lock, &owner), attempt);
                let hold_count = entry.attempts.count();
                Ok(Reply::Released(Released { hold_count, changed: false }))
            }
            ReleaseTarget::Hold(token) if entry.token() != Some(token) => Ok(NOTHING_TO_GIVE_UP),
            ReleaseTarget::Hold(_) | ReleaseTarget::AnyPlace => {
                Ok(self.give_up(&lock, &entry, ctx))
            }
        }
    }

    /// Leaves a queue, unless the entry was granted, was asked for again since, or is gone.
    pub(crate) fn cancel(&mut self, cancel: Cancel, ctx: &mut ApplyContext<'_>) -> Reply {
        let Cancel { lock, session, owner, ticket, asked } = cancel;
        let Some(KnownSession::Open(id)) = self.sessions.named(&session) else {
            return Reply::Cancelled;
        };
        let found = self.locks.find(id, &lock, &owner, ticket).cloned();
        let Some(entry) = found.filter(|entry| entry.ticket == ticket) else {
            return Reply::Cancelled;
        };
        if !entry.waits()
            && let Some(grant) = self.grant_of(&lock, &entry, false)
        {
            return Reply::Granted(grant);
        }
        if entry.asked > asked
            && let Some(queued) = self.queued_of(&lock, &entry)
        {
            return Reply::Queued(queued);
        }
        if entry.converts() {
            self.cancel_upgrade(&lock, &entry, ctx);
        } else {
            self.give_up(&lock, &entry, ctx);
        }
        Reply::Cancelled
    }

    /// Replies to a release of an owner without an entry: it acknowledges a loss, released before, or never had an entry.
    fn release_again(
        &mut self,
        session: SessionId,
        (lock, owner): (LockName, Owner),
        target: ReleaseTarget,
        lost: bool,
    ) -> Outcome {
        let remembered = self.remembered_as(&lock);
        let Some(known) = self.sessions.get_mut(session) else { return Ok(NOTHING_TO_GIVE_UP) };
        match target {
            ReleaseTarget::Attempt(attempt) => {
                known.left.end_one(&remembered, &owner, attempt);
                return Ok(NOTHING_TO_GIVE_UP);
            }
            ReleaseTarget::Hold(_) => return Ok(NOTHING_TO_GIVE_UP),
            ReleaseTarget::AnyPlace if lost => {
                known.left.end(&remembered, &owner, Attempt::UNNAMED, true);
                return Ok(NOTHING_TO_GIVE_UP);
            }
            ReleaseTarget::AnyPlace => {}
        }
        let released = known.left.has_released(&remembered, &owner);
        let holder = self.locks.get(&lock).and_then(|lock| self.first_holder(lock, None));
        match holder {
            Some(holder) if !released => {
                Err(Rejection::Lock(LockRejection::NotHolder { holder: Box::new(holder) }))
            }
            Some(_) | None => Ok(NOTHING_TO_GIVE_UP),
        }
    }

    fn give_up(&mut self, lock: &LockName, entry: &LockEntry, ctx: &mut ApplyContext<'_>) -> Reply {
        self.leave(&SessionLockKey::of(lock, entry), LossCause::Released, ctx);
        self.after_leaving(lock, entry.session, ctx);
        Reply::Released(Released { hold_count: 0, changed: true })
    }

    fn after_leaving(&mut self, lock: &LockName, session: SessionId, ctx: &mut ApplyContext<'_>) {
        self.close_if_anonymous_and_idle(session, ctx);
        self.grant_next(lock, ctx);
    }

    /// Ends one attempt of an entry. With the last attempt the entry leaves; the caller then grants the next waiter. Returns how
    /// many attempts still keep the entry.
    pub(crate) fn leave_attempt(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        attempt: Attempt,
        ctx: &mut ApplyContext<'_>,
    ) -> u32 {
        if entry.attempts.count() == 1 {
            self.leave(&SessionLockKey::of(lock, entry), LossCause::Released, ctx);
            return 0;
        }
        self.end_attempt(entry.session, (lock, &entry.owner), attempt);
        self.amend(lock, entry, |entry| entry.attempts.remove(attempt)).attempts.count()
    }
}
