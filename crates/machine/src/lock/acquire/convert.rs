//! Converts the mode of a holder to the strongest mode of its claims.
//!
//! A weaker mode takes effect immediately and keeps the token. A stronger mode is a grant with a new token, ahead of the
//! queue. Upgradable becomes exclusive when no other holder is left; until then no new holder is granted. A shared
//! holder becomes stronger only if the other holders admit it now: two readers that both waited would wait for each
//! other. A reader of Curator counts as a holder as soon as its own rule lets it enter.

use std::sync::Arc;

use holdfast_types::{
    LockEvent, LockName, LockRejection, Mode, ModeConflictReason, Rejection, TreeEvent, ZnodePath,
};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::claims::Claims;
use crate::lock::entry_name::is_own_name_shared;
use crate::lock::index::SessionLockKey;
use crate::lock::lock_entry::{Hold, LockEntry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// The mode does not change.
    Stay,
    /// A mode that is not stronger than the held one, effective immediately.
    Down(Mode),
    /// A stronger mode: at once, or for an upgradable holder once it is the only one.
    Up(Mode),
}

impl Machine {
    /// Returns the conversion that gives an entry the strongest mode of its new claims.
    pub(super) fn conversion(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        claims: &Claims,
    ) -> Result<Conversion, Rejection> {
        let wanted = claims.mode();
        let Some(held) = entry.hold.as_ref().map(|hold| hold.mode) else {
            return Ok(Conversion::Stay);
        };
        if wanted == entry.mode {
            return Ok(Conversion::Stay);
        }
        if !wanted.is_stronger_than(held) {
            return Ok(Conversion::Down(wanted));
        }
        let up = Conversion::Up(wanted);
        if held == Mode::Shared && !self.grants_now(lock, entry, up) {
            return Err(conflict(entry, ModeConflictReason::SharedBesideOthers));
        }
        self.check_tokens_left(u64::from(held == Mode::Shared))?;
        Ok(up)
    }

    /// Whether the other holders admit a conversion to a stronger mode now.
    pub(super) fn grants_now(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        conversion: Conversion,
    ) -> bool {
        let Some(lock) = self.locks.get(lock) else { return false };
        match conversion {
            Conversion::Up(Mode::Exclusive) => lock.is_alone(entry),
            Conversion::Up(_) => {
                lock.holders.upgradable().is_none() && !lock.would_stop_readers(entry)
            }
            Conversion::Stay | Conversion::Down(_) => false,
        }
    }

    /// Converts a holder, and grants waiters that this admits.
    pub(super) fn convert(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        conversion: Conversion,
        ctx: &mut ApplyContext<'_>,
    ) {
        match conversion {
            Conversion::Stay => {}
            Conversion::Down(mode) => {
                let weaker = self.update_entry(lock, entry, |entry| {
                    entry.mode = mode;
                    if let Some(hold) = &mut entry.hold {
                        hold.mode = mode;
                    }
                });
                // Without a weaker mode, the event ends the wait for an upgrade.
                if let Some(grant) = self.grant_of(lock, &weaker, true) {
                    ctx.emit(LockEvent::ModeChanged(grant));
                }
                self.grant_next(lock, ctx);
            }
            Conversion::Up(mode) => {
                let waits = !self.grants_now(lock, entry, conversion);
                let upgrading = self.update_entry(lock, entry, |entry| entry.mode = mode);
                if !waits {
                    self.grant_upgrade(lock, &upgrading, ctx);
                }
            }
        }
    }

    /// Completes an upgrade once the entry is the only holder. A cooldown does not delay it, because the entry already
    /// holds the lock.
    pub(crate) fn upgrade_if_alone(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        let Some(indexed) = self.locks.get(lock) else { return };
        let Some(before) = indexed.holders.upgrading().cloned() else { return };
        if indexed.is_alone(&before) {
            self.grant_upgrade(lock, &before, ctx);
        }
    }

    /// Grants the requested mode of a holder under a new token.
    fn grant_upgrade(
        &mut self,
        lock: &LockName,
        before: &Arc<LockEntry>,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(hold) = before.hold.as_deref().cloned() else { return };
        let Some(token) = self.locks.mint() else { return };
        let (granted_at, granted_in) = (ctx.now, ctx.revision);
        let hold = Hold { token, granted_at, granted_in, mode: before.mode, ..hold };
        let mut granted = (**before).clone();
        granted.claims.settle();
        granted.hold = Some(Box::new(hold));
        let granted = self.replace_upgraded(lock, before, granted, ctx);
        self.granted(lock, &granted, ctx);
    }

    /// Replaces a holder by its upgraded state. Curator's readers pass a holder with a shared name, so the entry gets
    /// another name at the same position.
    fn replace_upgraded(
        &mut self,
        lock: &LockName,
        before: &Arc<LockEntry>,
        mut granted: LockEntry,
        ctx: &mut ApplyContext<'_>,
    ) -> Arc<LockEntry> {
        let is_own = !before.never_overtaken || before.is_of_multi_lock();
        let renamed = (is_own && is_own_name_shared(before.path.file_name()))
            .then(|| self.exclusive_path(before, ctx))
            .flatten();
        let node = self.tree.get(&before.path).map(|node| (*node).clone());
        let (Some(path), Some(node)) = (renamed, node) else {
            let granted = Arc::new(granted);
            self.locks.replace(&mut self.tree, lock, before, &granted);
            return granted;
        };
        self.locks.leave(&mut self.tree, &SessionLockKey::of(lock, before), ctx);
        ctx.emit(TreeEvent::Deleted { path: before.path.clone(), acl: node.acl.clone() });
        granted.path = path;
        let granted = Arc::new(granted);
        self.locks.enter(&mut self.tree, lock, &granted, node);
        ctx.emit(TreeEvent::Created { path: granted.path.clone() });
        granted
    }

    /// The path of an entry with the name of an exclusive one and the same sequence number.
    fn exclusive_path(&self, entry: &LockEntry, ctx: &ApplyContext<'_>) -> Option<ZnodePath> {
        let directory = entry.path.parent()?;
        self.free_path(&directory, Mode::Exclusive, entry.sequence(), None, ctx).ok()
    }

    /// Leaves an entry some of its claims, and with them its mode. Grants waiters that a weaker mode admits.
    pub(crate) fn keep_claims(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        claims: Claims,
        ctx: &mut ApplyContext<'_>,
    ) {
        let wanted = claims.mode();
        let entry = self.update_entry(lock, entry, |entry| {
            if let Some(call) = claims.latest_waiting(entry.held_mode()) {
                (entry.requested_in, entry.wait_ms) = (call.requested_in, call.wait_ms);
            }
            entry.claims = claims;
        });
        if entry.hold.is_some() && wanted != entry.mode {
            // Fewer claims never want a stronger mode than is held or requested.
            self.convert(lock, &entry, Conversion::Down(wanted), ctx);
        }
    }
}

/// The rejection of a mode that an entry cannot get.
pub(super) fn conflict(entry: &LockEntry, why: ModeConflictReason) -> Rejection {
    let mode = entry.hold.as_ref().map_or(entry.mode, |hold| hold.mode);
    LockRejection::ModeConflict { mode, why }.into()
}
