//! Operator actions on a lock: break entries, and request holders to release it.
//!
//! A release request that revokes ends the hold at its deadline. A repeated request replaces the earlier one only if it
//! is stricter, so a repetition does not postpone the deadline. A sharded lock is no lock: the caller names a shard. Bound: one step for
//! each entry of the lock.

use std::sync::Arc;

use holdfast_types::{
    ForceRelease, ForceReleaseTarget, LockEvent, LockName, LossCause, OutOfBounds, Outcome,
    Rejection, ReleaseRequest, Reply, RequestRelease, Stamp,
};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::{Lock, SessionLockKey};
use crate::lock::lock_entry::LockEntry;

impl Machine {
    /// Removes entries, and grants the lock to the next waiters. The end of a hold, or a break of all holders, also ends
    /// the rest of a `min_hold` and of a cooldown. The token of the last hold does so while the lock has no holder.
    pub(crate) fn force_release(
        &mut self,
        release: ForceRelease,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let ForceRelease { lock, what, reason } = release;
        self.check_not_sharded(&lock)?;
        let indexed = self.locks.get(&lock);
        let entries = indexed.map_or(Vec::new(), |indexed| indexed.matching(what));
        let free = indexed.filter(|indexed| indexed.holders.is_empty());
        let last = free.and_then(|free| free.last_token).map(ForceReleaseTarget::Token);
        let ends_cooldown = what == ForceReleaseTarget::Holders
            || last == Some(what)
            || entries.iter().any(|entry| entry.hold.is_some());
        for entry in &entries {
            ctx.emit(LockEvent::BrokenByOperator {
                lock: lock.clone(),
                session: entry.session_name.clone(),
                owner: entry.owner.clone(),
                ticket: entry.ticket,
                token: entry.token(),
                reason: reason.clone(),
            });
            self.leave(&SessionLockKey::of(&lock, entry), LossCause::ForceReleased, ctx);
            self.close_if_anonymous_and_idle(entry.session, ctx);
        }
        if ends_cooldown {
            self.end_min_hold_and_cooldown(&lock, ctx);
        }
        self.grant_next(&lock, ctx);
        Ok(Reply::ForceReleased { places: u32::try_from(entries.len()).unwrap_or(u32::MAX) })
    }

    /// Requests holders to release the lock.
    pub(crate) fn request_release(
        &mut self,
        request: RequestRelease,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let RequestRelease { lock, holder, token, reason, deadline_ms, revoke } = request;
        if !(1..=RequestRelease::DEADLINE_MAX_MS).contains(&deadline_ms) {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Deadline });
        }
        self.check_not_sharded(&lock)?;
        let mut holders: Vec<Arc<LockEntry>> = match holder {
            // The rejection does not tell whether the session is open.
            Some((session, owner)) if token.is_none() => {
                let holder = self.holder_of(&lock, &session, &owner, None);
                vec![holder.map_err(|_| self.not_holder(&lock))?]
            }
            // A hold that has ended is not asked, and that is no error.
            Some((session, owner)) => {
                self.holder_of(&lock, &session, &owner, token).into_iter().collect()
            }
            None => {
                self.locks.get(&lock).map_or(Vec::new(), |l| l.holders.iter().cloned().collect())
            }
        };
        holders.retain(|holder| token.is_none() || holder.token() == token);
        let deadline = Stamp(ctx.now.0.saturating_add(deadline_ms));
        let request = ReleaseRequest { reason, requested_at: ctx.now, deadline, revoke };
        for holder in &holders {
            self.request_release_of(&lock, holder, request.clone(), ctx);
        }
        Ok(Reply::ReleaseRequested { holders: u32::try_from(holders.len()).unwrap_or(u32::MAX) })
    }

    fn request_release_of(
        &mut self,
        lock: &LockName,
        holder: &Arc<LockEntry>,
        request: ReleaseRequest,
        ctx: &mut ApplyContext<'_>,
    ) {
        let before = holder.release_request();
        let (Some(token), true) = (holder.token(), before.is_none_or(|b| is_stricter(&request, b)))
        else {
            return;
        };
        self.update_entry(lock, holder, |holder| {
            if let Some(hold) = &mut holder.hold {
                hold.release_request = Some(Box::new(request.clone()));
            }
        });
        ctx.emit(LockEvent::ReleaseRequested {
            lock: lock.clone(),
            session: holder.session_name.clone(),
            owner: holder.owner.clone(),
            ticket: holder.ticket,
            token,
            request,
        });
    }
}

impl Lock {
    /// Returns the entries that a break removes.
    fn matching(&self, what: ForceReleaseTarget) -> Vec<Arc<LockEntry>> {
        let all = self.holders.iter().chain(self.waiters.values());
        let meant = all.filter(|entry| match what {
            ForceReleaseTarget::Holders => entry.hold.is_some(),
            ForceReleaseTarget::Ticket(ticket) => entry.ticket == ticket,
            ForceReleaseTarget::Sequence(sequence) => entry.sequence() == sequence,
            ForceReleaseTarget::Token(token) => entry.token() == Some(token),
        });
        meant.cloned().collect()
    }
}

/// Whether a request is stricter than the earlier one, and therefore replaces it.
fn is_stricter(new: &ReleaseRequest, before: &ReleaseRequest) -> bool {
    match (new.revoke, before.revoke) {
        (true, false) => true,
        (false, true) => false,
        (true, true) | (false, false) => new.deadline < before.deadline,
    }
}
