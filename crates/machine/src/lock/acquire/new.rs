//! An acquire by an owner without an entry: adds one to the queue of each lock, and grants the free locks.
//!
//! `mod.rs` lists the checks. A new entry is a new child, so the access list of the lock's directory must allow every client
//! to create children.

use std::sync::Arc;

use holdfast_types::{
    Acquire, Bound, Data, EntryState, Grant, LockName, LockSet, Mode, Perms, QuotaFull, QuotaKind,
    QuotaOwner, Rejection, SessionId, ShardChoice, TreeRejection, ZnodePath,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::acquire::{claim_call, in_lock};
use crate::lock::claims::Claims;
use crate::lock::deadlock::NewWait;
use crate::lock::entry_name::own_name;
use crate::lock::index::{EntryPosition, Lock, StoredPolicy};
use crate::lock::lock_entry::{LockEntry, SessionOwner, boxed_unless_plain};
use crate::lock::rank::GrantRequest;
use crate::session::store::is_nested;
use crate::tree::create::{check_counter, child_path};
use crate::tree::multi::Requester;
use crate::tree::znode::{Znode, ZnodeKind};

/// A new entry of an acquire, after the checks of its lock.
struct NewEntry<'a> {
    lock: &'a LockName,
    position: EntryPosition,
    /// The policy to set with the entry, in a new lock.
    stored_policy: Option<StoredPolicy>,
    any_shard: bool,
    multi_lock: Option<Arc<LockSet>>,
}

/// The location of a new entry: the missing directories, its znode and its sequence number.
#[derive(Debug)]
pub(crate) struct EntryLocation {
    directory: ZnodePath,
    /// Directories to create, parents first.
    pub(crate) missing: Vec<ZnodePath>,
    pub(crate) path: ZnodePath,
    pub(crate) sequence: u64,
}

impl Machine {
    pub(super) fn acquire_new(
        &mut self,
        session: Option<SessionId>,
        acquire: &Acquire,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<EntryState, Rejection> {
        let locks = &acquire.locks;
        let oldest = self.check_reentrance(session, acquire)?;
        // Another attempt of an owner waits for the shard of the others.
        let any_shard = oldest.is_none() && asks_for_any_shard(acquire);
        let multi_lock = locks.is_multi_lock().then(|| Arc::new(locks.clone()));
        let mut new_entries = Vec::with_capacity(locks.count());
        for lock in locks.iter() {
            let checked = self.check_lock_of_new_entry(lock, acquire, ctx);
            let (position, stored_policy) = checked.map_err(|why| in_lock(locks, lock, why))?;
            let multi_lock = multi_lock.clone();
            new_entries.push(NewEntry { lock, position, stored_policy, any_shard, multi_lock });
        }
        if session.is_none() {
            self.check_room_for_session()?;
        }
        self.check_room_for_entries(session, locks.count())?;
        // The search runs before the first change; its rejection has the lowest precedence.
        let waits = new_entries.iter().any(|new| !new.position.is_admitted);
        let kept = oldest.filter(|oldest| oldest.any_shard && oldest.hold.is_none());
        let open = &acquire.open;
        let deadlock = if session.is_none() && waits && is_nested(&open.session) {
            // The session for which the new one works waits for it. The maps are persistent, so a fork costs O(1).
            let (mut fork, mut events) = (self.clone(), Vec::new());
            let (revision, now, actor) = (ctx.revision, ctx.now, ctx.actor.clone());
            let mut ctx = ApplyContext::new(revision, now, actor, &mut events);
            let session = fork.open_new_session(open.clone(), acquire.attempt, &mut ctx);
            fork.check_no_deadlock(Some(session), acquire, &new_entries, None)
        } else {
            self.check_no_deadlock(session, acquire, &new_entries, kept.as_deref())
        };
        if let [new] = &new_entries[..] {
            let location = self.check_new_entry(new, waits, acquire, ctx)?;
            deadlock?;
            let session = self.renew_or_open_session(session, open, acquire.attempt, ctx);
            let (entry, grant) = self.add_entry(new, location, session, acquire, ctx);
            if let Some(kept) = kept {
                self.keep_in_queue(new.lock, &kept, ctx);
                return Ok(self.state_of(&self.present(locks, &[entry]), false));
            }
            let waiting = || EntryState::Waiting(vec![self.queued_of(new.lock, &entry)]);
            return Ok(grant.map_or_else(waiting, |grant| EntryState::Holding(vec![grant])));
        }
        // The directory of one lock may lie in the directory of another, so each entry is added before the next check.
        let entries = self.undo_if_rejected(ctx, |machine, ctx| {
            let session = machine.renew_or_open_session(session, open, acquire.attempt, ctx);
            let mut entries = Vec::with_capacity(new_entries.len());
            for new in &new_entries {
                let location = machine.check_new_entry(new, waits, acquire, ctx);
                let location = location.map_err(|why| in_lock(locks, new.lock, why))?;
                entries.push(machine.add_entry(new, location, session, acquire, ctx).0);
            }
            deadlock.map(|()| entries)
        })?;
        self.grant_next(locks.first(), ctx);
        Ok(self.state_of(&self.present(locks, &entries), false))
    }

    /// The checks of one lock. Its position in the queue stays the same until the entry is added.
    fn check_lock_of_new_entry(
        &self,
        lock: &LockName,
        acquire: &Acquire,
        ctx: &ApplyContext<'_>,
    ) -> Result<(EntryPosition, Option<StoredPolicy>), Rejection> {
        self.check_no_foreign_znode(lock)?;
        let stored_policy = self.policy_for(lock, acquire)?;
        let position = self.locks.position(lock, GrantRequest::of(acquire), ctx.now);
        let waiting = || self.locks.get(lock).map_or(0, Lock::waiting);
        let is_full = || acquire.queue_max.is_some_and(|max| waiting() >= max);
        if !position.is_admitted && (!acquire.wait || is_full()) {
            return Err(self.busy(lock, None));
        }
        Ok((position, stored_policy))
    }

    /// Rejects new entries that would close a deadlock cycle: by their waits, by their places before waiters, or because an
    /// entry that waits for any shard is kept in its queue.
    fn check_no_deadlock(
        &self,
        session: Option<SessionId>,
        acquire: &Acquire,
        new_entries: &[NewEntry<'_>],
        kept: Option<&LockEntry>,
    ) -> Result<(), Rejection> {
        let request = GrantRequest::of(acquire);
        let is_admitted = new_entries.iter().all(|new| new.position.is_admitted);
        let any_of = |new: &NewEntry<'_>| {
            let shards = acquire.shards.filter(|_| new.any_shard)?;
            shards.count.or_else(|| self.shard_count_with(new.lock))
        };
        let wait = |new: &NewEntry<'_>| {
            let (rank, any_of) = (new.position.rank, any_of(new));
            (new.lock.clone(), NewWait::NewEntry { request, rank, any_of, is_admitted })
        };
        let matters = |new: &&NewEntry<'_>| {
            !is_admitted || self.is_before_others(new.lock, &new.position.rank, request)
        };
        let mut wanted: Vec<_> = new_entries.iter().filter(matters).map(wait).collect();
        wanted.extend(kept.map(|kept| {
            let (request, rank) = (kept.request(), kept.rank);
            let kept = NewWait::NewEntry { request, rank, any_of: None, is_admitted: false };
            (acquire.locks.first().clone(), kept)
        }));
        self.check_deadlock(session, &acquire.owner, &wanted)
    }

    /// Returns the location of a new entry, if its queue and the tree have room for it. `waits` is whether an entry of the
    /// acquire waits: then all of them do.
    fn check_new_entry(
        &self,
        new: &NewEntry<'_>,
        waits: bool,
        acquire: &Acquire,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        if waits {
            self.check_room_for_waiter(new.lock)?;
        }
        self.check_room_for_attempt(0)?;
        self.location_with_room(new.lock, acquire.mode.unwrap_or_default(), ctx)
    }

    /// Adds an entry, and creates the missing directories above it. Returns the grant of a single lock that is free, too.
    fn add_entry(
        &mut self,
        new: &NewEntry<'_>,
        location: EntryLocation,
        session: SessionId,
        acquire: &Acquire,
        ctx: &mut ApplyContext<'_>,
    ) -> (Arc<LockEntry>, Option<Grant>) {
        for directory in &location.missing {
            self.make_directory(directory, None, ctx);
        }
        if let Some(stored_policy) = new.stored_policy {
            self.locks.set_policy(&mut self.tree, new.lock, &location.directory, stored_policy);
        }
        let owner = SessionOwner {
            id: session,
            session: acquire.open.session.clone(),
            owner: acquire.owner.clone(),
        };
        let request = GrantRequest::of(acquire);
        let call = claim_call(acquire, new.lock, ctx.revision);
        let claims = Claims::of(acquire.attempt, request.mode, call);
        let rank = new.position.numbered(location.sequence);
        let entry = LockEntry {
            wait_ms: call.wait_ms,
            permits: request.permits,
            never_overtaken: request.never_overtaken,
            any_shard: new.any_shard,
            options: boxed_unless_plain(acquire.options.clone()),
            multi_lock: new.multi_lock.clone(),
            ..LockEntry::new(location.path, rank, owner, claims, ctx)
        };
        let kind = ZnodeKind::Ephemeral(session);
        let node = Znode::new(kind, Data::default(), ctx.revision, ctx.now);
        self.enqueue(new.lock, entry, new.position.is_admitted, node, ctx)
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

    /// Returns the location of a new entry of the HTTP API, if the tree has room for its znode.
    pub(crate) fn location_with_room(
        &self,
        lock: &LockName,
        mode: Mode,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        let location = self.location_of(lock, mode, ctx)?;
        self.check_room_for_znodes(location.missing.len() + 1)?;
        let new = location.missing.iter().chain(Some(&location.path));
        self.tree.check_quotas(&location.path, &new, 0)?;
        Ok(location)
    }

    fn location_of(
        &self,
        lock: &LockName,
        mode: Mode,
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
        let nearest = self.allowed(
            nearest.as_ref().unwrap_or(&directory),
            Perms::CREATE,
            Requester::ANYBODY,
        )?;
        let sequence = nearest.next_sequence(!missing.is_empty());
        check_counter(sequence)?;
        let path = self.free_path(&directory, mode, sequence, None, ctx)?;
        Ok(EntryLocation { directory, missing, path, sequence })
    }

    /// Returns a path for an entry with a sequence number. Where another znode has the usual name, the revision makes it
    /// another one; `replaced` is a path that the entry may take over.
    pub(crate) fn free_path(
        &self,
        directory: &ZnodePath,
        mode: Mode,
        sequence: u64,
        replaced: Option<&ZnodePath>,
        ctx: &ApplyContext<'_>,
    ) -> Result<ZnodePath, Rejection> {
        let path = child_path(directory, &own_name(mode, sequence, None))?;
        if !self.tree.contains(&path) || Some(&path) == replaced {
            return Ok(path);
        }
        let path = child_path(directory, &own_name(mode, sequence, Some(ctx.revision.0)))?;
        if self.tree.contains(&path) {
            return Err(TreeRejection::ZnodeExists { path }.into());
        }
        Ok(path)
    }
}

fn asks_for_any_shard(acquire: &Acquire) -> bool {
    acquire.shards.is_some_and(|shards| shards.choice == ShardChoice::Any)
}
