//! A hold that ends or changes hands otherwise than by being given back: broken by an operator, asked for, handed over.
//!
//! Owns that a hand-over leaves no gap: the place that it goes to stands before everybody who waits. Clients of the tree
//! judge by the order of the znodes alone, so a place that is made for it gets the number of the one that gives it, and
//! a place in the queue is given it only if no such client waits before it. Refuses to know who may ask for any of this.
//! Bounds: as many steps as the lock has places.

use std::sync::Arc;

use holdfast_types::{
    AskRelease, Bound, Break, Broken, Data, Event, FencingToken, HandOver, LockName, LossCause,
    OutOfBounds, Outcome, Owner, Perms, Rejection, ReleaseRequest, Reply, RequestId, SessionEnd,
    SessionId, SessionName, Stamp, Ticket, ZnodePath,
};

use crate::Machine;
use crate::acquire::ANYBODY;
use crate::apply::{Step, expired, limit_reached, no_session};
use crate::attempts::Attempts;
use crate::contender::{Ask, Contender, Terms};
use crate::create::{child_path, room_in_counter};
use crate::locks::{Claim, Lock};
use crate::memo;
use crate::rank::Rank;
use crate::sessions::Named;

impl Machine {
    /// Takes places away, and grants the lock on.
    pub(crate) fn break_places(&mut self, breaking: Break, step: &mut Step<'_>) -> Reply {
        let Break { lock, what, reason } = breaking;
        let places = self.locks.get(&lock).map_or(Vec::new(), |indexed| indexed.places(what));
        for place in &places {
            step.emit(Event::Broken {
                lock: lock.clone(),
                session: place.session_name.clone(),
                owner: place.owner.clone(),
                ticket: place.ticket,
                token: place.token(),
                reason: reason.clone(),
            });
            self.leave(&Claim::of(&lock, place), LossCause::Broken, step);
            self.end_if_spent(place.session, step);
        }
        self.grant_next(&lock, step);
        Reply::Broken { places: u32::try_from(places.len()).unwrap_or(u32::MAX) }
    }

    /// Asks holders to give the lock back.
    pub(crate) fn ask_release(&mut self, ask: AskRelease, step: &mut Step<'_>) -> Outcome {
        let AskRelease { lock, holder, reason, deadline_ms, revoke } = ask;
        if !(1..=AskRelease::DEADLINE_MAX_MS).contains(&deadline_ms) {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Deadline });
        }
        let holders: Vec<Arc<Contender>> = match holder {
            Some((session, owner)) => vec![self.holder_of(&lock, &session, &owner, None)?],
            None => {
                self.locks.get(&lock).map_or(Vec::new(), |l| l.holders.iter().cloned().collect())
            }
        };
        let deadline = Stamp(step.now.0.saturating_add(deadline_ms));
        let request = ReleaseRequest { reason, asked_at: step.now, deadline, revoke };
        for holder in &holders {
            self.ask_holder(&lock, holder, request.clone(), step);
        }
        Ok(Reply::ReleaseAsked { holders: u32::try_from(holders.len()).unwrap_or(u32::MAX) })
    }

    fn ask_holder(
        &mut self,
        lock: &LockName,
        holder: &Arc<Contender>,
        request: ReleaseRequest,
        step: &mut Step<'_>,
    ) {
        let before = holder.asked_for();
        let (Some(token), true) = (holder.token(), before.is_none_or(|b| is_sterner(&request, b)))
        else {
            return;
        };
        self.amend(lock, holder, |holder| {
            if let Some(hold) = &mut holder.hold {
                hold.asked_for = Some(Box::new(request.clone()));
            }
        });
        step.emit(Event::ReleaseAsked {
            lock: lock.clone(),
            session: holder.session_name.clone(),
            owner: holder.owner.clone(),
            ticket: holder.ticket,
            token,
            request,
        });
    }

    /// Hands a hold to another live session. If the call names the token, the receiving session remembers the answer, and a
    /// copy of the call gets it again.
    pub(crate) fn hand_over(&mut self, hand_over: HandOver, step: &mut Step<'_>) -> Outcome {
        let to = self.live(&hand_over.to.0)?;
        let token = hand_over.token.and_then(|token| RequestId::new(token.to_string()).ok());
        let scope = ["hand-over", hand_over.lock.as_str(), hand_over.to.1.as_str()];
        let request = memo::scoped(&scope, token.as_ref());
        let remembered = |request| self.sessions.get(to)?.memo.recall(request).cloned();
        if let Some(first) = request.as_ref().and_then(remembered) {
            return first;
        }
        let granted = self.hand_over_once(hand_over, to, step)?;
        let count_max = self.limits.memo_per_session_max;
        if let Some(request) = request {
            self.sessions.remember(to, request, Ok(granted.clone()), count_max);
        }
        Ok(granted)
    }

    fn hand_over_once(
        &mut self,
        hand_over: HandOver,
        to: SessionId,
        step: &mut Step<'_>,
    ) -> Outcome {
        let HandOver { lock, from: (giver, owner), to: (taker, taking), token } = hand_over;
        let holder = self.holder_of(&lock, &giver, &owner, token)?;
        let found = self.locks.find(to, &lock, &taking, Ticket(0)).cloned();
        if let Some(itself) = found.as_ref().filter(|found| found.path == holder.path) {
            let grant = self.grant_of(&lock, itself, true);
            return grant.map(Reply::HandedOver).ok_or(Rejection::NobodyHolds);
        }
        if let Some(other) = found.as_ref().and_then(|found| self.holder_view(found)) {
            return Err(Rejection::HoldsAlready { holder: Box::new(other) });
        }
        self.room_for_tokens(1)?;
        self.undo_if_rejected(step, |machine, step| {
            let granted = match found {
                Some(waiter) => machine.hand_to_waiter(&lock, &holder, &waiter, step)?,
                None => machine.hand_to_newcomer(&lock, &holder, (to, taker, taking), step)?,
            };
            machine.end_if_spent(holder.session, step);
            machine.grant_next(&lock, step);
            machine.refuse_handed_round(&lock, &granted)?;
            let grant = machine.grant_of(&lock, &granted, false);
            grant.map(Reply::HandedOver).ok_or(Rejection::NobodyHolds)
        })
    }

    fn live(&self, session: &SessionName) -> Result<SessionId, Rejection> {
        match self.sessions.named(session) {
            Some(Named::Open(id)) => Ok(id),
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => Err(expired(session.clone())),
            Some(Named::Ended { end: SessionEnd::Closed, .. }) | None => {
                Err(no_session(session.clone()))
            }
        }
    }

    /// The hold of a live session's owner; with a token that hold alone.
    fn holder_of(
        &self,
        lock: &LockName,
        session: &SessionName,
        owner: &Owner,
        token: Option<FencingToken>,
    ) -> Result<Arc<Contender>, Rejection> {
        let id = self.live(session)?;
        let is_meant = |place: &&Arc<Contender>| {
            place.hold.is_some() && (token.is_none() || place.token() == token)
        };
        let place = self.locks.find(id, lock, owner, Ticket(0)).filter(is_meant);
        let first = || self.locks.get(lock).and_then(|lock| self.first_holder(lock, None));
        place.cloned().ok_or_else(|| match first() {
            Some(holder) => Rejection::NotHolder { holder: Box::new(holder) },
            None => Rejection::NobodyHolds,
        })
    }

    /// Its place in the queue is used, as it asked for it.
    fn hand_to_waiter(
        &mut self,
        lock: &LockName,
        holder: &Contender,
        waiter: &Arc<Contender>,
        step: &mut Step<'_>,
    ) -> Result<Arc<Contender>, Rejection> {
        let Some(indexed) = self.locks.get(lock) else { return Err(Rejection::NobodyHolds) };
        if !waiter.bundle().is_empty() {
            return Err(Rejection::HasPlace { lock: lock.clone() });
        }
        indexed.refuse_instead_of(holder, waiter.ask())?;
        if indexed.is_overtaking(waiter) {
            return Err(Rejection::CannotOvertake);
        }
        self.give_away(lock, holder, step);
        self.locks.waits.leave(waiter);
        self.locks.claims.remove(&Claim::of(lock, waiter));
        self.locks.change(lock, |indexed| indexed.take(&waiter.rank));
        let granted = self.handed(lock, (**waiter).clone(), step);
        let granted = Arc::new(granted);
        self.locks.change(lock, |indexed| indexed.put(Arc::clone(&granted)));
        self.locks.claims.insert(Claim::of(lock, &granted));
        self.note_contender(&granted);
        self.granted(lock, &granted, step);
        Ok(granted)
    }

    /// It has no place yet: it gets one with the number of the place that goes.
    fn hand_to_newcomer(
        &mut self,
        lock: &LockName,
        holder: &Contender,
        (to, session, owner): (SessionId, SessionName, Owner),
        step: &mut Step<'_>,
    ) -> Result<Arc<Contender>, Rejection> {
        let max = self.limits.contenders_per_session_max;
        if self.sessions.get(to).is_some_and(|session| session.contenders >= max) {
            return Err(limit_reached(Bound::ContendersPerSession, max));
        }
        let Some(indexed) = self.locks.get(lock) else { return Err(Rejection::NobodyHolds) };
        let mode = holder.hold.as_ref().map_or(holder.mode, |hold| hold.mode);
        let ask = Ask { mode, permits: holder.terms().permits, priority: 0, fixed: false };
        indexed.refuse_instead_of(holder, ask)?;
        let directory = indexed.directory.clone();
        room_in_counter(self.allowed(&directory, Perms::CREATE, ANYBODY)?.counter())?;
        let path = self.path_instead_of(&directory, holder, step)?;
        self.give_away(lock, holder, step);
        let terms = Terms {
            priority: 0,
            reentrant: true,
            value: None,
            bundle: None,
            ..holder.terms().clone()
        };
        let attempts = Attempts::of(None);
        let new = Contender::new(holder.sequence(), to, session, owner, attempts, step);
        let new = Contender { path, mode, terms: terms.kept(), ..new };
        let granted = self.handed(lock, new, step);
        Ok(self.put_in(lock, &directory, (Data::default(), None), granted, step))
    }

    fn give_away(&mut self, lock: &LockName, holder: &Contender, step: &mut Step<'_>) {
        self.leave(&Claim::of(lock, holder), LossCause::HandedOver, step);
    }

    /// Where the znode of a place goes that has the number of another one that goes.
    fn path_instead_of(
        &self,
        directory: &ZnodePath,
        holder: &Contender,
        step: &Step<'_>,
    ) -> Result<ZnodePath, Rejection> {
        let path = child_path(directory, &format!("lock-{:010}", holder.sequence()))?;
        // A client of the tree would take the znode of another for its own, if it had the same name.
        let is_free = !self.tree.contains(&path) || (path == holder.path && !holder.fixed);
        if is_free {
            return Ok(path);
        }
        let name = format!("lock-r{}-{:010}", step.revision, holder.sequence());
        let path = child_path(directory, &name)?;
        if self.tree.contains(&path) { Err(Rejection::NodeExists { path }) } else { Ok(path) }
    }

    /// A contender as the holder that follows another one: before everybody who waits.
    fn handed(&mut self, lock: &LockName, contender: Contender, step: &Step<'_>) -> Contender {
        let hold = self.hold_for(lock, &contender, step).map(Box::new);
        let rank = Rank::before_all(contender.sequence());
        Contender { rank, hold, ..contender }
    }
}

impl Lock {
    /// The places that an operator means.
    fn places(&self, what: Broken) -> Vec<Arc<Contender>> {
        let all = self.holders.iter().chain(self.waiters.values());
        let meant = all.filter(|place| match what {
            Broken::Holders => place.hold.is_some(),
            Broken::Ticket(ticket) => place.ticket == ticket,
            Broken::Sequence(sequence) => place.sequence() == sequence,
            Broken::Token(token) => place.token() == Some(token),
        });
        meant.cloned().collect()
    }

    /// Refuses whoever cannot hold beside those who stay, if it holds instead of this one: a hold that is handed over is
    /// a grant like any other.
    fn refuse_instead_of(&self, holder: &Contender, ask: Ask) -> Result<(), Rejection> {
        let mut without = self.clone();
        without.holders.remove(holder.sequence());
        match self.policy().limit {
            _ if without.has_room_for(ask) => Ok(()),
            Some(_) => Err(Rejection::PermitsMismatch { permits: ask.permits }),
            None => Err(Rejection::ModeConflict { mode: ask.mode }),
        }
    }

    /// Whether a waiter that were to hold now would go before a client of the tree, or be one that others go before.
    fn is_overtaking(&self, waiter: &Contender) -> bool {
        let mut ahead = self.waiters.range(..waiter.rank).map(|(_, ahead)| ahead);
        if waiter.fixed {
            ahead.next().is_some()
        } else {
            ahead.any(|ahead| ahead.fixed && ahead.bundle().is_empty())
        }
    }
}

/// Whether a request asks for more than the one before: only such a one takes its place, so that whoever repeats itself
/// does not put the deadline off.
fn is_sterner(new: &ReleaseRequest, before: &ReleaseRequest) -> bool {
    match (new.revoke, before.revoke) {
        (true, false) => true,
        (false, true) => false,
        (true, true) | (false, false) => new.deadline < before.deadline,
    }
}
