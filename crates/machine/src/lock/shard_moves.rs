//! A waiter of a sharded lock gets the first shard that becomes free.
//!
//! A waiter that asked for any shard waits in the queue of one. When another shard has room and no waiter of its own, the
//! first of the waiters of the other shards moves there: its znode goes to the other directory, and the entry keeps its
//! ticket, by which its call finds it. The policy of the other shard must admit the request, as for a new acquire. A shard
//! whose directory was deleted gets the limit of the waiter's queue. A waiter for a named shard stays, and so do all waiters
//! of an owner with several entries. A full tree keeps all waiters where they are, and a change of an access list moves none.
//! Bound: a release of a shard costs a few steps. A step for each shard is the cost of a first waiter whose request differs
//! from that of the one before. Waiters that differ in their priority alone have different requests.

use std::sync::Arc;

use holdfast_types::{
    LockName, LockPolicy, Owner, SessionId, ShardRequest, Stamp, Ticket, TreeEvent, ZnodePath,
};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::{SessionLockKey, StoredPolicy};
use crate::lock::lock_entry::LockEntry;
use crate::lock::policy::check_servable;

impl Machine {
    /// Grants a shard without waiters to a waiter of another one. Returns false if there is none.
    pub(super) fn grant_to_other_shards_waiter(
        &mut self,
        lock: &LockName,
        ctx: &mut ApplyContext<'_>,
    ) -> bool {
        let Some((from, waiter)) = self.waiter_of_other_shard(lock, ctx.now) else { return false };
        let limit = self.locks.get(&from).and_then(|from| from.policy().limit);
        let location = self.location_with_room(lock, waiter.mode, ctx);
        let (true, Ok(location)) = (self.locks.tokens_left() > 0, location) else { return false };
        let Some(node) = self.tree.get(&waiter.path).map(|node| (*node).clone()) else {
            return false;
        };
        self.locks.leave(&mut self.tree, &SessionLockKey::of(&from, &waiter), ctx);
        ctx.emit(TreeEvent::Deleted { path: waiter.path.clone(), acl: node.acl.clone() });
        for directory in &location.missing {
            self.make_directory(directory, None, ctx);
        }
        if limit.is_some() && self.locks.get(lock).is_none() {
            let policy = LockPolicy { limit, ..LockPolicy::DEFAULT };
            let stored_policy = StoredPolicy { policy, kept: false };
            let directory = ZnodePath::of_lock(lock);
            self.locks.set_policy(&mut self.tree, lock, &directory, stored_policy);
        }
        let mut moved = LockEntry { path: location.path, ..(*waiter).clone() };
        moved.rank.sequence = location.sequence;
        moved.hold = self.hold_for(lock, &moved, ctx).map(Box::new);
        let moved = Arc::new(moved);
        let exceeded = self.locks.enter(&mut self.tree, lock, &moved, node);
        ctx.emit(TreeEvent::Created { path: moved.path.clone() });
        ctx.soft_quota_exceeded(exceeded);
        self.granted(lock, &moved, ctx);
        ctx.locks_to_grant.insert(from);
        true
    }

    /// The first waiter for any shard, with the shard in whose queue it waits, if it could hold this shard now.
    fn waiter_of_other_shard(
        &self,
        lock: &LockName,
        now: Stamp,
    ) -> Option<(LockName, Arc<LockEntry>)> {
        if self.locks.waiting() == 0 {
            return None;
        }
        let sharded = self.remembered_as(lock);
        let (from, waiter) = self.locks.first_for_any_shard(&sharded)?;
        let index = ShardRequest::shard_index(&sharded, lock);
        let is_shard = index.is_some_and(|index| Some(index) < self.shard_count(&sharded));
        let is_free = is_shard && self.is_free_for(lock, waiter, now);
        is_free.then(|| (from.clone(), Arc::clone(waiter)))
    }

    /// Whether a shard has no waiters, and could be held now by a waiter of another one.
    fn is_free_for(&self, shard: &LockName, waiter: &LockEntry, now: Stamp) -> bool {
        let has_room = self.locks.get(shard).is_none_or(|free| {
            free.waiters.is_empty()
                && free.is_out_of_cooldown(now)
                && check_servable(free.policy(), waiter.request()).is_ok()
                && free.has_room_for(waiter.request())
        });
        has_room && self.check_no_foreign_znode(shard).is_ok()
    }

    /// Notes the shard that a deleted znode may have kept from the waiters of other shards: as its directory, in it, or in
    /// its `leases`. The caller then grants the noted locks.
    pub(crate) fn note_deleted_znode(&self, path: &ZnodePath, ctx: &mut ApplyContext<'_>) {
        if self.locks.has_any_shard_waiter() {
            let paths = std::iter::successors(Some(path.clone()), ZnodePath::parent).take(3);
            let locks = paths.filter_map(|path| path.as_lock());
            ctx.locks_to_grant.extend(locks.filter(|lock| self.shard_count_with(lock).is_some()));
        }
    }

    /// The number of shards of the lock that has this shard; `None` for a lock that is no shard.
    pub(super) fn shard_count_with(&self, lock: &LockName) -> Option<u32> {
        let sharded = self.remembered_as(lock);
        self.shard_count(&sharded).filter(|_| sharded != *lock)
    }

    /// Keeps a waiter for any shard in its queue from now on: its owner has a second entry there, and has at most one shard.
    pub(super) fn keep_in_queue(
        &mut self,
        shard: &LockName,
        waiter: &Arc<LockEntry>,
        ctx: &mut ApplyContext<'_>,
    ) {
        self.update_entry(shard, waiter, |entry| entry.any_shard = false);
        self.note_first_for_any_shard(shard, waiter, ctx);
        self.grant_next(shard, ctx);
    }

    /// Records that an entry no longer waits for any shard with this request. If the first waiter has another request now,
    /// the shards are offered to it.
    pub(super) fn note_first_for_any_shard(
        &self,
        lock: &LockName,
        gone: &LockEntry,
        ctx: &mut ApplyContext<'_>,
    ) {
        if !gone.any_shard {
            return;
        }
        let sharded = self.remembered_as(lock);
        let first = self.locks.first_for_any_shard(&sharded);
        let differs = first.is_some_and(|(_, first)| {
            first.precedence() >= gone.precedence() && first.request() != gone.request()
        });
        if differs {
            ctx.sharded_to_offer.insert(sharded);
        }
    }

    /// Offers the free shards to the waiters for any shard that have become the first ones.
    pub(super) fn offer_free_shards(&mut self, ctx: &mut ApplyContext<'_>) {
        while let Some(sharded) = ctx.sharded_to_offer.pop_first() {
            while let Some(free) = self.shard_for_first(&sharded, ctx.now)
                && self.grant_to_other_shards_waiter(&free, ctx)
            {}
        }
    }

    /// A shard that the first waiter for any shard could hold.
    fn shard_for_first(&self, sharded: &LockName, now: Stamp) -> Option<LockName> {
        let (_, first) = self.locks.first_for_any_shard(sharded)?;
        let mut shards = shard_names(sharded, self.shard_count(sharded)?);
        shards.find(|shard| self.is_free_for(shard, first, now))
    }

    /// Returns an owner's entry with a ticket that has moved to another shard than this one.
    pub(super) fn moved_entry(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        ticket: Ticket,
    ) -> Option<(LockName, &Arc<LockEntry>)> {
        let sharded = Some(self.remembered_as(lock)).filter(|sharded| sharded != lock)?;
        let own = self.lock_of_owner(session, sharded, owner);
        let entry = self.locks.find(session, &own, owner, ticket)?;
        (entry.ticket == ticket).then_some((own, entry))
    }
}

/// The names of all shards of the lock that has this shard.
pub(super) fn all_shards_with(lock: &LockName, count: u32) -> Option<Vec<LockName>> {
    let sharded = LockName::new(ShardRequest::sharded_name(lock)?).ok()?;
    Some(shard_names(&sharded, count).collect())
}

fn shard_names(sharded: &LockName, count: u32) -> impl Iterator<Item = LockName> {
    (0..count).filter_map(|index| ShardRequest::shard_name(sharded, index).ok())
}
