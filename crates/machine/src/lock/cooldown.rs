//! The cooldowns of a lock: periods in which it is not granted.
//!
//! A cooldown starts with a grant (`cooldown`), an early release (`min_hold`), or the loss of a holder that may not
//! have observed it (`lock_delay`). It ends when its timer runs (`timers.rs`). A lock delay also ends when every loss is
//! acknowledged: by a release that names the lost hold, or by the close of its session. A break ends the other two. Bound: a
//! lock delay stores [`LockDelay::LOST_MAX`] lost holds.

use std::sync::Arc;

use holdfast_types::{
    Attempt, Cooldown, CooldownCause, FencingToken, HoldName, LockEvent, LockName, LossCause,
    Owner, ReleaseTarget, SessionId, SessionName, Stamp,
};
use serde::{Deserialize, Serialize};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::lock_entry::{Hold, LockEntry};

/// The cooldowns of a lock. Invariant: a stored value has at least one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Cooldowns {
    /// The latest end of a `min_hold` whose hold was released early.
    pub(crate) min_hold: Option<Stamp>,
    pub(crate) cooldown: Option<GrantInterval>,
    pub(crate) delay: Option<LockDelay>,
}

/// The `cooldown` of the policy, counted from a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct GrantInterval {
    pub(crate) since: Stamp,
    pub(crate) until: Stamp,
}

/// The `lock_delay` of the policy, counted from a loss.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockDelay {
    pub(crate) since: Stamp,
    pub(crate) until: Stamp,
    /// Lost holds whose loss is not acknowledged, sorted. The last acknowledgement ends the delay. Empty if too many holds were
    /// lost: the delay then lasts its full time.
    pub(crate) lost: Vec<LostHold>,
}

/// A hold whose holder may not have observed its loss.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct LostHold {
    pub(crate) session: SessionName,
    incarnation: SessionId,
    owner: Owner,
    first_token: FencingToken,
    token: FencingToken,
    /// The oldest attempt: of nested attempts, the one that is released last.
    attempt: Attempt,
}

impl LostHold {
    fn of(entry: &LockEntry, hold: &Hold) -> Self {
        let (session, owner) = (entry.session_name.clone(), entry.owner.clone());
        let Hold { first_token, token, .. } = *hold;
        let (incarnation, attempt) = (entry.session, entry.claims.oldest());
        Self { session, incarnation, owner, first_token, token, attempt }
    }

    /// Whether a release by an owner of its session means the hold.
    pub(crate) fn is_meant_by(&self, owner: &Owner, target: ReleaseTarget) -> bool {
        let is_named = match target {
            ReleaseTarget::AnyEntry | ReleaseTarget::Permits(HoldName::Unnamed, _) => true,
            ReleaseTarget::Attempt(attempt)
            | ReleaseTarget::Permits(HoldName::Attempt(attempt), _) => attempt == self.attempt,
            ReleaseTarget::Hold(token) | ReleaseTarget::Permits(HoldName::Token(token), _) => {
                (self.first_token..=self.token).contains(&token)
            }
        };
        is_named && *owner == self.owner
    }
}

impl LockDelay {
    pub(crate) const LOST_MAX: usize = 64;
}

impl Cooldowns {
    pub(crate) const NONE: Self = Self { min_hold: None, cooldown: None, delay: None };

    /// Returns the cooldown that ends last.
    pub(crate) fn longest(&self) -> Cooldown {
        let min_hold = self.min_hold.map(|until| (until, CooldownCause::MinHold));
        let cooldown = self.cooldown.map(|rest| (rest.until, CooldownCause::Cooldown));
        let delay = self.delay.as_ref().map(|delay| (delay.until, CooldownCause::LockDelay));
        let last =
            min_hold.max(cooldown).max(delay).unwrap_or((Stamp(0), CooldownCause::LockDelay));
        Cooldown { until: last.0, cause: last.1 }
    }

    pub(crate) fn until(&self) -> Stamp {
        self.longest().until
    }

    /// The lost holds whose acknowledgements can end the lock delay.
    pub(crate) fn lost(&self) -> &[LostHold] {
        self.delay.as_ref().map_or(&[], |delay| &delay.lost)
    }

    /// Adds a hold whose loss is not acknowledged.
    pub(crate) fn add_loss(&mut self, lost: LostHold, now: Stamp, ms: u64) {
        let until = later(now, ms);
        // One that is over has no part in the new one.
        self.delay.take_if(|delay| delay.until <= now);
        let Some(delay) = &mut self.delay else {
            self.delay = Some(LockDelay { since: now, until, lost: vec![lost] });
            return;
        };
        (delay.since, delay.until) = (delay.since.max(now), delay.until.max(until));
        if delay.lost.len() >= LockDelay::LOST_MAX {
            delay.lost.clear();
        } else if !delay.lost.is_empty()
            && let Err(at) = delay.lost.binary_search(&lost)
        {
            delay.lost.insert(at, lost);
        }
    }

    /// Removes the lost holds that are meant. Returns false if the delay waited for none of them.
    fn acknowledge(&mut self, is_meant: impl Fn(&LostHold) -> bool) -> bool {
        let Some(delay) = &mut self.delay else { return false };
        let before = delay.lost.len();
        delay.lost.retain(|lost| !is_meant(lost));
        let acknowledged = delay.lost.len() < before;
        if acknowledged && delay.lost.is_empty() {
            self.delay = None;
        }
        acknowledged
    }

    /// Returns `None` if there is no cooldown to store.
    pub(crate) fn none_if_empty(self) -> Option<Arc<Self>> {
        (self != Self::NONE).then(|| Arc::new(self))
    }
}

/// Returns `stamp` plus `ms` milliseconds.
pub(crate) fn later(stamp: Stamp, ms: u64) -> Stamp {
    Stamp(stamp.0.saturating_add(ms))
}

/// Whether a holder that lost the lock for this cause may not have observed the loss.
fn is_unclean(cause: LossCause) -> bool {
    match cause {
        LossCause::SessionExpired
        | LossCause::MaxHold
        | LossCause::Revoked
        | LossCause::ForceReleased => true,
        LossCause::Released
        | LossCause::SessionClosed
        | LossCause::Deleted
        | LossCause::HandedOver
        | LossCause::LimitLowered => false,
    }
}

impl Machine {
    /// Starts the cooldowns that the end of a hold causes: `min_hold` and `lock_delay`.
    pub(crate) fn start_cooldown_after_loss(
        &mut self,
        lock: &LockName,
        gone: &LockEntry,
        cause: LossCause,
        ctx: &mut ApplyContext<'_>,
    ) {
        let (Some(hold), Some(indexed)) = (&gone.hold, self.locks.get(lock)) else { return };
        let min_hold = gone.min_hold_ends_at().filter(|until| *until > ctx.now);
        let delay_ms = Some(indexed.policy().lock_delay_ms).filter(|ms| *ms > 0);
        let delay_ms = delay_ms.filter(|_| is_unclean(cause));
        if min_hold.is_none() && delay_ms.is_none() {
            return;
        }
        let mut cooldowns = indexed.cooldowns();
        cooldowns.min_hold = cooldowns.min_hold.max(min_hold);
        if let Some(ms) = delay_ms {
            cooldowns.add_loss(LostHold::of(gone, hold), ctx.now, ms);
        }
        self.set_cooldowns(lock, cooldowns, ctx);
    }

    /// Starts the cooldown that a grant causes.
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

    /// Recomputes the ends of running cooldowns after a policy change.
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

    /// Ends the cooldown of a lock if it is over.
    pub(crate) fn end_cooldown_if_over(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        let Some(indexed) = self.locks.get(lock) else { return };
        if indexed.cooldowns.is_some() && indexed.is_out_of_cooldown(ctx.now) {
            self.set_cooldowns(lock, Cooldowns::NONE, ctx);
        }
    }

    /// Ends what the last holder and the policy have set; the lock delay protects writes, so it stays.
    pub(crate) fn end_min_hold_and_cooldown(
        &mut self,
        lock: &LockName,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(indexed) = self.locks.get(lock).filter(|lock| lock.cooldowns.is_some()) else {
            return;
        };
        let delay = indexed.cooldowns().delay;
        self.set_cooldowns(lock, Cooldowns { delay, ..Cooldowns::NONE }, ctx);
    }

    /// Acknowledges all losses of a session. Ends the lock delays that wait for no other one. Losses of an earlier session
    /// of the same name stay, because its process may still write.
    pub(crate) fn acknowledge_losses(
        &mut self,
        session: &SessionName,
        incarnation: SessionId,
        ctx: &mut ApplyContext<'_>,
    ) {
        let locks: Vec<LockName> = self.locks.delayed_by(session).cloned().collect();
        for lock in locks {
            let is_of_session =
                |lost: &LostHold| lost.session == *session && lost.incarnation == incarnation;
            self.acknowledge_loss(&lock, is_of_session, ctx);
        }
    }

    /// Acknowledges the losses of a lock that are meant. Returns false if its lock delay waited for none of them.
    pub(crate) fn acknowledge_loss(
        &mut self,
        lock: &LockName,
        is_meant: impl Fn(&LostHold) -> bool,
        ctx: &mut ApplyContext<'_>,
    ) -> bool {
        let Some(indexed) = self.locks.get(lock) else { return false };
        let mut cooldowns = indexed.cooldowns();
        let acknowledged = cooldowns.acknowledge(is_meant);
        if acknowledged {
            self.set_cooldowns(lock, cooldowns, ctx);
            self.grant_next(lock, ctx);
        }
        acknowledged
    }

    /// Sets the cooldowns of a lock and emits the change.
    pub(crate) fn set_cooldowns(
        &mut self,
        lock: &LockName,
        cooldowns: Cooldowns,
        ctx: &mut ApplyContext<'_>,
    ) {
        let stored = cooldowns.none_if_empty();
        let now = stored.as_ref().map(|cooldowns| cooldowns.longest());
        let before = self.locks.set_cooldowns(&mut self.tree, lock, stored);
        match (before.map(|cooldowns| cooldowns.longest()), now) {
            (Some(_), None) => ctx.emit(LockEvent::CooldownEnded { lock: lock.clone() }),
            (before, Some(cooldown)) if before != Some(cooldown) => {
                ctx.emit(LockEvent::CooldownStarted { lock: lock.clone(), cooldown });
            }
            (_, _) => {}
        }
    }
}
