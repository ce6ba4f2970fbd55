//! Converts the mode of a holder.
//!
//! A weaker mode takes effect immediately and keeps the token. Upgradable becomes exclusive when no other holder is
//! left, with a new token and ahead of the queue; until then no new holder is granted. A shared hold cannot be
//! converted: two readers that both upgrade would wait for each other.

use std::sync::Arc;

use holdfast_types::{LockEvent, LockName, LockRejection, Mode, Rejection};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::lock_entry::{Hold, LockEntry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// The mode does not change.
    Stay,
    /// A weaker mode, effective immediately.
    Down(Mode),
    /// Exclusive, once the entry is the only holder.
    Up,
}

impl Machine {
    /// Returns the conversion that an acquire in `mode` requests for an existing entry.
    pub(crate) fn conversion(
        &self,
        lock: &LockName,
        entry: &LockEntry,
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
            (Some(_) | None, _) => {
                Err(Rejection::Lock(LockRejection::ModeConflict { mode: entry.mode }))
            }
        }
    }

    /// Emits a conversion to a weaker mode, and grants waiters that it admits.
    pub(crate) fn converted(
        &mut self,
        lock: &LockName,
        entry: &LockEntry,
        ctx: &mut ApplyContext<'_>,
    ) {
        if let Some(grant) = self.grant_of(lock, entry, true) {
            ctx.emit(LockEvent::ModeChanged(grant));
        }
        self.grant_next(lock, ctx);
    }

    /// Completes an upgrade once the entry is the only holder. A cooldown does not delay it, because the entry already
    /// holds the lock.
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
        let granted = Arc::new(LockEntry { hold: Some(Box::new(hold)), ..(*before).clone() });
        self.locks.replace(&mut self.tree, lock, &before, &granted);
        self.granted(lock, &granted, ctx);
    }

    /// Cancels a pending upgrade.
    pub(crate) fn cancel_upgrade(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        ctx: &mut ApplyContext<'_>,
    ) {
        self.update_entry(lock, entry, |entry| {
            if let Some(hold) = &entry.hold {
                entry.mode = hold.mode;
            }
        });
        self.grant_next(lock, ctx);
    }
}
