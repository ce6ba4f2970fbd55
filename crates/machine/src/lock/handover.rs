//! Hands a hold over to another live session in one step, so that no waiter is granted in between.
//!
//! The new holder precedes all waiters. ZooKeeper clients decide by the order of the znodes alone. A new entry
//! therefore takes the sequence number of the entry that it replaces. A queued entry receives the hold only if no
//! ZooKeeper client waits before it. Bound: one step for each entry of the lock.

use std::sync::Arc;

use holdfast_types::{
    AcquireOptions, Bound, Data, FencingToken, HandOver, LockName, LockRejection, LossCause, Mode,
    ModeConflictReason, Outcome, Owner, Perms, Rejection, Reply, SessionId, SessionName, Ticket,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::claims::{ClaimCall, Claims};
use crate::lock::entry_name::EntryRecipe;
use crate::lock::index::{Lock, SessionLockKey};
use crate::lock::lock_entry::{LockEntry, SessionOwner, boxed_unless_plain};
use crate::lock::rank::{GrantRequest, Rank};
use crate::session::memo::{self, AnsweredCall};
use crate::tree::create::check_counter;
use crate::tree::multi::Requester;
use crate::tree::znode::{Znode, ZnodeKind};

impl Machine {
    /// Hands a hold to another live session. If the call names the token, the receiving session stores the reply, and a
    /// copy of the call returns it again.
    pub(crate) fn hand_over(&mut self, hand_over: HandOver, ctx: &mut ApplyContext<'_>) -> Outcome {
        let to = self.open_session_named(&hand_over.to.0).or_else(|gone| {
            // Only a holder learns that the receiver is not open.
            self.hold_to_hand_over(&hand_over).and(Err(gone))
        })?;
        let (lock, to_owner) = (hand_over.lock.clone(), hand_over.to.1.clone());
        let call = hand_over.token.map(|token| {
            let scope = [lock.as_str(), to_owner.as_str(), &token.to_string()];
            AnsweredCall::HandOver(memo::scope_of(&scope))
        });
        if let Some(first) = call.and_then(|call| self.recalled(to, call)) {
            return first;
        }
        let granted = self.hand_over_once(hand_over, to, ctx)?;
        if let Some(call) = call {
            self.remember(to, call, Ok(granted.clone()));
        }
        Ok(granted)
    }

    fn hand_over_once(
        &mut self,
        hand_over: HandOver,
        to: SessionId,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let (lock, holder) = self.hold_to_hand_over(&hand_over)?;
        let (to_session, to_owner) = hand_over.to;
        let found = self.locks.find(to, &lock, &to_owner, Ticket(0)).cloned();
        if let Some(itself) = found.as_ref().filter(|found| found.path == holder.path) {
            let grant = self.grant_of(&lock, itself, true);
            return grant.map(Reply::HandedOver).ok_or(Rejection::Lock(LockRejection::NotHeld));
        }
        if let Some(other) = found.as_ref().and_then(|found| self.holder_view(found)) {
            return Err(LockRejection::AlreadyHolds { holder: Box::new(other) }.into());
        }
        self.check_no_other_shard(Some(to), &lock, &to_owner, &lock.clone().into())?;
        self.check_tokens_left(1)?;
        self.undo_if_rejected(ctx, |machine, ctx| {
            let receiver = SessionOwner { id: to, session: to_session, owner: to_owner };
            let granted = match found {
                Some(waiter) => machine.hand_to_waiter(&lock, &holder, &waiter, ctx)?,
                None => machine.hand_to_new_entry(&lock, &holder, receiver, ctx)?,
            };
            machine.close_if_anonymous_and_idle(holder.session, ctx);
            machine.grant_next(&lock, ctx);
            machine.check_handover_deadlock(&lock, &granted)?;
            let grant = machine.grant_of(&lock, &granted, false);
            grant.map(Reply::HandedOver).ok_or(Rejection::Lock(LockRejection::NotHeld))
        })
    }

    /// Returns the hold that the call names, and its lock: for a sharded lock, the shard of the giver.
    pub(crate) fn hold_to_hand_over(
        &self,
        hand_over: &HandOver,
    ) -> Result<(LockName, Arc<LockEntry>), Rejection> {
        let HandOver { lock, from: (session, owner), token, .. } = hand_over;
        let lock = self.lock_of_owner(self.open_session_named(session)?, lock.clone(), owner);
        self.check_not_sharded(&lock)?;
        let holder = self.holder_of(&lock, session, owner, *token)?;
        Ok((lock, holder))
    }

    /// Returns the hold of an owner of an open session; with a token, only the hold with that token.
    pub(crate) fn holder_of(
        &self,
        lock: &LockName,
        session: &SessionName,
        owner: &Owner,
        token: Option<FencingToken>,
    ) -> Result<Arc<LockEntry>, Rejection> {
        let id = self.open_session_named(session)?;
        let is_meant = |entry: &&Arc<LockEntry>| {
            entry.hold.is_some() && (token.is_none() || entry.token() == token)
        };
        let entry = self.entries_of_owner(id, lock, owner).find(is_meant);
        entry.cloned().ok_or_else(|| self.not_holder(lock))
    }

    /// The rejection of a call that needs a hold of its own.
    pub(super) fn not_holder(&self, lock: &LockName) -> Rejection {
        match self.locks.get(lock).and_then(|lock| self.first_holder(lock, None)) {
            Some(holder) => Rejection::Lock(LockRejection::NotHolder { holder: Box::new(holder) }),
            None => Rejection::Lock(LockRejection::NotHeld),
        }
    }

    /// Hands the hold to a queued entry, which keeps its own options.
    fn hand_to_waiter(
        &mut self,
        lock: &LockName,
        holder: &LockEntry,
        waiter: &Arc<LockEntry>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Arc<LockEntry>, Rejection> {
        let Some(indexed) = self.locks.get(lock) else {
            return Err(LockRejection::NotHeld.into());
        };
        if waiter.is_of_multi_lock() {
            return Err(LockRejection::AlreadyQueued { lock: lock.clone() }.into());
        }
        indexed.check_fits_instead_of(holder, waiter.request())?;
        if indexed.is_overtaking(waiter) {
            return Err(LockRejection::CannotOvertake.into());
        }
        self.end_handed_over_hold(lock, holder, ctx);
        let granted = self.granted_ahead_of_queue(lock, (**waiter).clone(), ctx);
        let granted = Arc::new(granted);
        self.locks.replace(&mut self.tree, lock, waiter, &granted);
        self.granted(lock, &granted, ctx);
        Ok(granted)
    }

    /// Hands the hold to a new entry, which takes the sequence number of the holder's entry.
    fn hand_to_new_entry(
        &mut self,
        lock: &LockName,
        holder: &LockEntry,
        receiver: SessionOwner,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Arc<LockEntry>, Rejection> {
        if self.foreign_znodes(lock).next().is_some() {
            return Err(LockRejection::CannotOvertake.into());
        }
        let max = self.limits.queue_entries_per_session_max;
        if self.sessions.get(receiver.id).is_some_and(|session| session.queue_entries >= max) {
            return Err(limit_reached(Bound::QueueEntriesPerSession, max));
        }
        let Some(indexed) = self.locks.get(lock) else {
            return Err(LockRejection::NotHeld.into());
        };
        let held = holder.hold.as_ref().map_or(holder.mode, |hold| hold.mode);
        // A reader of ZooKeeper holds a semaphore alone, too.
        let mode = indexed.policy().limit.map_or(held, |_| Mode::Exclusive);
        let request = GrantRequest {
            mode,
            permits: holder.permits,
            priority: 0,
            never_overtaken: false,
            recipe: EntryRecipe::Own,
        };
        indexed.check_fits_instead_of(holder, request)?;
        let directory = indexed.directory.clone();
        check_counter(self.allowed(&directory, Perms::CREATE, Requester::ANYBODY)?.counter())?;
        // A ZooKeeper client would mistake a znode with the name of its own znode for its own.
        let replaced = Some(&holder.path).filter(|_| !holder.never_overtaken);
        let path = self.free_path(&directory, mode, holder.sequence(), replaced, ctx)?;
        self.end_handed_over_hold(lock, holder, ctx);
        let options = AcquireOptions {
            priority: 0,
            reentrant: true,
            value: None,
            ..holder.options().clone()
        };
        // The claims of the giver end; the receiver has one, in the mode of the hold.
        let claims = Claims::of(None, mode, ClaimCall::at(ctx.revision));
        let kind = ZnodeKind::Ephemeral(receiver.id);
        let rank = Rank::before_all(holder.sequence());
        let new = LockEntry {
            permits: holder.permits,
            options: boxed_unless_plain(options),
            ..LockEntry::new(path, rank, receiver, claims, ctx)
        };
        let granted = self.granted_ahead_of_queue(lock, new, ctx);
        let node = Znode::new(kind, Data::default(), ctx.revision, ctx.now);
        Ok(self.insert_entry(lock, granted, node, ctx).0)
    }

    fn end_handed_over_hold(
        &mut self,
        lock: &LockName,
        holder: &LockEntry,
        ctx: &mut ApplyContext<'_>,
    ) {
        self.leave(&SessionLockKey::of(lock, holder), LossCause::HandedOver, ctx);
    }

    /// Makes an entry the next holder, ranked before all waiters.
    fn granted_ahead_of_queue(
        &mut self,
        lock: &LockName,
        entry: LockEntry,
        ctx: &ApplyContext<'_>,
    ) -> LockEntry {
        let hold = self.hold_for(lock, &entry, ctx).map(Box::new);
        let rank = Rank::before_all(entry.sequence());
        LockEntry { rank, hold, ..entry }
    }
}

impl Lock {
    /// Rejects a request that is incompatible with the holders that remain after this one leaves.
    fn check_fits_instead_of(
        &self,
        holder: &LockEntry,
        request: GrantRequest,
    ) -> Result<(), Rejection> {
        let mut without = self.clone();
        without.holders.remove(holder.sequence());
        match self.policy().limit {
            _ if without.has_room_for(request) => Ok(()),
            Some(_) => {
                Err(Rejection::Lock(LockRejection::PermitsMismatch { permits: request.permits }))
            }
            None => Err(Rejection::Lock(LockRejection::ModeConflict {
                mode: request.mode,
                why: ModeConflictReason::HandOver,
            })),
        }
    }

    /// Whether granting this waiter now would overtake a ZooKeeper client. A `never_overtaken` waiter must overtake no other.
    fn is_overtaking(&self, waiter: &LockEntry) -> bool {
        let mut ahead = self.waiters.range(..waiter.rank).map(|(_, ahead)| ahead);
        if waiter.never_overtaken {
            ahead.next().is_some()
        } else {
            ahead.any(|ahead| ahead.never_overtaken && !ahead.is_of_multi_lock())
        }
    }
}
