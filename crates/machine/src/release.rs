//! Release and cancel: leaving a lock or its queue.
//!
//! Owns what giving up means, and that doing it twice is doing it once. An anonymous session ends with its last place.

use std::sync::Arc;

use holdfast_types::{
    Cancel, EntryId, LockName, LossCause, Outcome, Owner, Rejection, Release, Released, Reply,
    SessionEnd, SessionId, Ticket,
};

use crate::Machine;
use crate::apply::{Step, expired, no_session};
use crate::contender::{Contender, Leaving};
use crate::locks::Claim;
use crate::plant::Plant;
use crate::sessions::Named;

const NOTHING_TO_GIVE_UP: Reply = Reply::Released(Released { entries_left: 0, changed: false });

impl Machine {
    /// Gives a lock back, or leaves its queue; with an entry, only that one leaves. Of a lock that is cut into segments it is
    /// the one in which the caller has its place.
    pub(crate) fn release(&mut self, release: Release, step: &mut Step<'_>) -> Outcome {
        let Release { lock, session, owner, entry } = release;
        let id = match self.sessions.named(&session) {
            Some(Named::Open(id)) => id,
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => return Err(expired(session)),
            Some(Named::Ended { end: SessionEnd::Closed, .. }) => {
                self.take_note_within(&session, &lock, step);
                return Ok(NOTHING_TO_GIVE_UP);
            }
            None => return Err(no_session(session)),
        };
        let lock = self.place_within(id, lock, &owner);
        let Some(contender) = self.locks.find(id, &lock, &owner, Ticket(0)).cloned() else {
            let lost = self.take_note_within(&session, &lock, step);
            return self.release_again(id, lock, owner, lost);
        };
        let Some(entry) = entry else { return Ok(self.give_up(&lock, &contender, step)) };
        match contender.entries.leaving(&entry) {
            Leaving::Last => Ok(self.give_up(&lock, &contender, step)),
            Leaving::Left => Ok(self.leave_once(&lock, &contender, &entry)),
            Leaving::LeftBefore => {
                let entries_left = contender.entries.count();
                Ok(Reply::Released(Released { entries_left, changed: false }))
            }
            Leaving::Unknown => Err(Rejection::NoSuchEntry { entry }),
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
            && !self.planted(Plant::CancelBlind)
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

    /// The owner has no place: it lost it and says now that it knows, it gave it up before, the lock is free, or it never
    /// had one.
    fn release_again(
        &mut self,
        session: SessionId,
        lock: LockName,
        owner: Owner,
        lost: bool,
    ) -> Outcome {
        if lost && let Some(session) = self.sessions.get_mut(session) {
            session.gave_up(lock, owner);
            return Ok(NOTHING_TO_GIVE_UP);
        }
        let gave_up = self.sessions.get(session).is_some_and(|s| s.has_given_up(&lock, &owner));
        let holder = self.locks.get(&lock).and_then(|lock| self.first_holder(lock, None));
        match holder {
            Some(holder) if !gave_up => Err(Rejection::NotHolder { holder: Box::new(holder) }),
            Some(_) | None => Ok(NOTHING_TO_GIVE_UP),
        }
    }

    fn give_up(&mut self, lock: &LockName, contender: &Contender, step: &mut Step<'_>) -> Reply {
        self.leave(&Claim::of(lock, contender), LossCause::Released, step);
        self.end_if_spent(contender.session, step);
        self.grant_next(lock, step);
        Reply::Released(Released { entries_left: 0, changed: true })
    }

    fn leave_once(
        &mut self,
        lock: &LockName,
        contender: &Arc<Contender>,
        entry: &EntryId,
    ) -> Reply {
        let amended = self.amend(lock, contender, |contender| contender.entries.leave(entry));
        let entries_left = amended.entries.count();
        Reply::Released(Released { entries_left, changed: true })
    }
}
