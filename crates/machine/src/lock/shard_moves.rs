//! A waiter of a sharded lock gets the first shard that becomes free.
//!
//! A waiter that asked for any shard waits in the queue of one. When another shard has room and no waiter of its own, the
//! first of the waiters of the other shards moves there: its znode goes to the other directory, and the entry keeps its
//! ticket, by which its call finds it. A waiter for a named shard stays. A full tree keeps all waiters where they are.
//! Bound: [`LOOKED_AT`] waiters of each shard, in each grant of a shard while a waiter waits for any shard of a lock.

use std::sync::Arc;

use holdfast_types::{LockName, Owner, SessionId, ShardRequest, Stamp, Ticket, TreeEvent};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::{Lock, SessionLockKey};
use crate::lock::lock_entry::LockEntry;

/// The waiters of one shard that may move. More than this many waiters for named shards hide those behind them.
const LOOKED_AT: usize = 8;

impl Machine {
    /// Grants a shard without waiters to a waiter of another one. Returns false if there is none.
    pub(super) fn grant_to_other_shards_waiter(
        &mut self,
        lock: &LockName,
        ctx: &mut ApplyContext<'_>,
    ) -> bool {
        let Some((from, waiter)) = self.waiter_of_other_shard(lock, ctx.now) else { return false };
        let has_room = self.check_no_foreign_znode(lock).is_ok() && self.locks.tokens_left() > 0;
        let location = self.location_with_room(lock, waiter.mode, ctx);
        let (true, Ok(location)) = (has_room, location) else { return false };
        let Some(node) = self.tree.get(&waiter.path).map(|node| (*node).clone()) else {
            return false;
        };
        self.locks.leave(&mut self.tree, &SessionLockKey::of(&from, &waiter), ctx);
        ctx.emit(TreeEvent::Deleted { path: waiter.path.clone(), acl: node.acl.clone() });
        for directory in &location.missing {
            self.make_directory(directory, None, ctx);
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

    /// The first waiter of the other shards that may have this one, which it could hold now.
    fn waiter_of_other_shard(
        &self,
        lock: &LockName,
        now: Stamp,
    ) -> Option<(LockName, Arc<LockEntry>)> {
        if self.locks.any_shard_waiters() == 0 || self.locks.get(lock).is_some_and(has_waiters) {
            return None;
        }
        let (from, first) = self.first_waiter_for_any(&self.all_shards_with(lock)?)?;
        let is_free = match self.locks.get(lock) {
            Some(free) => free.is_out_of_cooldown(now) && free.has_room_for(first.request()),
            // A shard whose directory was deleted has the default policy.
            None => self.locks.get(&from).is_some_and(|shard| shard.policy().limit.is_none()),
        };
        is_free.then_some((from, first))
    }

    /// The names of all shards of the lock that has this shard, with this one; `None` for a lock that is no shard.
    fn all_shards_with(&self, lock: &LockName) -> Option<Vec<LockName>> {
        let sharded = self.remembered_as(lock);
        let count = self.shard_count(&sharded).filter(|_| sharded != *lock)?;
        let name = |index| ShardRequest::shard_name(&sharded, index).ok();
        Some((0..count).filter_map(name).collect())
    }

    /// The first of the waiters for any shard, by rank, with the shard in whose queue it waits.
    fn first_waiter_for_any(&self, shards: &[LockName]) -> Option<(LockName, Arc<LockEntry>)> {
        let waiters = shards.iter().filter_map(|name| {
            let waiters = self.locks.get(name)?.waiters.values().take(LOOKED_AT);
            let mut waiters = waiters.filter(|waiter| waiter.any_shard);
            Some((name, waiters.next()?))
        });
        let rank =
            |(_, waiter): &(_, &Arc<LockEntry>)| (waiter.rank.class, waiter.rank.at, waiter.ticket);
        let (name, first) = waiters.min_by_key(rank)?;
        Some((name.clone(), Arc::clone(first)))
    }

    /// Offers the free shards to the waiters that a change of this shard's queue brought to the front.
    pub(super) fn offer_other_shards(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        while let Some(free) = self.shard_for_waiters_of(lock, ctx.now) {
            if !self.grant_to_other_shards_waiter(&free, ctx) {
                return;
            }
        }
    }

    /// A shard without waiters that the first waiter for any shard could hold, while such a waiter waits in this shard.
    fn shard_for_waiters_of(&self, lock: &LockName, now: Stamp) -> Option<LockName> {
        self.locks.get(lock).filter(|indexed| indexed.any_shard_waiters > 0)?;
        let shards = self.all_shards_with(lock)?;
        let (_, first) = self.first_waiter_for_any(&shards)?;
        let is_free = |name: &LockName| {
            self.locks.get(name).is_some_and(|free| {
                !has_waiters(free)
                    && free.is_out_of_cooldown(now)
                    && free.has_room_for(first.request())
            })
        };
        shards.into_iter().find(is_free)
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

fn has_waiters(lock: &Lock) -> bool {
    lock.waiting() > 0
}
