//! Release and cancel: leaving a lock or its queue.
//!
//! Owns what giving up means, and that doing it twice is doing it once. An anonymous session ends with its last place.

use std::sync::Arc;

use holdfast_types::{
    Attempt, Cancel, LockName, LossCause, Outcome, Owner, Rejection, Release, ReleaseTarget,
    Released, Reply, SessionEnd, SessionId, Ticket,
};

use crate::Machine;
use crate::apply::{Step, expired, no_session};
use crate::contender::Contender;
use crate::locks::Claim;
use crate::sessions::Named;

const NOTHING_TO_GIVE_UP: Reply = Reply::Released(Released { entries_left: 0, changed: false });

impl Machine {
    /// Gives a lock back, or leaves its queue. Of a lock that is cut into segments it is the one in which the caller has its
    /// place. A release that names an attempt or a token changes nothing if that is over already.
    pub(crate) fn release(&mut self, release: Release, step: &mut Step<'_>) -> Outcome {
        let Release { lock, session, owner, target } = release;
        let id = match self.sessions.named(&session) {
            Some(Named::Open(id)) => id,
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => return Err(expired(session)),
            ended @ (Some(Named::Ended { end: SessionEnd::Closed, .. }) | None) => {
                self.take_note_within(&session, &lock, step);
                return match target {
                    ReleaseTarget::Attempt(attempt) => {
                        self.end_attempt_unopened(session, attempt, step);
                        Ok(NOTHING_TO_GIVE_UP)
                    }
                    _ if ended.is_some() => Ok(NOTHING_TO_GIVE_UP),
                    ReleaseTarget::AnyPlace | ReleaseTarget::Hold(_) => Err(no_session(session)),
                };
            }
        };
        let lock = self.place_within(id, lock, &owner);
        let Some(contender) = self.locks.find(id, &lock, &owner, Ticket(0)).cloned() else {
            let lost = self.take_note_within(&session, &lock, step);
            return self.release_again(id, (lock, owner), target, lost);
        };
        match target {
            ReleaseTarget::Attempt(attempt) if contender.attempts.contains(attempt) => {
                let entries_left = self.leave_attempt(&lock, &contender, attempt, step);
                if entries_left == 0 {
                    self.after_leaving(&lock, id, step);
                }
                Ok(Reply::Released(Released { entries_left, changed: true }))
            }
            ReleaseTarget::Attempt(attempt) => {
                self.end_attempt(id, (&lock, &owner), attempt);
                let entries_left = contender.attempts.count();
                Ok(Reply::Released(Released { entries_left, changed: false }))
            }
            ReleaseTarget::Hold(token) if contender.token() != Some(token) => {
                Ok(NOTHING_TO_GIVE_UP)
            }
            ReleaseTarget::Hold(_) | ReleaseTarget::AnyPlace => {
                Ok(self.give_up(&lock, &contender, step))
            }
        }
    }

    /// Leaves a queue, unless the grant came first, the owner has asked again since, or the place is gone.
    pub(crate) fn cancel(&mut self, cancel: Cancel, step: &mut Step<'_>) -> Reply {
        let Cancel { lock, session, owner, ticket, asked } = cancel;
        let Some(Named::Open(id)) = self.sessions.named(&session) else {
            return Reply::Cancelled;
        };
        let found = self.locks.find(id, &lock, &owner, ticket).cloned();
        let Some(contender) = found.filter(|contender| contender.ticket == ticket) else {
            return Reply::Cancelled;
        };
        if !contender.waits()
            && let Some(grant) = self.grant_of(&lock, &contender, false)
        {
            return Reply::Granted(grant);
        }
        if contender.asked > asked
            && let Some(queued) = self.queued_of(&lock, &contender)
        {
            return Reply::Queued(queued);
        }
        if contender.converts() {
            self.stay_upgradable(&lock, &contender, step);
        } else {
            self.give_up(&lock, &contender, step);
        }
        Reply::Cancelled
    }

    /// Answers a release of an owner without a place: the owner acknowledges a loss, released the lock before, or never had a
    /// place.
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
            Some(holder) if !released => Err(Rejection::NotHolder { holder: Box::new(holder) }),
            Some(_) | None => Ok(NOTHING_TO_GIVE_UP),
        }
    }

    fn give_up(&mut self, lock: &LockName, contender: &Contender, step: &mut Step<'_>) -> Reply {
        self.leave(&Claim::of(lock, contender), LossCause::Released, step);
        self.after_leaving(lock, contender.session, step);
        Reply::Released(Released { entries_left: 0, changed: true })
    }

    fn after_leaving(&mut self, lock: &LockName, session: SessionId, step: &mut Step<'_>) {
        self.end_if_spent(session, step);
        self.grant_next(lock, step);
    }

    /// Ends one attempt of a place. The last one gives the place up; the caller then grants the next waiter. Returns how many
    /// attempts still keep the place.
    pub(crate) fn leave_attempt(
        &mut self,
        lock: &LockName,
        contender: &Arc<Contender>,
        attempt: Attempt,
        step: &mut Step<'_>,
    ) -> u32 {
        if contender.attempts.count() == 1 {
            self.leave(&Claim::of(lock, contender), LossCause::Released, step);
            return 0;
        }
        self.end_attempt(contender.session, (lock, &contender.owner), attempt);
        self.amend(lock, contender, |contender| contender.attempts.remove(attempt)).attempts.count()
    }
}
