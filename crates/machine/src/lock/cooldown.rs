//! The cooldowns of a lock: periods in which it is not granted.
//!
//! Bound: a lock delay stores [`LockDelay::LOST_MAX`] lost sessions.

use std::sync::Arc;

use holdfast_types::{Cooldown, CooldownCause, SessionName, Stamp};
use serde::{Deserialize, Serialize};

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
    /// Lost sessions that have not acknowledged the loss, sorted. The last acknowledgement ends the delay. Empty if too
    /// many sessions were lost: the delay then lasts its full time.
    pub(crate) lost: Vec<SessionName>,
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

    /// The sessions whose acknowledgements can end the lock delay.
    pub(crate) fn lost(&self) -> &[SessionName] {
        self.delay.as_ref().map_or(&[], |delay| &delay.lost)
    }

    /// Adds a lost session that has not acknowledged its loss.
    pub(crate) fn add_loss(&mut self, session: &SessionName, now: Stamp, ms: u64) {
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

    /// Removes a session that has acknowledged its loss. Returns false if the delay did not wait for it.
    pub(crate) fn acknowledge(&mut self, session: &SessionName) -> bool {
        let Some(delay) = &mut self.delay else { return false };
        let Ok(at) = delay.lost.binary_search(session) else { return false };
        delay.lost.remove(at);
        if delay.lost.is_empty() {
            self.delay = None;
        }
        true
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
