//! Acquire: adds new entries to the queues. `acquire_again.rs` has the acquires of owners with an entry.
//!
//! A single lock is a multi-lock of one. A rejected acquire changes nothing, and does not open the session either. A
//! new entry is a new child, so the access list of the lock's directory must allow every client to create children.

use std::sync::Arc;

use holdfast_types::{
    Acquire, Bound, Data, EntryState, FencingToken, LockName, LockRejection, LockSet, Mode,
    OpenSession, Outcome, Owner, QuotaFull, QuotaKind, QuotaOwner, Rejection, Reply, Revision,
    SessionEnd, SessionId, SessionName, ShardChoice, Ticket, TreeRejection, ZnodePath,
};

use crate::Machine;
use crate::context::{ApplyContext, expired, limit_reached, no_session};
use crate::lock::claims::{ClaimCall, Claims};
use crate::lock::deadlock::NewWait;
use crate::lock::entry_location::EntryLocation;
use crate::lock::index::Lock;
use crate::lock::lock_entry::{LockEntry, boxed_unless_plain};
use crate::lock::policy::check_bounds;
use crate::lock::rank::{GrantRequest, Rank};
use crate::lock::stored_policy::StoredPolicy;
use crate::session::store::KnownSession;

impl Machine {
    /// Adds an entry to the queue of each lock of an acquire, or renews the owner's entries. Free locks are granted in
    /// the same command.
    pub(crate) fn acquire(&mut self, mut acquire: Acquire, ctx: &mut ApplyContext<'_>) -> Outcome {
        check_bounds(&acquire)?;
        let session = match self.sessions.named(&acquire.open.session) {
            Some(KnownSession::Open(id)) => Some(id),
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(acquire.open.session));
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None => None,
        };
        let sharded = acquire.shards.map(|_| acquire.locks.first().clone());
        let new_shards = self.choose_shard(session, &mut acquire, ctx.now)?;
        let entry_in = |lock| self.entry_for(session?, lock, &acquire).cloned();
        let entries: Vec<Option<Arc<LockEntry>>> = acquire.locks.iter().map(entry_in).collect();
        for (lock, entry) in acquire.locks.iter().zip(&entries) {
            let keeps = |attempt| entry.as_ref().is_some_and(|e| e.claims.contains(attempt));
            if acquire.change.is_none() && !acquire.attempt.is_some_and(keeps) {
                let remembered = sharded.clone().unwrap_or_else(|| self.remembered_as(lock));
                let lock_and_owner = (&remembered, &acquire.owner);
                self.check_attempt(&acquire.open.session, lock_and_owner, acquire.attempt)
                    .map_err(|why| in_lock(&acquire.locks, lock, why))?;
            }
        }
        let reply = match acquire.change {
            _ if entries.iter().any(Option::is_some) => self.acquire_again(&entries, &acquire, ctx),
            Some(claim) => Err(self.no_claim(&acquire, claim)),
            None => self.acquire_new(session, &acquire, ctx),
        }?;
        if let Some(new_shards) = new_shards {
            self.remember_shard_count(new_shards);
        }
        Ok(reply)
    }

    fn acquire_new(
        &mut self,
        session: Option<SessionId>,
        acquire: &Acquire,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let (locks, request) = (&acquire.locks, GrantRequest::of(acquire));
        self.check_reentrance(session, acquire)?;
        let mut waits = false;
        let mut stored_policy = None;
        for lock in locks.iter() {
            self.check_no_foreign_znode(lock).map_err(|why| in_lock(locks, lock, why))?;
            let policy = self.policy_for(lock, acquire);
            stored_policy = policy.map_err(|why| in_lock(locks, lock, why))?;
            let indexed = self.locks.get(lock);
            if let Some(indexed) = indexed.filter(|indexed| !indexed.admits(request, ctx.now)) {
                let full = acquire.queue_max.is_some_and(|max| indexed.waiting() >= max);
                if !acquire.wait || full {
                    return Err(in_lock(locks, lock, self.busy(indexed, None)));
                }
                waits = true;
            }
        }
        if session.is_none() {
            self.check_room_for_session()?;
        }
        self.check_room_for_entries(session, locks.count())?;
        // The search runs before the first change; its rejection has the lowest precedence.
        let deadlock =
            if waits { self.check_no_deadlock(session, acquire, request, ctx) } else { Ok(()) };
        if let Some(lock) = locks.single() {
            let location = self.check_new_entry(lock, request.mode, waits, ctx)?;
            deadlock?;
            let id = self.renew_or_open_session(session, &acquire.open, acquire.attempt, ctx);
            self.add_entry(lock, id, location, (stored_policy, None), acquire, ctx);
        } else {
            // The directory of one lock may lie in the directory of another, so each entry is added before the next
            // check.
            self.undo_if_rejected(ctx, |machine, ctx| {
                let id =
                    machine.renew_or_open_session(session, &acquire.open, acquire.attempt, ctx);
                let multi_lock = Arc::new(locks.clone());
                for lock in locks.iter() {
                    let location = machine.check_new_entry(lock, request.mode, waits, ctx);
                    let location = location.map_err(|why| in_lock(locks, lock, why))?;
                    let multi_lock = Some(Arc::clone(&multi_lock));
                    machine.add_entry(lock, id, location, (None, multi_lock), acquire, ctx);
                }
                deadlock
            })?;
            self.grant_next(locks.first(), ctx);
        }
        self.answer(acquire, false, false)
    }

    /// Returns the location of a new entry, if its queue and the tree have room for it.
    fn check_new_entry(
        &self,
        lock: &LockName,
        mode: Mode,
        waits: bool,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        if waits {
            self.check_room_for_waiter(lock)?;
        }
        self.check_room_for_attempt(0)?;
        self.location_with_room(lock, mode, ctx)
    }

    /// Adds an entry, and creates the missing directories above it.
    fn add_entry(
        &mut self,
        lock: &LockName,
        session: SessionId,
        location: EntryLocation,
        (stored_policy, multi_lock): (Option<StoredPolicy>, Option<Arc<LockSet>>),
        acquire: &Acquire,
        ctx: &mut ApplyContext<'_>,
    ) {
        for directory in &location.missing {
            self.make_directory(directory, None, ctx);
        }
        if let Some(stored_policy) = stored_policy {
            self.locks.set_policy(&mut self.tree, lock, &location.directory, stored_policy);
        }
        let request = GrantRequest::of(acquire);
        let (name, owner) = (acquire.open.session.clone(), acquire.owner.clone());
        let call = claim_call(acquire, lock, ctx.revision);
        let claims = Claims::of(acquire.attempt, request.mode, call);
        let entry = LockEntry {
            path: location.path,
            wait_ms: call.wait_ms,
            permits: request.permits,
            never_overtaken: request.never_overtaken,
            any_shard: acquire.shards.is_some_and(|shards| shards.choice == ShardChoice::Any),
            options: boxed_unless_plain(acquire.options.clone()),
            multi_lock,
            ..LockEntry::new(location.sequence, session, name, owner, claims, ctx)
        };
        self.enqueue(lock, &location.directory, (Data::default(), None), entry, ctx);
    }

    /// The reply to an acquire. `waits` is whether the caller waits for an upgrade of its hold.
    pub(super) fn answer(&self, acquire: &Acquire, waits: bool, renewed: bool) -> Outcome {
        let Acquire { locks, open: OpenSession { session, .. }, .. } = acquire;
        let entry = |id, lock: &LockName| Some((lock.clone(), self.entry_for(id, lock, acquire)?));
        let state = self.state_of_entries(locks, session, entry, waits);
        // Never `None`: the command has just added or found the entries.
        let mut state = state.ok_or_else(|| no_session(session.clone()))?;
        match &mut state {
            EntryState::Holding(grants) => {
                for grant in grants {
                    grant.renewed = renewed;
                }
            }
            // A caller ends the wait of its own call only.
            EntryState::Waiting(queued) => {
                for queued in queued {
                    queued.requested_in = self.revision;
                }
            }
        }
        Ok(Reply::Acquired(state))
    }

    /// Returns the state of an owner's entries in these locks: those with a ticket, or those that a call without an
    /// attempt means. A holder that waits for an upgrade counts as waiting. Returns `None` if a lock has no such entry.
    pub fn entry_state(
        &self,
        locks: &LockSet,
        session: &SessionName,
        owner: &Owner,
        ticket: Option<Ticket>,
    ) -> Option<EntryState> {
        let entry = |id, lock: &LockName| match ticket {
            Some(ticket) => {
                let found = self.locks.find(id, lock, owner, ticket);
                let found = found.filter(|entry| entry.ticket == ticket);
                let here = found.map(|entry| (lock.clone(), entry));
                here.or_else(|| self.moved_entry(id, lock, owner, ticket))
            }
            None => Some((lock.clone(), self.unnamed_entry(id, lock, owner)?)),
        };
        self.state_of_entries(locks, session, entry, true)
    }

    fn state_of_entries<'a>(
        &'a self,
        locks: &LockSet,
        session: &SessionName,
        entry: impl Fn(SessionId, &LockName) -> Option<(LockName, &'a Arc<LockEntry>)>,
        upgrade_waits: bool,
    ) -> Option<EntryState> {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return None };
        let entries = locks.iter().map(|lock| entry(id, lock));
        let entries: Vec<(LockName, _)> = entries.collect::<Option<_>>()?;
        let waits = |entry: &LockEntry| entry.hold.is_none() || upgrade_waits && entry.converts();
        if entries.iter().any(|(_, entry)| waits(entry)) {
            let queued = entries.iter().map(|(lock, entry)| self.queued_of(lock, entry));
            return Some(EntryState::Waiting(queued.collect::<Option<_>>()?));
        }
        let grants = entries.iter().map(|(lock, entry)| self.grant_of(lock, entry, false));
        Some(EntryState::Holding(grants.collect::<Option<_>>()?))
    }

    /// Rejects new entries that would close a deadlock cycle.
    fn check_no_deadlock(
        &self,
        session: Option<SessionId>,
        acquire: &Acquire,
        request: GrantRequest,
        ctx: &ApplyContext<'_>,
    ) -> Result<(), Rejection> {
        let wanted = acquire.locks.iter().map(|lock| {
            let indexed = self.locks.get(lock);
            let rank = indexed
                .map_or(Rank::before_all(0), |indexed| indexed.rank_of(request, ctx.now, u64::MAX));
            (lock.clone(), NewWait::NewEntry { request, rank })
        });
        self.check_deadlock(session, &acquire.owner, &wanted.collect::<Vec<_>>())
    }

    pub(crate) fn busy_for(&self, lock: &LockName, entry: &LockEntry) -> Rejection {
        match self.locks.get(lock) {
            Some(indexed) => self.busy(indexed, Some(entry)),
            None => Rejection::Tree(TreeRejection::NoZnode { path: entry.path.clone() }),
        }
    }

    /// Rejects a renewal whose limit or permits differ from those of the entry.
    pub(super) fn check_options(
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

    /// The rejection of a no-wait acquire. The cause is another holder, a cooldown, or a reservation for a multi-lock.
    fn busy(&self, indexed: &Lock, except: Option<&LockEntry>) -> Rejection {
        let (holder, waiters) = (self.first_holder(indexed, except), indexed.waiting());
        match (holder, &indexed.cooldowns) {
            (Some(holder), _) => {
                Rejection::Lock(LockRejection::Busy { holder: Box::new(holder), waiters })
            }
            (None, Some(cooldowns)) => Rejection::Lock(LockRejection::InCooldown {
                cooldown: cooldowns.longest(),
                waiters,
            }),
            (None, None) => Rejection::Lock(LockRejection::Reserved { waiters }),
        }
    }

    /// Rejects entries beyond the bound of the session, and entries for which no token is left.
    pub(crate) fn check_room_for_entries(
        &self,
        session: Option<SessionId>,
        count: usize,
    ) -> Result<(), Rejection> {
        let entries = session.and_then(|id| self.sessions.get(id)).map_or(0, |s| s.queue_entries);
        let max = self.limits.queue_entries_per_session_max;
        if u64::from(entries) + count as u64 > u64::from(max) {
            return Err(limit_reached(Bound::QueueEntriesPerSession, max));
        }
        self.check_tokens_left(count as u64)
    }

    /// Rejects another waiter in a full queue.
    pub(crate) fn check_room_for_waiter(&self, lock: &LockName) -> Result<(), Rejection> {
        let max = self.limits.waiters_per_lock_max;
        let waiting = self.locks.get(lock).map_or(0, Lock::waiting);
        if let Some((namespace, limit)) = self.quota_of_waiters(lock.as_str())
            && u64::from(waiting) >= limit
        {
            let (owner, used) = (QuotaOwner::Namespace(namespace.clone()), waiting.into());
            let quota = QuotaKind::WaitersPerLock;
            return Err(Rejection::QuotaFull(Box::new(QuotaFull { owner, quota, limit, used })));
        }
        if waiting >= max { Err(limit_reached(Bound::WaitersPerLock, max)) } else { Ok(()) }
    }

    /// Rejects grants for which the counter has too few tokens left.
    pub(crate) fn check_tokens_left(&self, count: u64) -> Result<(), Rejection> {
        if self.locks.tokens_left() < count {
            return Err(limit_reached(Bound::Counter, FencingToken::END));
        }
        Ok(())
    }

    /// Rejects an attempt beyond `hold_count_max`.
    pub(crate) fn check_room_for_attempt(&self, attempts: u32) -> Result<(), Rejection> {
        let max = self.limits.hold_count_max;
        if attempts >= max { Err(limit_reached(Bound::HoldCount, max)) } else { Ok(()) }
    }
}

impl LockEntry {
    /// Creates a waiting entry. The caller sets its path later.
    pub(crate) fn new(
        sequence: u64,
        session: SessionId,
        session_name: SessionName,
        owner: Owner,
        claims: Claims,
        ctx: &ApplyContext<'_>,
    ) -> Self {
        Self {
            path: ZnodePath::root(),
            rank: Rank { class: 0, at: 0, sequence },
            session,
            session_name,
            owner,
            ticket: Ticket(ctx.revision.0),
            requested_in: ctx.revision,
            since: ctx.now,
            wait_ms: None,
            mode: claims.mode(),
            value_by: claims.newest(),
            claims,
            permits: 1,
            never_overtaken: false,
            any_shard: false,
            options: None,
            multi_lock: None,
            hold: None,
        }
    }
}

/// The call of a claim. The first entry stores the deadline of a wait, because one cancel ends the wait for all locks.
pub(super) fn claim_call(acquire: &Acquire, lock: &LockName, requested_in: Revision) -> ClaimCall {
    ClaimCall { requested_in, wait_ms: acquire.wait_ms.filter(|_| lock == acquire.locks.first()) }
}

/// Adds the name of the lock to a rejection of a multi-lock acquire.
pub(crate) fn in_lock(locks: &LockSet, lock: &LockName, why: Rejection) -> Rejection {
    if locks.is_multi_lock() {
        LockRejection::OfMultiLock { lock: lock.clone(), why: Box::new(why) }.into()
    } else {
        why
    }
}
