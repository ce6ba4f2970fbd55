//! Converts the mode of a holder.
//!
//! A weaker mode takes effect at once and keeps the token. Upgradable becomes exclusive when no other holder is left,
//! with a new token and ahead of the queue; until then no new holder is granted. A shared hold cannot be converted: two
//! readers that want to write would wait for each other.

use std::sync::Arc;

use holdfast_types::{Event, LockName, Mode, Rejection};

use crate::Machine;
use crate::apply::ApplyContext;
use crate::lock::queue_entry::{Hold, QueueEntry};

/// What a conversion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// None: it is held, or waited for, so.
    Stay,
    /// To something weaker, at once.
    Down(Mode),
    /// To exclusive, when nobody else holds.
    Up,
}

impl Machine {
    /// What asking in a mode means for a place that is there.
    pub(crate) fn conversion(
        &self,
        lock: &LockName,
        entry: &QueueEntry,
        wanted: Option<Mode>,
    ) -> Result<Conversion, Rejection> {
        let Some(wanted) = wanted.filter(|wanted| *wanted != entry.mode) else {
            return Ok(Conversion::Stay);
        };
        let is_semaphore = self.locks.get(lock).is_some_and(|lock| lock.policy().limit.is_some());
        let held = entry.hold.as_ref().map(|hold| hold.mode).filter(|_| !is_semaphore);
        match (held, wanted) {
            (Some(Mode::Upgradable), Mode::Exclusive) => Ok(Conversion::Up),
            (Some(Mode::Exclusive | Mode::Upgradable), Mode::Shared | Mode::Upgradable) => {
                Ok(Conversion::Down(wanted))
            }
            (Some(_) | None, _) => Err(Rejection::ModeConflict { mode: entry.mode }),
        }
    }

    /// Says that a holder holds in a weaker mode now, and looks at the queue again.
    pub(crate) fn converted(
        &mut self,
        lock: &LockName,
        entry: &QueueEntry,
        ctx: &mut ApplyContext<'_>,
    ) {
        if let Some(grant) = self.grant_of(lock, entry, true) {
            ctx.emit(Event::Converted(grant));
        }
        self.grant_next(lock, ctx);
    }

    /// Makes a holder exclusive that waited for that, once nobody else holds. It has the lock already, so that it does
    /// not matter whether the lock is closed to others.
    pub(crate) fn upgrade_if_alone(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        let Some(indexed) = self.locks.get(lock) else { return };
        if indexed.holders.len() != 1 {
            return;
        }
        let Some(before) = indexed.holders.upgrading().cloned() else { return };
        let Some(hold) = before.hold.as_deref().cloned() else { return };
        let Some(token) = self.locks.mint() else { return };
        let hold = Hold {
            token,
            granted_at: ctx.now,
            granted_in: ctx.revision,
            mode: Mode::Exclusive,
            ..hold
        };
        let granted = Arc::new(QueueEntry { hold: Some(Box::new(hold)), ..(*before).clone() });
        self.locks.replace(&mut self.tree, lock, &before, &granted);
        self.granted(lock, &granted, ctx);
    }

    /// Takes back that a holder waits to be exclusive.
    pub(crate) fn cancel_upgrade(
        &mut self,
        lock: &LockName,
        entry: &Arc<QueueEntry>,
        ctx: &mut ApplyContext<'_>,
    ) {
        self.amend(lock, entry, |entry| {
            if let Some(hold) = &entry.hold {
                entry.mode = hold.mode;
            }
        });
        self.grant_next(lock, ctx);
    }
}
