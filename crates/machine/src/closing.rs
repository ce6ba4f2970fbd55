//! Locks that are closed for a while: granted to nobody, whoever waits.
//!
//! Owns why and until when, and that a lock opens again. A lock is closed from the entry that closes it to the first
//! entry that looks at it at its time or later: the leader sees to it that there is one ([`Machine::due_until`]).
//! Bound: [`Delay::LOST_MAX`] sessions are remembered of those whose loss closed a lock.

use std::sync::Arc;

use holdfast_types::{
    AskRelease, Break, Cancel, Closed, ClosedBy, Command, Condition, Event, HandOver, LockName,
    LossCause, Op, Release, Segments, SessionName, Stamp,
};

use crate::Machine;
use crate::apply::Step;
use crate::contender::Contender;
use crate::locks::{Claim, Lock};

/// Holds that the timers of one command end at most; the rest stay due.
pub(crate) const EXPIRED_MAX: u32 = 1_000;

/// Why a lock is closed. Invariant: a lock keeps only those with at least one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closings {
    /// Until when those who gave it back wanted to keep it from others: the latest of these stamps.
    pub(crate) min_hold: Option<Stamp>,
    pub(crate) cooldown: Option<Rest>,
    pub(crate) delay: Option<Delay>,
}

/// The time between two grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// The last grant.
    pub(crate) since: Stamp,
    pub(crate) until: Stamp,
}

/// A time for those who lost the lock to notice it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    pub(crate) since: Stamp,
    pub(crate) until: Stamp,
    /// Sessions of which it is not known that they noticed, sorted; when the last of them has, it ends. Empty if there
    /// were too many to remember, or others: then it takes its time.
    pub(crate) lost: Vec<SessionName>,
}

impl Delay {
    /// How many sessions are remembered.
    pub(crate) const LOST_MAX: usize = 64;
}

impl Closings {
    /// No reason at all.
    pub(crate) const NONE: Self = Self { min_hold: None, cooldown: None, delay: None };

    /// The reason that lasts longest.
    pub(crate) fn closed(&self) -> Closed {
        let min_hold = self.min_hold.map(|until| (until, ClosedBy::MinHold));
        let cooldown = self.cooldown.map(|rest| (rest.until, ClosedBy::Cooldown));
        let delay = self.delay.as_ref().map(|delay| (delay.until, ClosedBy::LockDelay));
        let last = min_hold.max(cooldown).max(delay).unwrap_or((Stamp(0), ClosedBy::LockDelay));
        Closed { until: last.0, why: last.1 }
    }

    /// When it is over.
    pub(crate) fn until(&self) -> Stamp {
        self.closed().until
    }

    /// Sessions that can end it by taking note.
    pub(crate) fn lost(&self) -> &[SessionName] {
        self.delay.as_ref().map_or(&[], |delay| &delay.lost)
    }

    /// A session was lost that may not know it.
    fn delay_for(&mut self, session: &SessionName, now: Stamp, ms: u64) {
        let until = later(now, ms);
        let Some(delay) = &mut self.delay else {
            self.delay = Some(Delay { since: now, until, lost: vec![session.clone()] });
            return;
        };
        (delay.since, delay.until) = (delay.since.max(now), delay.until.max(until));
        if delay.lost.len() >= Delay::LOST_MAX {
            delay.lost.clear();
        } else if !delay.lost.is_empty()
            && let Err(at) = delay.lost.binary_search(session)
        {
            delay.lost.insert(at, session.clone());
        }
    }

    /// A session has noticed. False if nothing waited for that.
    fn noticed_by(&mut self, session: &SessionName) -> bool {
        let Some(delay) = &mut self.delay else { return false };
        let Ok(at) = delay.lost.binary_search(session) else { return false };
        delay.lost.remove(at);
        if delay.lost.is_empty() {
            self.delay = None;
        }
        true
    }

    /// What is left of it, if anything.
    pub(crate) fn kept(self) -> Option<Arc<Self>> {
        (self != Self::NONE).then(|| Arc::new(self))
    }
}

impl Lock {
    /// Why it is closed, to be changed.
    fn closings(&self) -> Closings {
        self.closed.as_deref().cloned().unwrap_or(Closings::NONE)
    }
}

/// That much later.
fn later(stamp: Stamp, ms: u64) -> Stamp {
    Stamp(stamp.0.saturating_add(ms))
}

/// Whether a holder that was lost so may not know it.
fn is_unclean(cause: LossCause) -> bool {
    match cause {
        LossCause::SessionExpired | LossCause::MaxHold | LossCause::Revoked | LossCause::Broken => {
            true
        }
        LossCause::Released
        | LossCause::SessionClosed
        | LossCause::Deleted
        | LossCause::HandedOver
        | LossCause::LimitLowered => false,
    }
}

/// The locks that a command names. A multi names those of its conditions, and those whose queues its operations change.
fn locks_named_by(command: &Command) -> Vec<LockName> {
    match command {
        Command::Acquire(acquire) => vec![acquire.lock.clone()],
        Command::AcquireAll(all) => all.locks.clone(),
        Command::ReleaseAll(all) => all.locks.clone(),
        Command::Release(Release { lock, .. })
        | Command::Cancel(Cancel { lock, .. })
        | Command::SetPolicy { lock, .. }
        | Command::Break(Break { lock, .. })
        | Command::AskRelease(AskRelease { lock, .. })
        | Command::HandOver(HandOver { lock, .. }) => vec![lock.clone()],
        Command::Multi(multi) => {
            let held = multi.conditions.iter().filter_map(|condition| match condition {
                Condition::Holds { lock, .. } => Some(lock.clone()),
                Condition::Exists { .. }
                | Condition::Version { .. }
                | Condition::Data { .. }
                | Condition::SessionOpen { .. } => None,
            });
            let changed = multi.then.iter().chain(&multi.otherwise).filter_map(|op| match op {
                Op::Create(create) => create.directory.as_lock(),
                Op::Delete { path, .. } => path.parent()?.as_lock(),
                Op::SetData { .. } | Op::SetAcl { .. } | Op::Check { .. } => None,
            });
            held.chain(changed).collect()
        }
        Command::Due { .. }
        | Command::OpenSession(_)
        | Command::RenewSession { .. }
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::AttachSession { .. }
        | Command::Sweep { .. }
        | Command::SetLimits(_)
        | Command::RegisterNode { .. }
        | Command::Recipe(_) => Vec::new(),
    }
}

impl Machine {
    /// Runs the expired timers of the locks that a command names, so that the command meets each lock as it is at this time,
    /// whether or not the leader has proposed a [`Command::Due`] for it.
    pub(crate) fn run_timers_of(&mut self, command: &Command, step: &mut Step<'_>) {
        if self.next_due().is_none_or(|due| due > step.now) {
            return;
        }
        for lock in locks_named_by(command) {
            let shards = self.segments_in(&lock).unwrap_or(0);
            let shards = (0..shards).filter_map(|index| Segments::name_of(&lock, index).ok());
            let expired: Vec<LockName> = std::iter::once(lock.clone())
                .chain(shards)
                .filter(|lock| self.locks.get(lock).is_some_and(|lock| lock.is_due(step.now)))
                .collect();
            for lock in expired {
                self.run_timers(&lock, step);
            }
        }
    }

    /// Ends the holds of a lock that lasted as long as they may or were revoked, ends its cooldown, and grants it on.
    pub(crate) fn run_timers(&mut self, lock: &LockName, step: &mut Step<'_>) {
        while step.expired < EXPIRED_MAX
            && let Some((overdue, cause)) = self.overdue_holder(lock, step.now)
        {
            self.leave(&overdue, cause, step);
            self.end_if_spent(overdue.session, step);
            step.expired += 1;
        }
        self.grant_next(lock, step);
    }

    fn overdue_holder(&self, lock: &LockName, now: Stamp) -> Option<(Claim, LossCause)> {
        let holders = &self.locks.get(lock)?.holders;
        let (_, sequence) = holders.first_end().filter(|(end, _)| *end <= now)?;
        let holder = holders.get(sequence)?;
        let (_, cause) = holder.taken_at()?;
        Some((Claim::of(lock, holder), cause))
    }

    /// Locks of which something is due at a stamp, the longest due first; at most `count_max`.
    pub fn due_until(&self, stamp: Stamp, count_max: usize) -> Vec<LockName> {
        let due = self.locks.dues.iter().take_while(|(due, _)| *due <= stamp);
        due.take(count_max).map(|(_, lock)| lock.clone()).collect()
    }

    /// When something of some lock is due next.
    pub fn next_due(&self) -> Option<Stamp> {
        self.locks.dues.get_min().map(|(due, _)| *due)
    }

    /// A hold has ended: closes the lock if the holder or the policy wants that.
    pub(crate) fn close_after(
        &mut self,
        lock: &LockName,
        gone: &Contender,
        cause: LossCause,
        step: &mut Step<'_>,
    ) {
        let (Some(hold), Some(indexed)) = (&gone.hold, self.locks.get(lock)) else { return };
        let min_hold = gone.terms().min_hold_ms.map(|ms| later(hold.since, ms));
        let min_hold = min_hold.filter(|until| *until > step.now);
        let delay_ms = Some(indexed.policy().lock_delay_ms).filter(|ms| *ms > 0);
        let delay_ms = delay_ms.filter(|_| is_unclean(cause));
        if min_hold.is_none() && delay_ms.is_none() {
            return;
        }
        let mut closings = indexed.closings();
        closings.min_hold = closings.min_hold.max(min_hold);
        if let Some(ms) = delay_ms {
            closings.delay_for(&gone.session_name, step.now, ms);
        }
        self.set_closed(lock, closings, step);
    }

    /// A grant was made: closes the lock for as long as the policy wants between two grants.
    pub(crate) fn close_after_grant(&mut self, lock: &LockName, step: &mut Step<'_>) {
        let Some(indexed) = self.locks.get(lock) else { return };
        let ms = indexed.policy().cooldown_ms;
        if ms == 0 {
            return;
        }
        let cooldown = Some(Rest { since: step.now, until: later(step.now, ms) });
        self.set_closed(lock, Closings { cooldown, ..indexed.closings() }, step);
    }

    /// The rules have changed: what closes the lock since some time ends by the new ones.
    pub(crate) fn retime(&mut self, lock: &LockName, step: &mut Step<'_>) {
        let Some(indexed) = self.locks.get(lock).filter(|lock| lock.closed.is_some()) else {
            return;
        };
        let (policy, mut closings) = (*indexed.policy(), indexed.closings());
        if let Some(rest) = &mut closings.cooldown {
            rest.until = later(rest.since, policy.cooldown_ms);
        }
        if let Some(delay) = &mut closings.delay {
            delay.until = later(delay.since, policy.lock_delay_ms);
        }
        self.set_closed(lock, closings, step);
    }

    /// Opens a lock whose time has come.
    pub(crate) fn reopen(&mut self, lock: &LockName, step: &mut Step<'_>) {
        let Some(indexed) = self.locks.get(lock) else { return };
        if indexed.closed.is_some() && indexed.is_open(step.now) {
            self.set_closed(lock, Closings::NONE, step);
        }
    }

    /// A session says that it knows what it lost: locks that are closed for its sake alone open.
    pub(crate) fn take_note(&mut self, session: &SessionName, step: &mut Step<'_>) {
        let locks: Vec<LockName> = self.locks.delayed_by(session).cloned().collect();
        for lock in locks {
            self.take_note_of(session, &lock, step);
        }
    }

    /// As [`Machine::take_note`], of one lock. False if nothing waited for that.
    pub(crate) fn take_note_of(
        &mut self,
        session: &SessionName,
        lock: &LockName,
        step: &mut Step<'_>,
    ) -> bool {
        let Some(indexed) = self.locks.get(lock) else { return false };
        let mut closings = indexed.closings();
        let noticed = closings.noticed_by(session);
        if noticed {
            self.set_closed(lock, closings, step);
            self.grant_next(lock, step);
        }
        noticed
    }

    /// Closes a lock so, or opens it, in the index and on its directory.
    pub(crate) fn set_closed(&mut self, lock: &LockName, closings: Closings, step: &mut Step<'_>) {
        let closed = closings.kept();
        let now = closed.as_ref().map(|closings| closings.closed());
        let before = self.locks.change(lock, |indexed| {
            let before = indexed.closed.as_ref().map(|closings| closings.closed());
            indexed.closed = closed;
            before
        });
        self.note_lock(lock);
        match (before.flatten(), now) {
            (Some(_), None) => step.emit(Event::Opened { lock: lock.clone() }),
            (before, Some(closed)) if before != Some(closed) => {
                step.emit(Event::Closed { lock: lock.clone(), closed });
            }
            (_, _) => {}
        }
    }
}
