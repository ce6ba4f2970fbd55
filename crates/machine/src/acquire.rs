//! Acquire: a renewal, the same place again, or a new place at the end of the queue.
//!
//! Owns what asking for a lock means. Everything is checked before anything changes, so that a refused acquire leaves
//! nothing behind, not even the session it would have opened. A new place is a new child, so the access list of the
//! lock's directory must let everybody create. Refuses to know how a place is granted (`grant.rs`).

use std::sync::Arc;

use holdfast_types::{
    Acquire, Bound, Data, Event, FencingToken, LockName, Mode, OpenSession, Outcome, Owner, Perms,
    Rejection, Reply, SessionEnd, SessionId, SessionName, Stamp, Ticket, ZnodePath,
};

use crate::Machine;
use crate::apply::{Step, expired, limit_reached};
use crate::attempts::Attempts;
use crate::contender::{Ask, Contender, Terms};
use crate::convert::Conversion;
use crate::create::{child_path, room_in_counter};
use crate::deadlock::Wanted;
use crate::locks::Lock;
use crate::multi::By;
use crate::policy::check_bounds;
use crate::rank::Rank;
use crate::sessions::Named;

/// Our own door shows no identities: it may do what the lists let everybody do.
pub(crate) const ANYBODY: By<'_> = By { session: None, shown: &[] };

/// Where a new contender will stand: what is missing of its directory, its znode and its number there.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) directory: ZnodePath,
    /// Directories to be made, parents first.
    pub(crate) missing: Vec<ZnodePath>,
    pub(crate) path: ZnodePath,
    pub(crate) sequence: u64,
}

impl Machine {
    /// Takes a place in the queue of a lock, or of one of its segments, and the lock itself if it is free.
    pub(crate) fn acquire(&mut self, mut acquire: Acquire, step: &mut Step<'_>) -> Outcome {
        check_bounds(&acquire)?;
        let session = match self.sessions.named(&acquire.open.session) {
            Some(Named::Open(id)) => Some(id),
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(acquire.open.session));
            }
            Some(Named::Ended { end: SessionEnd::Closed, .. }) | None => None,
        };
        let remembered = match acquire.segments {
            Some(_) => acquire.lock.clone(),
            None => self.remembered_as(&acquire.lock),
        };
        let cut = self.choose_segment(session, &mut acquire, step.now)?;
        let place = |id| self.locks.find(id, &acquire.lock, &acquire.owner, Ticket(0)).cloned();
        let place = session.and_then(place);
        let keeps =
            |place: &Arc<Contender>| acquire.attempt.is_some_and(|a| place.attempts.contains(a));
        if !place.as_ref().is_some_and(keeps) {
            let place = (&remembered, &acquire.owner);
            self.check_attempt(&acquire.open.session, place, acquire.attempt)?;
        }
        let reply = match place {
            Some(contender) => self.acquire_again(&contender, acquire, step),
            None => self.join(session, acquire, step),
        }?;
        if let Some(cut) = cut {
            self.remember_cut(cut);
        }
        Ok(reply)
    }

    /// The owner holds or waits already: it keeps its token or its place, and the session shows life.
    fn acquire_again(
        &mut self,
        contender: &Arc<Contender>,
        acquire: Acquire,
        step: &mut Step<'_>,
    ) -> Outcome {
        self.refuse_other_terms(contender, &acquire)?;
        if contender.hold.is_none() && !contender.bundle().is_empty() {
            return Err(Rejection::HasPlace { lock: acquire.lock });
        }
        let conversion = self.conversion(&acquire.lock, contender, acquire.mode)?;
        let Acquire { lock, open, attempt, wait, wait_ms, reentrant, value, .. } = acquire;
        let waits = match conversion {
            Conversion::Stay => contender.waits(),
            Conversion::Down(_) => false,
            Conversion::Up => true,
        };
        let alone = conversion == Conversion::Up
            && self.locks.get(&lock).is_some_and(|lock| lock.holders.len() == 1);
        if !wait && waits && !alone {
            // Asking without waiting says nothing about the place that another call waits for.
            return Err(self.busy_for(&lock, contender));
        }
        let attempt = attempt.filter(|attempt| !contender.attempts.contains(*attempt));
        if attempt.is_some() {
            self.refuse_to_be_entered(contender, reentrant)?;
        }
        if conversion == Conversion::Up && !alone {
            let wanted = [(lock.clone(), Wanted::Upgrade(contender.sequence()))];
            self.refuse_deadlock(Some(contender.session), &contender.owner, &wanted)?;
        }
        let value = value.filter(|value| contender.terms().value.as_ref() != Some(value));
        self.touch_by_name(contender.session, open.ttl, open.labels, step);
        if !waits && conversion == Conversion::Stay && attempt.is_none() && value.is_none() {
            return self.answer(&lock, contender, true);
        }
        let shows_another = value.is_some();
        let current = self.amend(&lock, contender, |contender| {
            if waits {
                (contender.asked, contender.wait_ms) = (step.revision, wait_ms);
            }
            if let Some(attempt) = attempt {
                contender.attempts.insert(attempt);
            }
            if value.is_some() {
                contender.terms = Terms { value, ..contender.terms().clone() }.kept();
            }
            convert(contender, conversion);
        });
        if let (true, Some(grant)) = (shows_another, self.grant_of(&lock, &current, true)) {
            step.emit(Event::ValueSet(grant));
        }
        self.after_conversion(&lock, current, conversion, step)
    }

    /// Grants what a conversion makes possible, and answers with the place as it is then.
    fn after_conversion(
        &mut self,
        lock: &LockName,
        current: Arc<Contender>,
        conversion: Conversion,
        step: &mut Step<'_>,
    ) -> Outcome {
        match conversion {
            Conversion::Stay => return self.answer(lock, &current, true),
            Conversion::Down(_) => self.converted(lock, &current, step),
            Conversion::Up => self.upgrade_if_alone(lock, step),
        }
        let now = self.locks.get(lock).and_then(|lock| lock.contender(&current.rank).cloned());
        self.answer(lock, &now.unwrap_or(current), conversion != Conversion::Up)
    }

    /// A new place.
    fn join(
        &mut self,
        session: Option<SessionId>,
        acquire: Acquire,
        step: &mut Step<'_>,
    ) -> Outcome {
        let (ask, terms) = (Ask::of(&acquire), Terms::of(&acquire));
        let rules = self.kind_for(&acquire)?;
        let Acquire { lock, open, owner, attempt, wait, wait_ms, .. } = acquire;
        if !wait {
            self.refuse_if_busy(&lock, ask, step.now)?;
        }
        if session.is_none() {
            self.room_for_a_session()?;
        }
        self.room_for_a_contender(session, &lock, ask, step)?;
        self.room_for_an_attempt(0)?;
        let site = self.room_at(&lock, step)?;
        // Last, because it takes longest.
        self.refuse_waiting_for_itself(session, &owner, &lock, ask, step)?;

        let name = open.session.clone();
        let session = self.touch_or_begin(session, open, step);
        for directory in &site.missing {
            self.make_directory(directory, None, step);
        }
        if let Some(rules) = rules {
            self.set_rules(&lock, &site.directory, rules);
        }
        let attempts = Attempts::of(attempt);
        let contender = Contender {
            path: site.path,
            wait_ms,
            mode: ask.mode,
            terms: terms.kept(),
            ..Contender::new(site.sequence, session, name, owner, attempts, step)
        };
        let contender =
            self.enqueue(&lock, &site.directory, (Data::default(), None), contender, step);
        self.answer(&lock, &contender, false)
    }

    pub(crate) fn touch_or_begin(
        &mut self,
        session: Option<SessionId>,
        open: OpenSession,
        step: &mut Step<'_>,
    ) -> SessionId {
        match session {
            Some(id) => {
                self.touch_by_name(id, open.ttl, open.labels, step);
                id
            }
            None => self.begin_session(open, step),
        }
    }

    fn answer(&self, lock: &LockName, contender: &Contender, renewed: bool) -> Outcome {
        if !contender.waits()
            && let Some(grant) = self.grant_of(lock, contender, renewed)
        {
            return Ok(Reply::Granted(grant));
        }
        match self.queued_of(lock, contender) {
            Some(queued) => Ok(Reply::Queued(queued)),
            // Cannot be: the session of a place lives.
            None => Err(Rejection::NoNode { path: contender.path.clone() }),
        }
    }

    /// Rejects a no-wait acquire that would have to queue.
    pub(crate) fn refuse_if_busy(
        &self,
        lock: &LockName,
        ask: Ask,
        now: Stamp,
    ) -> Result<(), Rejection> {
        match self.locks.get(lock) {
            Some(indexed) if !indexed.admits(ask, now) => Err(self.busy(indexed, None)),
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects a new place that would wait for its own owner.
    fn refuse_waiting_for_itself(
        &self,
        session: Option<SessionId>,
        owner: &Owner,
        lock: &LockName,
        ask: Ask,
        step: &Step<'_>,
    ) -> Result<(), Rejection> {
        match self.locks.get(lock).filter(|indexed| !indexed.admits(ask, step.now)) {
            Some(indexed) => {
                let rank = indexed.rank_of(ask, step.now, u64::MAX);
                let wanted = [(lock.clone(), Wanted::Place { ask, rank })];
                self.refuse_deadlock(session, owner, &wanted)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn busy_for(&self, lock: &LockName, contender: &Contender) -> Rejection {
        match self.locks.get(lock) {
            Some(indexed) => self.busy(indexed, Some(contender)),
            None => Rejection::NoNode { path: contender.path.clone() },
        }
    }

    /// A place is what it is: it has its permits, of that limit.
    fn refuse_other_terms(
        &self,
        contender: &Contender,
        acquire: &Acquire,
    ) -> Result<(), Rejection> {
        let limit = self.locks.get(&acquire.lock).and_then(|lock| lock.policy().limit);
        if acquire.limit.is_some() && acquire.limit != limit {
            return Err(Rejection::LimitMismatch { limit });
        }
        let permits = contender.terms().permits;
        if acquire.permits.is_some_and(|wanted| wanted != permits) {
            return Err(Rejection::PermitsMismatch { permits });
        }
        Ok(())
    }

    /// "Somebody else holds the lock", or "nobody gets it yet".
    fn busy(&self, indexed: &Lock, apart: Option<&Contender>) -> Rejection {
        let (holder, waiters) = (self.first_holder(indexed, apart), indexed.waiting());
        match (holder, &indexed.closed) {
            (Some(holder), _) => Rejection::LockBusy { holder: Box::new(holder), waiters },
            (None, Some(closings)) => Rejection::LockClosed { closed: closings.closed(), waiters },
            (None, None) => Rejection::LockReserved { waiters },
        }
    }

    /// Rejects a place beyond the bounds of the session and the queue, and each one when no token is left to grant.
    pub(crate) fn room_for_a_contender(
        &self,
        session: Option<SessionId>,
        lock: &LockName,
        ask: Ask,
        step: &Step<'_>,
    ) -> Result<(), Rejection> {
        let places = session.and_then(|id| self.sessions.get(id)).map_or(0, |s| s.contenders);
        let max = self.limits.contenders_per_session_max;
        if places >= max {
            return Err(limit_reached(Bound::ContendersPerSession, max));
        }
        self.room_for_tokens(1)?;
        let max = self.limits.waiters_per_lock_max;
        match self.locks.get(lock) {
            Some(lock) if lock.waiting() >= max && !lock.admits(ask, step.now) => {
                Err(limit_reached(Bound::WaitersPerLock, max))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects grants for which no tokens are left.
    pub(crate) fn room_for_tokens(&self, count: u64) -> Result<(), Rejection> {
        if self.locks.tokens_left() < count {
            return Err(limit_reached(Bound::Counter, FencingToken::END));
        }
        Ok(())
    }

    /// Rejects another attempt of an owner that may enter once, and one attempt too many.
    fn refuse_to_be_entered(
        &self,
        contender: &Contender,
        reentrant: bool,
    ) -> Result<(), Rejection> {
        if !(reentrant && contender.terms().reentrant) {
            return Err(Rejection::NotReentrant);
        }
        self.room_for_an_attempt(contender.attempts.count())
    }

    /// Refuses one attempt too many.
    pub(crate) fn room_for_an_attempt(&self, attempts: u32) -> Result<(), Rejection> {
        let max = self.limits.entries_per_hold_max;
        if attempts >= max { Err(limit_reached(Bound::EntriesPerHold, max)) } else { Ok(()) }
    }

    /// Where a new contender of our own door will stand, if there is room for its znode.
    pub(crate) fn room_at(&self, lock: &LockName, step: &Step<'_>) -> Result<Site, Rejection> {
        let site = self.site_of(lock, step)?;
        self.room_for_znodes(site.missing.len() + 1)?;
        let new = site.missing.iter().chain(Some(&site.path));
        self.tree.room_in_quotas(&site.path, &new, 0)?;
        Ok(site)
    }

    /// Finds the place of a new contender of our own door.
    fn site_of(&self, lock: &LockName, step: &Step<'_>) -> Result<Site, Rejection> {
        let (directory, missing) = if let Some(indexed) = self.locks.get(lock) {
            (indexed.directory.clone(), Vec::new())
        } else {
            let directory = ZnodePath::of_lock(lock);
            let missing = self.missing_directories(&directory)?;
            (directory, missing)
        };
        let nearest = missing.first().and_then(ZnodePath::parent);
        let nearest =
            self.allowed(nearest.as_ref().unwrap_or(&directory), Perms::CREATE, ANYBODY)?;
        let sequence = nearest.next_sequence(!missing.is_empty());
        room_in_counter(sequence)?;
        let name = format!("lock-{sequence:010}");
        let path = child_path(&directory, &name)?;
        if !self.tree.contains(&path) {
            return Ok(Site { directory, missing, path, sequence });
        }
        // Somebody made a plain node of that name. The number counts, not the name: take another one.
        let name = format!("lock-r{}-{sequence:010}", step.revision);
        let path = child_path(&directory, &name)?;
        if self.tree.contains(&path) {
            return Err(Rejection::NodeExists { path });
        }
        Ok(Site { directory, missing, path, sequence })
    }
}

impl Contender {
    /// A contender that came with this step and waits. Its path is still to be set.
    pub(crate) fn new(
        sequence: u64,
        session: SessionId,
        session_name: SessionName,
        owner: Owner,
        attempts: Attempts,
        step: &Step<'_>,
    ) -> Self {
        Self {
            path: ZnodePath::root(),
            rank: Rank { class: 0, at: 0, sequence },
            session,
            session_name,
            owner,
            ticket: Ticket(step.revision.0),
            asked: step.revision,
            since: step.now,
            wait_ms: None,
            attempts,
            mode: Mode::Exclusive,
            fixed: false,
            terms: None,
            hold: None,
        }
    }
}

/// A place takes on the mode that it is converted to.
fn convert(contender: &mut Contender, conversion: Conversion) {
    match (conversion, &mut contender.hold) {
        (Conversion::Down(mode), Some(hold)) => (hold.mode, contender.mode) = (mode, mode),
        (Conversion::Up, _) => contender.mode = Mode::Exclusive,
        (Conversion::Stay | Conversion::Down(_), _) => {}
    }
}
