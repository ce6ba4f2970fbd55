//! Locks that are closed for a while: granted to nobody, whoever waits.
//!
//! Owns why and until when, and that a lock opens again. A lock is closed from the entry that closes it to the first
//! entry that looks at it at its time or later: the leader sees to it that there is one ([`Machine::due_until`]).
//! Bound: [`LockDelay::LOST_MAX`] sessions are remembered of those whose loss closed a lock.

use std::sync::Arc;

use holdfast_types::{Closed, ClosedBy, Event, LockName, LossCause, SessionName, Stamp};

use crate::Machine;
use crate::apply::ApplyContext;
use crate::lock::index::Lock;
use crate::lock::queue_entry::QueueEntry;

/// Why a lock is closed. Invariant: a lock keeps only those with at least one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cooldowns {
    /// Until when those who gave it back wanted to keep it from others: the latest of these stamps.
    pub(crate) min_hold: Option<Stamp>,
    pub(crate) cooldown: Option<GrantInterval>,
    pub(crate) delay: Option<LockDelay>,
}

/// The time between two grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantInterval {
    /// The last grant.
    pub(crate) since: Stamp,
    pub(crate) until: Stamp,
}

/// A time for those who lost the lock to notice it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockDelay {
    pub(crate) since: Stamp,
    pub(crate) until: Stamp,
    /// Sessions of which it is not known that they acknowledged, sorted; when the last of them has, it ends. Empty if there
    /// were too many to remember, or others: then it takes its time.
    pub(crate) lost: Vec<SessionName>,
}

impl LockDelay {
    /// How many sessions are remembered.
    pub(crate) const LOST_MAX: usize = 64;
}

impl Cooldowns {
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
    fn add_loss(&mut self, session: &SessionName, now: Stamp, ms: u64) {
        let until = later(now, ms);
        let Some(delay) = &mut self.delay else {
            self.delay = Some(LockDelay { since: now, until, lost: vec![session.clone()] });
            return;
        };
        (delay.since, delay.until) = (delay.since.max(now), delay.until.max(until));
        if delay.lost.len() >= LockDelay::LOST_MAX {
            delay.lost.clear();
        } else if !delay.lost.is_empty()
            && let Err(at) = delay.lost.binary_search(session)
        {
            delay.lost.insert(at, session.clone());
        }
    }

    /// A session has acknowledged. False if nothing waited for that.
    fn acknowledge(&mut self, session: &SessionName) -> bool {
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
    fn cooldowns(&self) -> Cooldowns {
        self.cooldowns.as_deref().cloned().unwrap_or(Cooldowns::NONE)
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

impl Machine {
    /// A hold has ended: closes the lock if the holder or the policy wants that.
    pub(crate) fn start_cooldown_after_loss(
        &mut self,
        lock: &LockName,
        gone: &QueueEntry,
        cause: LossCause,
        ctx: &mut ApplyContext<'_>,
    ) {
        let (Some(hold), Some(indexed)) = (&gone.hold, self.locks.get(lock)) else { return };
        let min_hold = gone.options().min_hold_ms.map(|ms| later(hold.since, ms));
        let min_hold = min_hold.filter(|until| *until > ctx.now);
        let delay_ms = Some(indexed.policy().lock_delay_ms).filter(|ms| *ms > 0);
        let delay_ms = delay_ms.filter(|_| is_unclean(cause));
        if min_hold.is_none() && delay_ms.is_none() {
            return;
        }
        let mut cooldowns = indexed.cooldowns();
        cooldowns.min_hold = cooldowns.min_hold.max(min_hold);
        if let Some(ms) = delay_ms {
            cooldowns.add_loss(&gone.session_name, ctx.now, ms);
        }
        self.set_cooldowns(lock, cooldowns, ctx);
    }

    /// A grant was made: closes the lock for as long as the policy wants between two grants.
    pub(crate) fn start_cooldown_after_grant(
        &mut self,
        lock: &LockName,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(indexed) = self.locks.get(lock) else { return };
        let ms = indexed.policy().cooldown_ms;
        if ms == 0 {
            return;
        }
        let cooldown = Some(GrantInterval { since: ctx.now, until: later(ctx.now, ms) });
        self.set_cooldowns(lock, Cooldowns { cooldown, ..indexed.cooldowns() }, ctx);
    }

    /// The stored_policy have changed: what closes the lock since some time ends by the new ones.
    pub(crate) fn recompute_cooldowns(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        let Some(indexed) = self.locks.get(lock).filter(|lock| lock.cooldowns.is_some()) else {
            return;
        };
        let (policy, mut cooldowns) = (*indexed.policy(), indexed.cooldowns());
        if let Some(rest) = &mut cooldowns.cooldown {
            rest.until = later(rest.since, policy.cooldown_ms);
        }
        if let Some(delay) = &mut cooldowns.delay {
            delay.until = later(delay.since, policy.lock_delay_ms);
        }
        self.set_cooldowns(lock, cooldowns, ctx);
    }

    /// Opens a lock whose time has come.
    pub(crate) fn end_cooldown_if_over(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        let Some(indexed) = self.locks.get(lock) else { return };
        if indexed.cooldowns.is_some() && indexed.is_open(ctx.now) {
            self.set_cooldowns(lock, Cooldowns::NONE, ctx);
        }
    }

    /// A session says that it knows what it lost: locks that are closed for its sake alone open.
    pub(crate) fn acknowledge_losses(&mut self, session: &SessionName, ctx: &mut ApplyContext<'_>) {
        let locks: Vec<LockName> = self.locks.delayed_by(session).cloned().collect();
        for lock in locks {
            self.acknowledge_loss(session, &lock, ctx);
        }
    }

    /// As [`Machine::acknowledge_losses`], of one lock. False if nothing waited for that.
    pub(crate) fn acknowledge_loss(
        &mut self,
        session: &SessionName,
        lock: &LockName,
        ctx: &mut ApplyContext<'_>,
    ) -> bool {
        let Some(indexed) = self.locks.get(lock) else { return false };
        let mut cooldowns = indexed.cooldowns();
        let acknowledged = cooldowns.acknowledge(session);
        if acknowledged {
            self.set_cooldowns(lock, cooldowns, ctx);
            self.grant_next(lock, ctx);
        }
        acknowledged
    }

    /// Closes a lock so, or opens it, in the index and on its directory.
    pub(crate) fn set_cooldowns(
        &mut self,
        lock: &LockName,
        cooldowns: Cooldowns,
        ctx: &mut ApplyContext<'_>,
    ) {
        let closed = cooldowns.kept();
        let now = closed.as_ref().map(|cooldowns| cooldowns.closed());
        let before = self.locks.set_cooldowns(&mut self.tree, lock, closed);
        match (before.map(|cooldowns| cooldowns.closed()), now) {
            (Some(_), None) => ctx.emit(Event::Opened { lock: lock.clone() }),
            (before, Some(closed)) if before != Some(closed) => {
                ctx.emit(Event::Closed { lock: lock.clone(), closed });
            }
            (_, _) => {}
        }
    }
}
