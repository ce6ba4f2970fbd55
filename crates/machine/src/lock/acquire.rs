//! Acquire: renews an entry, adds an attempt to it, converts its mode, or adds a new entry at the end of the queue.
//!
//! Everything is checked before anything changes, so a rejected acquire leaves nothing behind, not even the session
//! that it would have opened. A new entry is a new child, so the access list of the lock's directory must let anyone
//! create.

use std::sync::Arc;

use holdfast_types::{
    Acquire, Bound, Data, FencingToken, LockEvent, LockName, LockRejection, Mode, OpenSession,
    Outcome, Owner, Perms, Rejection, Reply, SessionEnd, SessionId, SessionName, Stamp, Ticket,
    TreeRejection, ZnodePath,
};

use crate::Machine;
use crate::apply::{ApplyContext, expired, limit_reached};
use crate::lock::convert::Conversion;
use crate::lock::deadlock::Wanted;
use crate::lock::index::Lock;
use crate::lock::lock_entry::{AcquireOptions, GrantRequest, LockEntry};
use crate::lock::policy::check_bounds;
use crate::lock::rank::Rank;
use crate::session::attempts::Attempts;
use crate::session::store::KnownSession;
use crate::tree::create::{check_counter, child_path};
use crate::tree::multi::Requester;

/// The requester of the HTTP API: it shows no identities, so access lists must let anyone do what it does.
pub(crate) const ANYBODY: Requester<'_> = Requester { session: None, shown: &[] };

/// Where a new entry goes: the missing directories, its znode and its sequence number.
#[derive(Debug)]
pub(crate) struct EntryLocation {
    pub(crate) directory: ZnodePath,
    /// Directories to be created, parents first.
    pub(crate) missing: Vec<ZnodePath>,
    pub(crate) path: ZnodePath,
    pub(crate) sequence: u64,
}

impl Machine {
    /// Enters the queue of a lock or of one of its shards, and holds it at once if it is free.
    pub(crate) fn acquire(&mut self, mut acquire: Acquire, ctx: &mut ApplyContext<'_>) -> Outcome {
        check_bounds(&acquire)?;
        let session = match self.sessions.named(&acquire.open.session) {
            Some(KnownSession::Open(id)) => Some(id),
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(acquire.open.session));
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None => None,
        };
        let remembered = match acquire.segments {
            Some(_) => acquire.lock.clone(),
            None => self.remembered_as(&acquire.lock),
        };
        let new_shards = self.choose_shard(session, &mut acquire, ctx.now)?;
        let place = |id| self.locks.find(id, &acquire.lock, &acquire.owner, Ticket(0)).cloned();
        let place = session.and_then(place);
        let keeps =
            |place: &Arc<LockEntry>| acquire.attempt.is_some_and(|a| place.attempts.contains(a));
        if !place.as_ref().is_some_and(keeps) {
            let place = (&remembered, &acquire.owner);
            self.check_attempt(&acquire.open.session, place, acquire.attempt)?;
        }
        let reply = match place {
            Some(entry) => self.acquire_again(&entry, acquire, ctx),
            None => self.acquire_new(session, acquire, ctx),
        }?;
        if let Some(new_shards) = new_shards {
            self.remember_shard_count(new_shards);
        }
        Ok(reply)
    }

    /// Renews the entry that the owner has: it keeps its token or its position, and the session gets a new lease.
    fn acquire_again(
        &mut self,
        entry: &Arc<LockEntry>,
        acquire: Acquire,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        self.check_options(entry, &acquire)?;
        if entry.hold.is_none() && !entry.multi_lock().is_empty() {
            return Err(LockRejection::AlreadyQueued { lock: acquire.lock }.into());
        }
        let conversion = self.conversion(&acquire.lock, entry, acquire.mode)?;
        let Acquire { lock, open, attempt, wait, wait_ms, reentrant, value, .. } = acquire;
        let waits = match conversion {
            Conversion::Stay => entry.waits(),
            Conversion::Down(_) => false,
            Conversion::Up => true,
        };
        let alone = conversion == Conversion::Up
            && self.locks.get(&lock).is_some_and(|lock| lock.holders.len() == 1);
        if !wait && waits && !alone {
            // A no-wait acquire does not change the entry for which another call waits.
            return Err(self.busy_for(&lock, entry));
        }
        let attempt = attempt.filter(|attempt| !entry.attempts.contains(*attempt));
        if attempt.is_some() {
            self.check_reentry(entry, reentrant)?;
        }
        if conversion == Conversion::Up && !alone {
            let wanted = [(lock.clone(), Wanted::Upgrade(entry.sequence()))];
            self.check_deadlock(Some(entry.session), &entry.owner, &wanted)?;
        }
        let value = value.filter(|value| entry.options().value.as_ref() != Some(value));
        self.touch_by_name(entry.session, open.ttl, open.labels, ctx);
        if !waits && conversion == Conversion::Stay && attempt.is_none() && value.is_none() {
            return self.answer(&lock, entry, true);
        }
        let shows_another = value.is_some();
        let current = self.amend(&lock, entry, |entry| {
            if waits {
                (entry.asked, entry.wait_ms) = (ctx.revision, wait_ms);
            }
            if let Some(attempt) = attempt {
                entry.attempts.insert(attempt);
            }
            if value.is_some() {
                entry.options = AcquireOptions { value, ..entry.options().clone() }.kept();
            }
            convert(entry, conversion);
        });
        if let (true, Some(grant)) = (shows_another, self.grant_of(&lock, &current, true)) {
            ctx.emit(LockEvent::ValueChanged(grant));
        }
        self.after_conversion(&lock, current, conversion, ctx)
    }

    /// Grants what a conversion makes possible, and replies with the state of the entry after that.
    fn after_conversion(
        &mut self,
        lock: &LockName,
        current: Arc<LockEntry>,
        conversion: Conversion,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        match conversion {
            Conversion::Stay => return self.answer(lock, &current, true),
            Conversion::Down(_) => self.converted(lock, &current, ctx),
            Conversion::Up => self.upgrade_if_alone(lock, ctx),
        }
        let now = self.locks.get(lock).and_then(|lock| lock.entry(&current.rank).cloned());
        self.answer(lock, &now.unwrap_or(current), conversion != Conversion::Up)
    }

    /// Adds a new entry.
    fn acquire_new(
        &mut self,
        session: Option<SessionId>,
        acquire: Acquire,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let (request, options) = (GrantRequest::of(&acquire), AcquireOptions::of(&acquire));
        let stored_policy = self.policy_for(&acquire)?;
        let Acquire { lock, open, owner, attempt, wait, wait_ms, .. } = acquire;
        if !wait {
            self.check_not_busy(&lock, request, ctx.now)?;
        }
        if session.is_none() {
            self.check_room_for_session()?;
        }
        self.check_room_for_entry(session, &lock, request, ctx)?;
        self.check_room_for_attempt(0)?;
        let location = self.location_with_room(&lock, ctx)?;
        // The last check, because it takes longest.
        self.check_no_deadlock(session, &owner, &lock, request, ctx)?;

        let name = open.session.clone();
        let session = self.touch_or_begin(session, open, ctx);
        for directory in &location.missing {
            self.make_directory(directory, None, ctx);
        }
        if let Some(stored_policy) = stored_policy {
            self.locks.set_policy(&mut self.tree, &lock, &location.directory, stored_policy);
        }
        let attempts = Attempts::of(attempt);
        let entry = LockEntry {
            path: location.path,
            wait_ms,
            mode: request.mode,
            options: options.kept(),
            ..LockEntry::new(location.sequence, session, name, owner, attempts, ctx)
        };
        let entry = self.enqueue(&lock, &location.directory, (Data::default(), None), entry, ctx);
        self.answer(&lock, &entry, false)
    }

    pub(crate) fn touch_or_begin(
        &mut self,
        session: Option<SessionId>,
        open: OpenSession,
        ctx: &mut ApplyContext<'_>,
    ) -> SessionId {
        match session {
            Some(id) => {
                self.touch_by_name(id, open.ttl, open.labels, ctx);
                id
            }
            None => self.begin_session(open, ctx),
        }
    }

    fn answer(&self, lock: &LockName, entry: &LockEntry, renewed: bool) -> Outcome {
        if !entry.waits()
            && let Some(grant) = self.grant_of(lock, entry, renewed)
        {
            return Ok(Reply::Granted(grant));
        }
        match self.queued_of(lock, entry) {
            Some(queued) => Ok(Reply::Queued(queued)),
            // Unreachable: the session of an entry is open.
            None => Err(Rejection::Tree(TreeRejection::NoZnode { path: entry.path.clone() })),
        }
    }

    /// Rejects a no-wait acquire that would have to queue.
    pub(crate) fn check_not_busy(
        &self,
        lock: &LockName,
        request: GrantRequest,
        now: Stamp,
    ) -> Result<(), Rejection> {
        match self.locks.get(lock) {
            Some(indexed) if !indexed.admits(request, now) => Err(self.busy(indexed, None)),
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects a new entry that would wait for its own owner.
    fn check_no_deadlock(
        &self,
        session: Option<SessionId>,
        owner: &Owner,
        lock: &LockName,
        request: GrantRequest,
        ctx: &ApplyContext<'_>,
    ) -> Result<(), Rejection> {
        match self.locks.get(lock).filter(|indexed| !indexed.admits(request, ctx.now)) {
            Some(indexed) => {
                let rank = indexed.rank_of(request, ctx.now, u64::MAX);
                let wanted = [(lock.clone(), Wanted::Place { request, rank })];
                self.check_deadlock(session, owner, &wanted)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn busy_for(&self, lock: &LockName, entry: &LockEntry) -> Rejection {
        match self.locks.get(lock) {
            Some(indexed) => self.busy(indexed, Some(entry)),
            None => Rejection::Tree(TreeRejection::NoZnode { path: entry.path.clone() }),
        }
    }

    /// Rejects a renewal that names another limit or other permits than the entry has.
    fn check_options(&self, entry: &LockEntry, acquire: &Acquire) -> Result<(), Rejection> {
        let limit = self.locks.get(&acquire.lock).and_then(|lock| lock.policy().limit);
        if acquire.limit.is_some() && acquire.limit != limit {
            return Err(LockRejection::LimitMismatch { limit }.into());
        }
        let permits = entry.options().permits;
        if acquire.permits.is_some_and(|wanted| wanted != permits) {
            return Err(LockRejection::PermitsMismatch { permits }.into());
        }
        Ok(())
    }

    /// The rejection of a no-wait acquire: another holder, a cooldown, or a lock that is kept for a multi-lock.
    fn busy(&self, indexed: &Lock, apart: Option<&LockEntry>) -> Rejection {
        let (holder, waiters) = (self.first_holder(indexed, apart), indexed.waiting());
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

    /// Rejects an entry beyond the bounds of the session and the queue, and each entry when no token is left to grant.
    pub(crate) fn check_room_for_entry(
        &self,
        session: Option<SessionId>,
        lock: &LockName,
        request: GrantRequest,
        ctx: &ApplyContext<'_>,
    ) -> Result<(), Rejection> {
        let places = session.and_then(|id| self.sessions.get(id)).map_or(0, |s| s.queue_entries);
        let max = self.limits.queue_entries_per_session_max;
        if places >= max {
            return Err(limit_reached(Bound::QueueEntriesPerSession, max));
        }
        self.check_tokens_left(1)?;
        let max = self.limits.waiters_per_lock_max;
        match self.locks.get(lock) {
            Some(lock) if lock.waiting() >= max && !lock.admits(request, ctx.now) => {
                Err(limit_reached(Bound::WaitersPerLock, max))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects grants for which no tokens are left.
    pub(crate) fn check_tokens_left(&self, count: u64) -> Result<(), Rejection> {
        if self.locks.tokens_left() < count {
            return Err(limit_reached(Bound::Counter, FencingToken::END));
        }
        Ok(())
    }

    /// Rejects another attempt on a hold that is not reentrant, and one attempt too many.
    fn check_reentry(&self, entry: &LockEntry, reentrant: bool) -> Result<(), Rejection> {
        if !(reentrant && entry.options().reentrant) {
            return Err(LockRejection::NotReentrant.into());
        }
        self.check_room_for_attempt(entry.attempts.count())
    }

    pub(crate) fn check_room_for_attempt(&self, attempts: u32) -> Result<(), Rejection> {
        let max = self.limits.hold_count_max;
        if attempts >= max { Err(limit_reached(Bound::HoldCount, max)) } else { Ok(()) }
    }

    /// Where a new entry of the HTTP API goes, if there is room for its znode.
    pub(crate) fn location_with_room(
        &self,
        lock: &LockName,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        let location = self.location_of(lock, ctx)?;
        self.check_room_for_znodes(location.missing.len() + 1)?;
        let new = location.missing.iter().chain(Some(&location.path));
        self.tree.check_quotas(&location.path, &new, 0)?;
        Ok(location)
    }

    fn location_of(
        &self,
        lock: &LockName,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        let (directory, missing) = if let Some(indexed) = self.locks.get(lock) {
            (indexed.directory.clone(), Vec::new())
        } else {
            let directory = ZnodePath::of_lock(lock);
            let missing = self.missing_directories(&directory)?;
            (directory, missing)
        };
        let nearest = missing.first().and_then(ZnodePath::parent);
        let nearest =
            self.allowed(nearest.as_ref().unwrap_or(&directory), Perms::CREATE, ANYBODY)?;
        let sequence = nearest.next_sequence(!missing.is_empty());
        check_counter(sequence)?;
        let name = format!("lock-{sequence:010}");
        let path = child_path(&directory, &name)?;
        if !self.tree.contains(&path) {
            return Ok(EntryLocation { directory, missing, path, sequence });
        }
        // A plain node has that name. The sequence number counts, not the name, so another name is used.
        let name = format!("lock-r{}-{sequence:010}", ctx.revision);
        let path = child_path(&directory, &name)?;
        if self.tree.contains(&path) {
            return Err(TreeRejection::ZnodeExists { path }.into());
        }
        Ok(EntryLocation { directory, missing, path, sequence })
    }
}

impl LockEntry {
    /// A waiting entry made by this command. Its path is still to be set.
    pub(crate) fn new(
        sequence: u64,
        session: SessionId,
        session_name: SessionName,
        owner: Owner,
        attempts: Attempts,
        ctx: &ApplyContext<'_>,
    ) -> Self {
        Self {
            path: ZnodePath::root(),
            rank: Rank { class: 0, at: 0, sequence },
            session,
            session_name,
            owner,
            ticket: Ticket(ctx.revision.0),
            asked: ctx.revision,
            since: ctx.now,
            wait_ms: None,
            attempts,
            mode: Mode::Exclusive,
            fixed: false,
            options: None,
            hold: None,
        }
    }
}

/// Sets the mode that an entry is converted to.
fn convert(entry: &mut LockEntry, conversion: Conversion) {
    match (conversion, &mut entry.hold) {
        (Conversion::Down(mode), Some(hold)) => (hold.mode, entry.mode) = (mode, mode),
        (Conversion::Up, _) => entry.mode = Mode::Exclusive,
        (Conversion::Stay | Conversion::Down(_), _) => {}
    }
}
