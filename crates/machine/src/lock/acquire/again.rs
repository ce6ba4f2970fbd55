//! An acquire by an owner that has an entry: a copy or a renewal, another claim, or a change of a claim by name.
//!
//! A copy and a renewal change nothing but the lease. Another attempt nests: it adds a claim (`claims.rs`). Only a call
//! that names a claim converts it. A call that arrives after a newer change gets the present state.

use std::sync::Arc;

use holdfast_types::{
    Acquire, Attempt, Data, EntryState, LockEvent, LockName, LockRejection, LockSet, Mode,
    ModeConflictReason, Rejection,
};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::acquire::convert::{Conversion, conflict};
use crate::lock::acquire::{claim_call, in_lock};
use crate::lock::claims::{Claims, LockClaim};
use crate::lock::deadlock::NewWait;
use crate::lock::lock_entry::{LockEntry, boxed_unless_plain};

/// What an acquire does to an existing entry.
struct EntryUpdate {
    claims: Claims,
    conversion: Conversion,
    /// The new value, and the attempt that sets it.
    value: Option<(Data, Attempt)>,
    min_hold_ms: Option<u64>,
    /// Whether the caller waits, for the lock or for an upgrade.
    waits: bool,
}

impl EntryUpdate {
    /// Keeps an entry as it is.
    fn none(entry: &LockEntry) -> Self {
        let (claims, conversion) = (entry.claims.clone(), Conversion::Stay);
        let waits = entry.hold.is_none();
        Self { claims, conversion, value: None, min_hold_ms: None, waits }
    }

    fn changes(&self, entry: &LockEntry) -> bool {
        self.claims != entry.claims || self.value.is_some() || self.min_hold_ms.is_some()
    }
}

impl Machine {
    /// Renews the owner's existing entries, and adds or changes a claim of each. The session's lease is renewed.
    pub(super) fn acquire_again(
        &mut self,
        entries: &[Option<Arc<LockEntry>>],
        acquire: &Acquire,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<EntryState, Rejection> {
        let entries = entries_of_one_acquire(entries, &acquire.locks)?;
        let mut updates = Vec::with_capacity(entries.len());
        for (lock, entry) in acquire.locks.iter().zip(&entries) {
            let update = self.update_for(lock, entry, acquire);
            updates.push(update.map_err(|why| in_lock(&acquire.locks, lock, why))?);
        }
        if let Some(first) = entries.first() {
            self.renew_lease_by_name(first.session, &acquire.open, acquire.attempt, ctx);
        }
        let renewed = updates.iter().all(|update| !matches!(update.conversion, Conversion::Up(_)));
        let waits = updates.iter().any(|update| update.waits);
        for ((lock, entry), update) in acquire.locks.iter().zip(&entries).zip(updates) {
            self.update_as_acquired(lock, entry, update, acquire, ctx);
        }
        let mut state = self.state_of(&self.present(&acquire.locks, &entries), waits);
        match &mut state {
            EntryState::Holding(grants) => {
                for grant in grants {
                    grant.renewed = renewed;
                }
            }
            // A caller ends the wait of its own call only.
            EntryState::Waiting(queued) => {
                for queued in queued {
                    queued.requested_in = ctx.revision;
                }
            }
        }
        Ok(state)
    }

    /// Returns what an acquire does to an existing entry, unless a check rejects the acquire.
    fn update_for(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        acquire: &Acquire,
    ) -> Result<EntryUpdate, Rejection> {
        self.check_options(lock, entry, acquire)?;
        if entry.hold.is_none() && entry.is_of_multi_lock() != acquire.locks.is_multi_lock() {
            return Err(LockRejection::AlreadyQueued { lock: lock.clone() }.into());
        }
        let own = entry.claims.get(acquire.attempt.unwrap_or(Attempt::UNNAMED));
        let mut update = match (acquire.change, own, acquire.attempt) {
            (Some(claim), ..) => self.change_of(lock, entry, claim, acquire)?,
            (None, Some(claim), _) => copy_of(entry, claim, acquire)?,
            (None, None, None) => renewal_of(entry, acquire)?,
            (None, None, Some(attempt)) => self.nested_in(lock, entry, attempt, acquire)?,
        };
        update.conversion = self.conversion(lock, entry, &update.claims)?;
        let converts = update.conversion != Conversion::Stay || entry.converts();
        if acquire.locks.is_multi_lock() && converts && update.changes(entry) {
            return Err(conflict(entry, ModeConflictReason::NoOtherMode));
        }
        let is_granted = self.grants_now(lock, entry, update.conversion);
        if !acquire.wait && update.waits && !is_granted {
            // Another call waits for this entry, so a no-wait acquire must not change it.
            return Err(self.busy(lock, Some(entry)));
        }
        if update.conversion == Conversion::Up(Mode::Exclusive) {
            let wanted = [(lock.clone(), NewWait::Upgrade(entry.sequence()))];
            self.check_deadlock(Some(entry.session), &entry.owner, &wanted)?;
        }
        Ok(update)
    }

    /// Rejects a renewal whose limit or permits differ from those of the entry.
    fn check_options(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        acquire: &Acquire,
    ) -> Result<(), Rejection> {
        let limit = self.locks.get(lock).and_then(|lock| lock.policy().limit);
        if acquire.limit.is_some() && acquire.limit != limit {
            return Err(LockRejection::LimitMismatch { limit }.into());
        }
        let permits = entry.permits;
        if acquire.permits.is_some_and(|wanted| wanted != permits) {
            return Err(LockRejection::PermitsMismatch { permits }.into());
        }
        Ok(())
    }

    /// Adds the claim of another attempt.
    fn nested_in(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        attempt: Attempt,
        acquire: &Acquire,
    ) -> Result<EntryUpdate, Rejection> {
        if !(acquire.options.reentrant && entry.options().reentrant) {
            return Err(LockRejection::NotReentrant.into());
        }
        self.check_room_for_attempt(entry.claims.count())?;
        let is_semaphore = self.is_semaphore(lock);
        let default = if is_semaphore { entry.mode } else { Mode::default() };
        let mode = acquire.mode.unwrap_or(default);
        if (is_semaphore || entry.hold.is_none()) && mode != entry.mode {
            return Err(conflict(entry, ModeConflictReason::NoOtherMode));
        }
        let mut update = EntryUpdate::none(entry);
        update.claims.insert(attempt, mode, claim_call(acquire, lock, self.revision));
        update.value = newer_value(entry, attempt, acquire);
        update.waits = entry.hold.as_ref().is_none_or(|hold| mode.is_stronger_than(hold.mode));
        Ok(update)
    }

    /// Changes a claim by name. A copy of the change waits for the same upgrade; after a newer change it has no effect.
    fn change_of(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        claim: Attempt,
        acquire: &Acquire,
    ) -> Result<EntryUpdate, Rejection> {
        let by = acquire.attempt.unwrap_or(Attempt::UNNAMED);
        let claimed = self.claim_to_change(lock, entry, claim, acquire)?;
        let mut update = EntryUpdate::none(entry);
        if claimed.changed_by == Some(by) && by != Attempt::UNNAMED {
            update.waits |= claimed.before.is_some();
            let is_same = acquire.mode.is_none_or(|mode| mode == claimed.mode);
            return if is_same { Ok(update) } else { Err(same_attempt(claimed)) };
        }
        if !claimed.accepts_change(by) {
            return Ok(update);
        }
        let mode = acquire.mode.unwrap_or(claimed.mode);
        if (self.is_semaphore(lock) || entry.hold.is_none()) && mode != claimed.mode {
            return Err(conflict(entry, ModeConflictReason::NoOtherMode));
        }
        let upgrades = entry.hold.as_ref().is_some_and(|hold| mode.is_stronger_than(hold.mode));
        let call = upgrades.then(|| claim_call(acquire, lock, self.revision));
        update.claims.change(claim, mode, by, call);
        update.waits |= upgrades;
        update.value = newer_value(entry, by, acquire);
        // `min_hold` belongs to all claims, so a change of one of several does not replace it.
        update.min_hold_ms = acquire.options.min_hold_ms.filter(|_| entry.claims.count() == 1);
        Ok(update)
    }

    /// Returns the claim that a change names. Rejects a change whose claim or number is over.
    fn claim_to_change<'a>(
        &self,
        lock: &LockName,
        entry: &'a LockEntry,
        claim: Attempt,
        acquire: &Acquire,
    ) -> Result<&'a LockClaim, Rejection> {
        let (session, owner) = (&acquire.open.session, &acquire.owner);
        let check = |attempt| self.check_attempt(session, lock, owner, attempt);
        let Some(claimed) = entry.claims.get(claim) else {
            check(named(claim))?;
            return Err(self.not_holder(lock));
        };
        if claimed.changed_by.is_none_or(|by| Some(by) != acquire.attempt) {
            check(acquire.attempt)?;
        }
        Ok(claimed)
    }

    /// The rejection of a change by an owner without an entry: nothing is acquired.
    pub(super) fn no_claim(&self, acquire: &Acquire, claim: Attempt) -> Rejection {
        let (lock, session) = (acquire.locks.first(), &acquire.open.session);
        let over = self.check_attempt(session, lock, &acquire.owner, named(claim));
        let open = over.and_then(|()| self.open_session_named(session));
        open.map_or_else(|why| why, |_| self.not_holder(lock))
    }

    /// Applies an acquire to an existing entry, and grants waiters that its conversion admits.
    fn update_as_acquired(
        &mut self,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        update: EntryUpdate,
        acquire: &Acquire,
        ctx: &mut ApplyContext<'_>,
    ) {
        if !update.waits && !update.changes(entry) {
            return;
        }
        let EntryUpdate { mut claims, conversion, value, min_hold_ms, waits } = update;
        let value_changed = value.as_ref().is_some_and(|(value, _)| !entry.has_value(value));
        let current = self.update_entry(lock, entry, |entry| {
            if waits {
                let call = claim_call(acquire, lock, ctx.revision);
                if claims.repeat(acquire.attempt.unwrap_or(Attempt::UNNAMED), acquire.change, call)
                {
                    (entry.requested_in, entry.wait_ms) = (call.requested_in, call.wait_ms);
                }
            }
            entry.claims = claims;
            if value.is_some() || min_hold_ms.is_some() {
                let mut options = entry.options().clone();
                options.min_hold_ms = min_hold_ms.or(options.min_hold_ms);
                if let Some((value, by)) = value {
                    (options.value, entry.value_by) = (Some(value), by);
                }
                entry.options = boxed_unless_plain(options);
            }
        });
        if let (true, Some(grant)) = (value_changed, self.grant_of(lock, &current, true)) {
            ctx.emit(LockEvent::ValueChanged(grant));
        }
        self.convert(lock, &current, conversion, ctx);
    }
}

/// The number of a claim, unless its acquire had none.
fn named(claim: Attempt) -> Option<Attempt> {
    Some(claim).filter(|claim| *claim != Attempt::UNNAMED)
}

/// A copy of the acquire that made a claim, which it never changes.
fn copy_of(
    entry: &LockEntry,
    claim: &LockClaim,
    acquire: &Acquire,
) -> Result<EntryUpdate, Rejection> {
    let mut update = EntryUpdate::none(entry);
    if let Some(hold) = &entry.hold {
        update.waits = claim.before.is_none() && claim.mode.is_stronger_than(hold.mode);
    }
    if claim.changed_by.is_some() {
        // The copy may be older than the change, so it may differ.
        return Ok(update);
    }
    if acquire.mode.is_some_and(|mode| mode != claim.mode) {
        return Err(same_attempt(claim));
    }
    let value = acquire.options.value.as_ref().filter(|value| !entry.has_value(value));
    if value.is_some() && claim.attempt >= entry.value_by {
        return Err(LockRejection::ValueConflict.into());
    }
    Ok(update)
}

/// An acquire without an attempt, on an entry whose claims all have one.
fn renewal_of(entry: &LockEntry, acquire: &Acquire) -> Result<EntryUpdate, Rejection> {
    let present = entry.hold.as_ref().map_or(entry.mode, |hold| hold.mode);
    if acquire.mode.is_some_and(|mode| mode != present) {
        return Err(conflict(entry, ModeConflictReason::SameAttempt));
    }
    Ok(EntryUpdate::none(entry))
}

/// The value of an acquire, unless a newer attempt has set the present one.
fn newer_value(entry: &LockEntry, by: Attempt, acquire: &Acquire) -> Option<(Data, Attempt)> {
    let value = acquire.options.value.clone().filter(|_| by >= entry.value_by)?;
    Some((value, by))
}

fn same_attempt(claim: &LockClaim) -> Rejection {
    LockRejection::ModeConflict { mode: claim.mode, why: ModeConflictReason::SameAttempt }.into()
}

/// Returns the entries of an owner in these locks, if one acquire of exactly these locks added them.
fn entries_of_one_acquire(
    entries: &[Option<Arc<LockEntry>>],
    locks: &LockSet,
) -> Result<Vec<Arc<LockEntry>>, Rejection> {
    let mut found = entries.iter().flatten();
    let all: Vec<Arc<LockEntry>> = found.clone().cloned().collect();
    let of_multi_lock = |entry: &Arc<LockEntry>| {
        entry.multi_lock.as_deref() == Some(locks)
            && all.first().is_some_and(|first| entry.ticket == first.ticket)
    };
    let complete = all.len() == locks.count() && found.all(of_multi_lock);
    if locks.is_multi_lock() && !complete {
        let first = locks.iter().zip(entries).find(|(_, entry)| entry.is_some());
        let lock = first.map_or(locks.first(), |(lock, _)| lock).clone();
        return Err(LockRejection::AlreadyQueued { lock }.into());
    }
    Ok(all)
}
