//! Multi-locks: one entry in the queue of each lock, under one ticket, granted together or not at all.
//!
//! A multi-lock entry goes behind all waiters and is never overtaken. It is granted when the entries are first in all
//! queues and could hold; until then a lock in which it is first is kept for it. All entries are added by one command,
//! so multi-locks have the same order in each queue: they do not deadlock with each other, and smaller ones do not
//! starve them. If a waiting entry is removed, all are; a holding entry is released alone. Bound:
//! [`AcquireAll::LOCKS_MAX`] locks.

use std::sync::Arc;

use holdfast_types::{
    AcquireAll, Attempt, Bound, Data, LockName, LockRejection, LossCause, Mode, OpenSession,
    OutOfBounds, Outcome, Owner, Rejection, ReleaseAll, Reply, SessionEnd, SessionId, SessionName,
    Stamp, StandingAll, Ticket,
};

use crate::Machine;
use crate::apply::{ApplyContext, expired, limit_reached, no_session};
use crate::lock::deadlock::Wanted;
use crate::lock::index::SessionLockKey;
use crate::lock::lock_entry::{AcquireOptions, GrantRequest, LockEntry};
use crate::session::attempts::Attempts;
use crate::session::store::KnownSession;

impl Machine {
    /// Enters the queue of each lock, and holds all locks if they are free.
    pub(crate) fn acquire_all(&mut self, all: AcquireAll, ctx: &mut ApplyContext<'_>) -> Outcome {
        check_bounds(&all)?;
        let id = match self.sessions.named(&all.open.session) {
            Some(KnownSession::Open(id)) => Some(id),
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(all.open.session));
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None => None,
        };
        let place = |lock| self.locks.find(id?, lock, &all.owner, Ticket(0)).cloned();
        let places: Vec<_> = all.locks.iter().map(|lock| (lock, place(lock))).collect();
        let first = places.iter().find_map(|(lock, place)| Some((*lock, place.clone()?)));
        let keeps = |(_, place): &(_, Option<Arc<LockEntry>>)| {
            place.as_ref().is_some_and(|p| all.attempt.is_some_and(|a| p.attempts.contains(a)))
        };
        for (lock, _) in places.iter().filter(|place| !keeps(place)) {
            let place = (&self.remembered_as(lock), &all.owner);
            let over = self.check_attempt(&all.open.session, place, all.attempt);
            over.map_err(|why| refused(lock, why))?;
        }
        match first {
            None => self.acquire_all_new(id, &all, ctx),
            Some((lock, first)) => {
                let members: Vec<_> = places.into_iter().filter_map(|(_, place)| place).collect();
                let together = members.iter().all(|member| member.same_multi_lock(&first));
                if first.multi_lock() != all.locks || members.len() != all.locks.len() || !together
                {
                    return Err(LockRejection::AlreadyQueued { lock: lock.clone() }.into());
                }
                self.acquire_all_again(&members, &all, ctx)
            }
        }
    }

    /// Renews the entries that the owner has.
    fn acquire_all_again(
        &mut self,
        members: &[Arc<LockEntry>],
        all: &AcquireAll,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        for (lock, member) in all.locks.iter().zip(members) {
            // A hold that was converted since is not the one asked for.
            let mode = member.hold.as_ref().map_or(member.mode, |hold| hold.mode);
            if mode != all.mode {
                return Err(refused(lock, Rejection::Lock(LockRejection::ModeConflict { mode })));
            }
            if member.waits() && !all.wait {
                return Err(refused(lock, self.busy_for(lock, member)));
            }
        }
        let adds = |member: &LockEntry| all.attempt.filter(|a| !member.attempts.contains(*a));
        for (lock, member) in all.locks.iter().zip(members).filter(|(_, m)| adds(m).is_some()) {
            let room = self.check_room_for_attempt(member.attempts.count());
            room.map_err(|why| refused(lock, why))?;
        }
        for (at, (lock, member)) in all.locks.iter().zip(members).enumerate() {
            if at == 0 {
                let OpenSession { ttl, labels, .. } = all.open.clone();
                self.touch_by_name(member.session, ttl, labels, ctx);
            }
            let attempt = adds(member);
            if member.waits() || attempt.is_some() {
                self.amend(lock, member, |member| {
                    if member.waits() {
                        (member.asked, member.wait_ms) = (ctx.revision, wait_of(all, at));
                    }
                    if let Some(attempt) = attempt {
                        member.attempts.insert(attempt);
                    }
                });
            }
        }
        self.answer_all(&all.locks, &all.open.session, &all.owner, true)
    }

    /// Adds the entries one after the other, since the directory of one lock may lie in that of another. If one is rejected, all
    /// are undone.
    fn acquire_all_new(
        &mut self,
        session: Option<SessionId>,
        all: &AcquireAll,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let request = GrantRequest::of_multi_lock(all.mode);
        if !all.wait {
            for lock in &all.locks {
                let free = self.check_not_busy(lock, request, ctx.now);
                free.map_err(|why| refused(lock, why))?;
            }
        }
        let waits = !all.locks.iter().all(|lock| self.admits_to(lock, request, ctx.now));
        let deadlock = if waits {
            let wanted: Vec<(LockName, Wanted)> =
                all.locks.iter().map(|lock| self.wanted(lock, request, ctx.now)).collect();
            self.check_deadlock(session, &all.owner, &wanted)
        } else {
            Ok(())
        };
        self.undo_if_rejected(ctx, |machine, ctx| {
            machine.enqueue_each(session, all, waits, ctx)?;
            deadlock
        })?;
        if let Some(first) = all.locks.first() {
            self.grant_next(first, ctx);
        }
        self.answer_all(&all.locks, &all.open.session, &all.owner, false)
    }

    fn enqueue_each(
        &mut self,
        session: Option<SessionId>,
        all: &AcquireAll,
        waits: bool,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<(), Rejection> {
        if session.is_none() {
            self.check_room_for_session()?;
        }
        self.check_room_for_entries(session, all.locks.len())?;
        self.check_tokens_left(all.locks.len() as u64)?;
        let session = self.touch_or_begin(session, all.open.clone(), ctx);
        let names: Arc<[LockName]> = all.locks.iter().cloned().collect();
        for (at, lock) in all.locks.iter().enumerate() {
            let joined = self.enqueue_one(session, (lock, at), (all, &names), waits, ctx);
            joined.map_err(|why| refused(lock, why))?;
        }
        Ok(())
    }

    /// Adds one entry. A caller that has to wait needs room in the queue.
    fn enqueue_one(
        &mut self,
        session: SessionId,
        (lock, at): (&LockName, usize),
        (all, names): (&AcquireAll, &Arc<[LockName]>),
        waits: bool,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<(), Rejection> {
        self.check_not_sharded(lock)?;
        let max = self.limits.waiters_per_lock_max;
        let indexed = self.locks.get(lock);
        if waits && indexed.is_some_and(|indexed| indexed.waiting() >= max) {
            return Err(limit_reached(Bound::WaitersPerLock, max));
        }
        let is_semaphore = indexed.is_some_and(|indexed| indexed.policy().limit.is_some());
        if is_semaphore && all.mode != Mode::Exclusive {
            return Err(LockRejection::ModeConflict { mode: Mode::Exclusive }.into());
        }
        self.check_room_for_attempt(0)?;
        let location = self.location_with_room(lock, ctx)?;
        for directory in &location.missing {
            self.make_directory(directory, None, ctx);
        }
        let options = AcquireOptions {
            max_hold_ms: all.max_hold_ms,
            multi_lock: Some(Arc::clone(names)),
            ..AcquireOptions::PLAIN
        };
        let name = all.open.session.clone();
        let attempts = Attempts::of(all.attempt);
        let entry = LockEntry {
            path: location.path,
            wait_ms: wait_of(all, at),
            mode: all.mode,
            fixed: true,
            options: options.kept(),
            ..LockEntry::new(location.sequence, session, name, all.owner.clone(), attempts, ctx)
        };
        self.enqueue(lock, &location.directory, (Data::default(), None), entry, ctx);
        Ok(())
    }

    fn check_room_for_entries(
        &self,
        session: Option<SessionId>,
        count: usize,
    ) -> Result<(), Rejection> {
        let places = session.and_then(|id| self.sessions.get(id)).map_or(0, |s| s.queue_entries);
        let max = self.limits.queue_entries_per_session_max;
        if u64::from(places) + count as u64 > u64::from(max) {
            return Err(limit_reached(Bound::QueueEntriesPerSession, max));
        }
        Ok(())
    }

    fn admits_to(&self, lock: &LockName, request: GrantRequest, now: Stamp) -> bool {
        self.locks.get(lock).is_none_or(|indexed| indexed.admits(request, now))
    }

    fn wanted(&self, lock: &LockName, request: GrantRequest, now: Stamp) -> (LockName, Wanted) {
        let rank = self.locks.get(lock).map_or(crate::lock::rank::Rank::before_all(0), |indexed| {
            indexed.rank_of(request, now, u64::MAX)
        });
        (lock.clone(), Wanted::Place { request, rank })
    }

    fn answer_all(
        &self,
        locks: &[LockName],
        session: &SessionName,
        owner: &Owner,
        renewed: bool,
    ) -> Outcome {
        match self.standing_all(locks, session, owner) {
            Some(StandingAll::Holding(mut grants)) => {
                for grant in &mut grants {
                    grant.renewed = renewed;
                }
                Ok(Reply::GrantedAll(grants))
            }
            Some(StandingAll::Waiting(places)) => Ok(Reply::QueuedAll(places)),
            // Unreachable: the entries were just made, or found.
            None => Err(no_session(session.clone())),
        }
    }

    /// The state of a multi-lock acquire; `None` if the owner does not have an entry in each of the locks.
    pub fn standing_all(
        &self,
        locks: &[LockName],
        session: &SessionName,
        owner: &Owner,
    ) -> Option<StandingAll> {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return None };
        let place = |lock| Some((lock, self.locks.find(id, lock, owner, Ticket(0))?));
        let places: Vec<(&LockName, _)> = locks.iter().map(place).collect::<Option<_>>()?;
        if places.iter().all(|(_, place)| place.hold.is_none()) {
            let queued = |(lock, place): (&LockName, &Arc<LockEntry>)| {
                Some((lock.clone(), self.queued_of(lock, place)?))
            };
            return Some(StandingAll::Waiting(
                places.into_iter().map(queued).collect::<Option<_>>()?,
            ));
        }
        let grant = |(lock, place): (&LockName, &Arc<LockEntry>)| self.grant_of(lock, place, false);
        Some(StandingAll::Holding(places.into_iter().map(grant).collect::<Option<_>>()?))
    }

    /// Releases locks, or leaves their queues. A lock without an entry of the owner is left alone.
    pub(crate) fn release_all(
        &mut self,
        release: ReleaseAll,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let ReleaseAll { locks, session, owner, attempt } = release;
        if !AcquireAll::are_sound(&locks) {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Locks });
        }
        let id = match self.sessions.named(&session) {
            Some(KnownSession::Open(id)) => id,
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(session));
            }
            ended @ (Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None) => {
                return match attempt {
                    Some(attempt) => {
                        self.end_attempt_unopened(session, attempt, ctx);
                        Ok(Reply::ReleasedAll { changed: 0 })
                    }
                    None if ended.is_some() => Ok(Reply::ReleasedAll { changed: 0 }),
                    None => Err(no_session(session)),
                };
            }
        };
        let mut changed = 0;
        for lock in &locks {
            let before = self.sessions.get(id).map_or(0, |session| session.queue_entries);
            let place = self.locks.find(id, lock, &owner, Ticket(0)).cloned();
            if place.is_none() {
                self.acknowledge_loss(&session, lock, ctx);
            }
            self.leave_for_all(id, (lock, &owner), (place, attempt), ctx);
            let after = self.sessions.get(id).map_or(0, |session| session.queue_entries);
            changed += before.saturating_sub(after);
        }
        self.close_if_anonymous_and_idle(id, ctx);
        for lock in &locks {
            self.grant_next(lock, ctx);
        }
        Ok(Reply::ReleasedAll { changed })
    }

    /// Releases one lock of a multi-lock; with an attempt only what that attempt keeps.
    fn leave_for_all(
        &mut self,
        session: SessionId,
        (lock, owner): (&LockName, &Owner),
        (place, attempt): (Option<Arc<LockEntry>>, Option<Attempt>),
        ctx: &mut ApplyContext<'_>,
    ) {
        match (place, attempt) {
            (Some(place), Some(attempt)) if place.attempts.contains(attempt) => {
                self.leave_attempt(lock, &place, attempt, ctx);
            }
            (_, Some(attempt)) => self.end_attempt(session, (lock, owner), attempt),
            (Some(place), None) => {
                self.leave(&SessionLockKey::of(lock, &place), LossCause::Released, ctx);
            }
            (None, None) => {}
        }
    }

    /// The other entries of a multi-lock, with their locks.
    pub(crate) fn other_members(
        &self,
        lock: &LockName,
        member: &LockEntry,
    ) -> Vec<(LockName, SessionLockKey)> {
        let others = member.multi_lock().iter().filter(|other| *other != lock);
        let key = |other: &LockName| {
            let found = self.locks.find(member.session, other, &member.owner, member.ticket)?;
            found.same_multi_lock(member).then(|| (other.clone(), SessionLockKey::of(other, found)))
        };
        others.filter_map(key).collect()
    }

    /// Whether all entries of a multi-lock are first and can hold now.
    pub(crate) fn may_hold_all(&self, member: &LockEntry, now: Stamp) -> bool {
        member.multi_lock().iter().all(|name| {
            self.locks.get(name).is_some_and(|lock| {
                let first = lock.waiters.get_min().map(|(_, first)| first);
                first.is_some_and(|first| {
                    first.same_multi_lock(member) && lock.has_room_for(first.request())
                }) && lock.is_open(now)
            })
        })
    }

    /// Grants all entries of a multi-lock.
    pub(crate) fn grant_members(&mut self, member: &LockEntry, ctx: &mut ApplyContext<'_>) {
        for name in member.multi_lock() {
            self.end_cooldown_if_over(name, ctx);
            let first = self.locks.get(name).and_then(|lock| lock.waiters.get_min());
            if let Some(first) = first.map(|(_, first)| Arc::clone(first)) {
                self.grant(name, &first, ctx);
            }
            ctx.stale.insert(name.clone());
        }
    }
}

impl LockEntry {
    /// The locks of its multi-lock, sorted; empty for a plain entry.
    pub(crate) fn multi_lock(&self) -> &[LockName] {
        self.options().multi_lock.as_deref().unwrap_or(&[])
    }

    /// True if both are entries of one multi-lock acquire.
    pub(crate) fn same_multi_lock(&self, other: &Self) -> bool {
        self.ticket == other.ticket
            && self.session == other.session
            && self.owner == other.owner
            && self.multi_lock() == other.multi_lock()
            && !self.multi_lock().is_empty()
    }
}

/// The deadline is kept on the first entry: one cancel ends the wait for all.
fn wait_of(all: &AcquireAll, at: usize) -> Option<u64> {
    all.wait_ms.filter(|_| at == 0)
}

fn check_bounds(all: &AcquireAll) -> Result<(), Rejection> {
    let held =
        all.max_hold_ms.is_none_or(|ms| (1..=holdfast_types::Acquire::HOLD_MAX_MS).contains(&ms));
    let what = match () {
        () if !AcquireAll::are_sound(&all.locks) => OutOfBounds::Locks,
        () if !held => OutOfBounds::MaxHold,
        () if all.mode == Mode::Upgradable => {
            return Err(LockRejection::ModeConflict { mode: Mode::Exclusive }.into());
        }
        () => return Ok(()),
    };
    Err(Rejection::OutOfBounds { what })
}

fn refused(lock: &LockName, why: Rejection) -> Rejection {
    Rejection::Lock(LockRejection::OfMultiLock { lock: lock.clone(), why: Box::new(why) })
}
