//! The model's holds that end or change hands otherwise than by being given back.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::place;
use super::{Model, Node, Place, refused};

impl Model {
    /// An operator takes places away.
    pub(super) fn break_places(&mut self, breaking: Break) -> Reply {
        let Break { lock, what, reason: _ } = breaking;
        let meant = |node: &&Node| match what {
            BreakTarget::Holders => place(node).hold.is_some(),
            BreakTarget::Ticket(ticket) => node.stat.czxid.0 == ticket.0,
            BreakTarget::Sequence(sequence) => place(node).sequence == sequence,
            BreakTarget::Token(token) => place(node).token() == Some(token.0),
        };
        let broken: Vec<Node> = self.queue(&lock).into_iter().filter(meant).cloned().collect();
        for node in &broken {
            self.leave(&node.path, LossCause::Broken);
            self.end_if_spent(node.stat.ephemeral_owner.cast_unsigned());
        }
        self.settle(&lock);
        Reply::Broken { places: broken.len() as u32 }
    }

    /// Holders are asked to give a lock back. A request that wants it sooner, or takes it away where the one before did
    /// not, takes the place of that; others change nothing.
    pub(super) fn ask_release(&mut self, ask: RequestRelease) -> Outcome {
        let RequestRelease { lock, holder, reason, deadline_ms, revoke } = ask;
        if deadline_ms == 0 || deadline_ms > RequestRelease::DEADLINE_MAX_MS {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Deadline });
        }
        let asked: Vec<String> = match holder {
            Some(who) => vec![self.holder_of(&lock, &who, None)?.path.clone()],
            None => self.holders(&lock).into_iter().map(|node| node.path.clone()).collect(),
        };
        let (requested_at, deadline) = (Stamp(self.now), Stamp(self.now + deadline_ms));
        for path in &asked {
            let hold = self.find_mut(path).place.as_mut().unwrap().hold.as_mut().unwrap();
            let stands = hold.asked_for.as_ref().is_some_and(|before| {
                (before.revoke && !revoke)
                    || (before.revoke == revoke && before.deadline <= deadline)
            });
            if !stands {
                let request =
                    ReleaseRequest { reason: reason.clone(), requested_at, deadline, revoke };
                hold.asked_for = Some(request);
            }
        }
        Ok(Reply::ReleaseRequested { holders: asked.len() as u32 })
    }

    /// A holder gives what it holds to another live session: nobody gets in between, and the token is a new one.
    pub(super) fn hand_over(&mut self, hand_over: HandOver) -> Outcome {
        let Some(id) = self.live(&hand_over.to.0).map(|session| session.id) else {
            return Err(self.gone(hand_over.to.0));
        };
        let HandOver { lock, to: (_, taking), token, .. } = &hand_over;
        let request = token.map(|token| format!("hand-over {lock} {taking} {token}"));
        if let Some(first) = self.recipes.recall(SessionId(id), request.as_ref()) {
            return first;
        }
        let outcome = self.hand_over_once(hand_over, id);
        if outcome.is_ok() {
            self.recipes.remember(SessionId(id), request.as_ref(), &outcome);
        }
        outcome
    }

    fn hand_over_once(&mut self, hand_over: HandOver, id: u64) -> Outcome {
        let HandOver { lock, from, to, token } = hand_over;
        let giver = self.holder_of(&lock, &from, token)?.clone();
        let taker = self.own_place(&lock, id, &to.1).cloned();
        let before = self.clone();
        let to_itself = taker.as_ref().is_some_and(|taker| taker.path == giver.path);
        let path = match taker {
            Some(taker) if to_itself => taker.path,
            Some(taker) => self.hand_to_waiter(&lock, &giver, &taker)?,
            None => self.hand_to_newcomer(&lock, &giver, (id, to))?,
        };
        self.end_if_spent(giver.stat.ephemeral_owner.cast_unsigned());
        self.settle(&lock);
        if !to_itself && self.policy(&lock).detect_deadlocks && self.closes_a_circle(&path) {
            *self = before;
            return Err(LockRejection::Deadlock { cycle: Vec::new() }.into());
        }
        Ok(Reply::HandedOver(self.grant(&lock, self.find(&path).unwrap(), to_itself)))
    }

    fn holder_of(
        &self,
        lock: &LockName,
        (session, owner): &(SessionName, Owner),
        token: Option<FencingToken>,
    ) -> Result<&Node, Rejection> {
        let Some(live) = self.live(session) else { return Err(self.gone(session.clone())) };
        let own = self.own_place(lock, live.id, owner);
        let is_meant = |node: &&Node| {
            let holds = place(node).hold.as_ref().map(|hold| hold.token);
            holds.is_some() && token.is_none_or(|token| holds == Some(token.0))
        };
        own.filter(is_meant).ok_or_else(|| match self.other_holder(lock, "") {
            Some(holder) => Rejection::Lock(LockRejection::NotHolder { holder: holder.into() }),
            None => Rejection::Lock(LockRejection::NotHeld),
        })
    }

    /// The one that waits goes before others, but not before a client of the tree, and not out of several at once.
    fn hand_to_waiter(
        &mut self,
        lock: &LockName,
        giver: &Node,
        taker: &Node,
    ) -> Result<String, Rejection> {
        let wants = place(taker);
        if wants.hold.is_some() {
            return Err(
                LockRejection::AlreadyHolds { holder: self.holder_view(taker).into() }.into()
            );
        }
        if !wants.bundle.is_empty() {
            return Err(LockRejection::AlreadyQueued { lock: lock.clone() }.into());
        }
        self.fits_instead_of(lock, giver, wants)?;
        let waiters = self.waiters(lock);
        let mut ahead = waiters.into_iter().take_while(|node| node.path != taker.path).map(place);
        let is_passed = |other: &Place| other.fixed && other.bundle.is_empty();
        if ahead.any(|other| wants.fixed || is_passed(other)) {
            return Err(LockRejection::CannotOvertake.into());
        }
        self.leave(&giver.path, LossCause::HandedOver);
        self.hand_to(lock, taker);
        Ok(taker.path.clone())
    }

    /// It gets a place with the number of the one that goes, and holds as that one did.
    fn hand_to_newcomer(
        &mut self,
        lock: &LockName,
        giver: &Node,
        (id, (session, owner)): (u64, (SessionName, Owner)),
    ) -> Result<String, Rejection> {
        let max = self.limits.queue_entries_per_session_max;
        if self.places(id) >= max {
            return Err(refused(Bound::QueueEntriesPerSession, max));
        }
        let before = place(giver).clone();
        let takes = Place {
            owner: owner.clone(),
            asked: self.revision,
            wait_ms: None,
            attempts: vec![Attempt::UNNAMED],
            mode: before.held,
            hold: None,
            priority: 0,
            reentrant: true,
            value: None,
            fixed: false,
            bundle: Vec::new(),
            ..before
        };
        self.fits_instead_of(lock, giver, &takes)?;
        let directory = format!("/locks/{lock}");
        self.anyone_may(&directory, Perms::CREATE)?;
        let mut path = format!("{directory}/lock-{:010}", takes.sequence);
        // A client of the tree would take it for its own.
        let own = path == giver.path && !before.fixed;
        if self.find(&path).is_some() && !own {
            path = format!("{directory}/lock-r{}-{:010}", self.revision, takes.sequence);
        }
        self.leave(&giver.path, LossCause::HandedOver);
        self.live_mut(&session).given_up.retain(|(l, o)| l != lock || *o != owner);
        self.add(&path, id as i64, &[], Some(takes));
        let node = self.find(&path).unwrap().clone();
        self.hand_to(lock, &node);
        Ok(path)
    }

    /// A hold that is handed over is a grant like any other: whoever takes it can hold beside those who stay.
    fn fits_instead_of(
        &self,
        lock: &LockName,
        giver: &Node,
        taker: &Place,
    ) -> Result<(), Rejection> {
        let mut without = self.clone();
        without.find_mut(&giver.path).place = None;
        match self.policy(lock).limit {
            _ if without.has_room(lock, taker.ask()) => Ok(()),
            Some(_) => {
                Err(Rejection::Lock(LockRejection::PermitsMismatch { permits: taker.permits }))
            }
            None => Err(Rejection::Lock(LockRejection::ModeConflict { mode: taker.mode })),
        }
    }
}
