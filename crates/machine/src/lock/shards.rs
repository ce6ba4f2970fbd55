//! Sharded locks: selects the shard of an acquire and of a release.
//!
//! `apply` selects the shard, so concurrent callers do not select the same free one. The number of shards is part of
//! the policy, stored with the first entry in any shard. An acquire with another number is rejected, as is an acquire
//! of the sharded lock as one lock. All entries of an owner are in one shard. A shard is granted like any other lock.
//! Bound: [`LockPolicy::SHARDS_MAX`] shards.

use holdfast_types::{
    Acquire, Bound, LockName, LockPolicy, LockRejection, LockSet, Owner, Rejection, ReleaseTarget,
    SessionId, SessionName, ShardChoice, ShardRequest, ShardView, Stamp, Ticket, ZnodePath,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::acquire::in_lock;
use crate::lock::cooldown::LostHold;
use crate::lock::index::{Lock, StoredPolicy};
use crate::lock::policy::check_servable;
use crate::lock::rank::GrantRequest;
use crate::session::store::KnownSession;

/// The number of shards of a new sharded lock, to be stored with its first entry.
#[derive(Debug)]
pub(crate) struct NewShards {
    sharded: LockName,
    count: u32,
}

impl Machine {
    /// Turns an acquire of a sharded lock into an acquire of one shard. Returns the shard count to store if the acquire
    /// succeeds.
    pub(crate) fn choose_shard(
        &self,
        session: Option<SessionId>,
        acquire: &mut Acquire,
        now: Stamp,
    ) -> Result<Option<NewShards>, Rejection> {
        let Some(shards) = acquire.shards else {
            for lock in acquire.locks.iter() {
                let allowed = self.check_not_sharded(lock).and_then(|()| {
                    self.check_no_other_shard(session, lock, &acquire.owner, &acquire.locks)
                });
                allowed.map_err(|why| in_lock(&acquire.locks, lock, why))?;
            }
            return Ok(None);
        };
        let (sharded, owner) = (acquire.locks.first().clone(), &acquire.owner);
        let (count, new) = self.count_for(&sharded, shards.count)?;
        let own = session.and_then(|session| self.own_shard(session, &sharded, owner, count));
        let shard = match (shards.choice, own) {
            (ShardChoice::At(index), _) if index >= count => return Err(mismatch(Some(count))),
            (ShardChoice::At(index), Some(own)) if index != own => {
                return Err(LockRejection::AlreadyQueued { lock: shard(&sharded, own)? }.into());
            }
            (ShardChoice::At(index), _) | (ShardChoice::Any, Some(index)) => {
                shard(&sharded, index)?
            }
            (ShardChoice::Any, None) => {
                self.least_loaded_shard(&sharded, count, GrantRequest::of(acquire), now)?
            }
        };
        self.check_not_sharded(&shard)?;
        acquire.locks = shard.into();
        Ok(new.then_some(NewShards { sharded, count }))
    }

    /// Stores the number of shards. The caller has added an entry in a shard, so the directory exists.
    pub(crate) fn remember_shard_count(&mut self, new_shards: NewShards) {
        let NewShards { sharded, count } = new_shards;
        let policy = LockPolicy { shards: Some(count), ..LockPolicy::DEFAULT };
        let (directory, stored_policy) =
            (ZnodePath::of_lock(&sharded), StoredPolicy { policy, kept: false });
        self.locks.set_policy(&mut self.tree, &sharded, &directory, stored_policy);
    }

    /// Rejects the use of a sharded lock as one lock.
    ///
    /// # Errors
    /// [`LockRejection::ShardsMismatch`] with the number of shards.
    pub fn check_not_sharded(&self, lock: &LockName) -> Result<(), Rejection> {
        match self.shard_count(lock) {
            Some(count) => Err(mismatch(Some(count))),
            None => Ok(()),
        }
    }

    /// Rejects a shard for an owner that has another shard of the lock, or acquires another one in the same call.
    pub(crate) fn check_no_other_shard(
        &self,
        session: Option<SessionId>,
        lock: &LockName,
        owner: &Owner,
        locks: &LockSet,
    ) -> Result<(), Rejection> {
        let sharded = self.remembered_as(lock);
        let Some(count) = self.shard_count(&sharded).filter(|_| sharded != *lock) else {
            return Ok(());
        };
        let is_shard = |name: &LockName| {
            ShardRequest::shard_index(&sharded, name).is_some_and(|index| index < count)
        };
        let has_entry = |id| self.locks.find(id, lock, owner, Ticket(0)).is_some();
        if !is_shard(lock) || session.is_some_and(has_entry) {
            return Ok(());
        }
        let own = session.and_then(|id| self.own_shard(id, &sharded, owner, count));
        let own = own.map(|index| shard(&sharded, index)).transpose()?;
        let named = locks.iter().find(|named| *named != lock && is_shard(named)).cloned();
        match own.or(named) {
            Some(lock) => Err(LockRejection::AlreadyQueued { lock }.into()),
            None => Ok(()),
        }
    }

    /// The number of shards; `None` for a plain lock.
    pub(crate) fn shard_count(&self, sharded: &LockName) -> Option<u32> {
        self.locks.get(sharded)?.policy().shards
    }

    /// Returns the number of shards, and whether this acquire sets it.
    fn count_for(
        &self,
        sharded: &LockName,
        requested: Option<u32>,
    ) -> Result<(u32, bool), Rejection> {
        match (self.shard_count(sharded), requested) {
            (Some(stored), Some(requested)) if requested != stored => Err(mismatch(Some(stored))),
            (Some(_), Some(requested)) => Ok((requested, false)),
            (Some(stored), None) => Ok((stored, false)),
            (None, Some(requested)) if self.locks.get(sharded).is_none() => Ok((requested, true)),
            (None, _) => Err(mismatch(None)),
        }
    }

    /// Returns the first shard with an entry of this owner. Costs one step for each shard or for each entry of the session,
    /// whichever are fewer.
    fn own_shard(
        &self,
        session: SessionId,
        sharded: &LockName,
        owner: &Owner,
        count: u32,
    ) -> Option<u32> {
        let entries = self.sessions.get(session).map_or(0, |session| session.queue_entries);
        if entries > count {
            return (0..count).find(|index| {
                let shard = ShardRequest::shard_name(sharded, *index).ok();
                shard.is_some_and(|it| self.locks.find(session, &it, owner, Ticket(0)).is_some())
            });
        }
        let own = self.locks.keys_of(session).filter(|key| key.owner == *owner);
        let indexes = own.filter_map(|key| ShardRequest::shard_index(sharded, &key.lock));
        indexes.filter(|index| *index < count).min()
    }

    /// Selects the shard for an owner without an entry: the first free one, otherwise the first of those with the
    /// fewest entries. A shard that never grants the request is the last choice.
    fn least_loaded_shard(
        &self,
        sharded: &LockName,
        count: u32,
        request: GrantRequest,
        now: Stamp,
    ) -> Result<LockName, Rejection> {
        let mut best: Option<((bool, bool, u32), LockName)> = None;
        for index in 0..count {
            let lock = shard(sharded, index)?;
            let load = self.load_of(&lock, request, now);
            if load == (false, false, 0) {
                return Ok(lock);
            }
            if best.as_ref().is_none_or(|(least, _)| load < *least) {
                best = Some((load, lock));
            }
        }
        best.map(|(_, lock)| lock).ok_or_else(|| mismatch(Some(count)))
    }

    /// Returns whether the shard never admits a new acquire, whether it would have to wait, and the number of entries.
    fn load_of(&self, lock: &LockName, request: GrantRequest, now: Stamp) -> (bool, bool, u32) {
        let indexed = self.locks.get(lock);
        let is_rejected = indexed
            .is_some_and(|lock| check_servable(lock.policy(), request).is_err())
            || self.check_no_foreign_znode(lock).is_err();
        let position = self.locks.position(lock, request, now);
        (is_rejected, !position.is_admitted, indexed.map_or(0, Lock::entries))
    }

    /// Returns the lock that a release names; for a sharded lock, the shard with the owner's entry.
    pub(crate) fn lock_of_owner(
        &self,
        session: SessionId,
        lock: LockName,
        owner: &Owner,
    ) -> LockName {
        let own = self.shard_count(&lock).and_then(|count| {
            let index = self.own_shard(session, &lock, owner, count)?;
            ShardRequest::shard_name(&lock, index).ok()
        });
        own.unwrap_or(lock)
    }

    /// Acknowledges the losses that a release means, for a lock and its shards. A late copy of an older release means none.
    pub(crate) fn acknowledge_losses_in(
        &mut self,
        session: &SessionName,
        lock: &LockName,
        (owner, target): (&Owner, ReleaseTarget),
        ctx: &mut ApplyContext<'_>,
    ) -> bool {
        let is_meant =
            |lost: &LostHold| lost.session == *session && lost.is_meant_by(owner, target);
        let mut acknowledged = self.acknowledge_loss(lock, is_meant, ctx);
        if self.shard_count(lock).is_some() {
            let delayed = self.locks.delayed_by(session);
            let delayed = delayed.filter(|other| ShardRequest::shard_index(lock, other).is_some());
            for shard in delayed.cloned().collect::<Vec<_>>() {
                acknowledged |= self.acknowledge_loss(&shard, is_meant, ctx);
            }
        }
        acknowledged
    }

    /// The number of entries in the first `count` shards.
    pub(crate) fn entries_in_shards(&self, sharded: &LockName, count: u32) -> u32 {
        let of = |view: ShardView| view.holders.saturating_add(view.waiters);
        self.first_shards(sharded, count).map(of).fold(0, u32::saturating_add)
    }

    /// The shards of a lock; empty for a plain lock.
    pub(crate) fn shard_views(&self, sharded: &LockName) -> Vec<ShardView> {
        self.first_shards(sharded, self.shard_count(sharded).unwrap_or(0)).collect()
    }

    fn first_shards(&self, sharded: &LockName, count: u32) -> impl Iterator<Item = ShardView> {
        (0..count).map(move |index| {
            let lock = ShardRequest::shard_name(sharded, index).ok();
            let Some(indexed) = lock.and_then(|lock| self.locks.get(&lock)) else {
                return ShardView::default();
            };
            let first = indexed.holders.first();
            ShardView {
                holder: first.and_then(|first| Some((first.session_name.clone(), first.token()?))),
                holders: u32::try_from(indexed.holders.len()).unwrap_or(u32::MAX),
                waiters: indexed.waiting(),
            }
        })
    }

    /// Returns the shard with the entry of an owner. Returns `None` without an entry, or if the requested count or
    /// shard differs.
    pub fn owned_shard(
        &self,
        sharded: &LockName,
        shards: ShardRequest,
        session: &SessionName,
        owner: &Owner,
    ) -> Option<LockName> {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return None };
        let count = self.shard_count(sharded)?;
        let index = self.own_shard(id, sharded, owner, count)?;
        let index_matches = match shards.choice {
            ShardChoice::Any => true,
            ShardChoice::At(requested) => requested == index,
        };
        let count_matches = shards.count.is_none_or(|requested| requested == count);
        ShardRequest::shard_name(sharded, index).ok().filter(|_| index_matches && count_matches)
    }
}

fn mismatch(shards: Option<u32>) -> Rejection {
    Rejection::Lock(LockRejection::ShardsMismatch { shards })
}

fn shard(sharded: &LockName, index: u32) -> Result<LockName, Rejection> {
    ShardRequest::shard_name(sharded, index)
        .map_err(|_| limit_reached(Bound::PathLength, LockName::MAX_LEN as u64))
}
