//! Changes the policy of a lock in use, and reads the policy options of an acquire.
//!
//! A new order or ageing applies to new waiters. A new limit, cooldown or lock delay applies immediately, and no holder
//! is removed. Bounds: `LockPolicy::is_within_bounds`; a change reads each waiter of the lock.

use std::sync::Arc;

use holdfast_types::{
    Acquire, AcquireOptions, Bound, LockEvent, LockName, LockPolicy, LockRejection, LossCause,
    Mode, ModeConflictReason, OutOfBounds, Outcome, Perms, PolicyChange, Rejection, Reply,
    ZnodePath,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::entry_name::EntryRecipe;
use crate::lock::index::{Lock, SessionLockKey, StoredPolicy};
use crate::lock::lock_entry::LockEntry;
use crate::lock::rank::GrantRequest;
use crate::tree::multi::Requester;

impl Machine {
    /// Changes the policy of a lock. Creates its directory if it is missing.
    pub(crate) fn set_policy(
        &mut self,
        lock: &LockName,
        change: PolicyChange,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let indexed = self.locks.get(lock);
        let before = indexed.map_or(LockPolicy::DEFAULT, |indexed| *indexed.policy());
        let policy = change.of(before);
        if !policy.is_within_bounds() {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Policy });
        }
        // Each shard has its own policy, and the name is no lock.
        let of_lock = PolicyChange { shards: None, ..change };
        if policy.shards.is_some() && of_lock != PolicyChange::default() {
            return Err(LockRejection::ShardsMismatch { shards: policy.shards }.into());
        }
        let entries = indexed.map_or(0, Lock::entries);
        if entries > 0 && policy.limit.is_some() != before.limit.is_some() {
            return Err(LockRejection::InUse { entries }.into());
        }
        if policy.shards != before.shards {
            let count = policy.shards.max(before.shards).unwrap_or(0);
            let entries = entries.saturating_add(self.entries_in_shards(lock, count));
            if entries > 0 {
                return Err(LockRejection::InUse { entries }.into());
            }
        }
        if policy == before && indexed.is_none() {
            return Ok(Reply::PolicySet { policy });
        }
        let directory = self.directory_for_policy(lock, ctx)?;
        let stored_policy = StoredPolicy { policy, kept: true };
        self.locks.set_policy(&mut self.tree, lock, &directory, stored_policy);
        ctx.emit(LockEvent::PolicyChanged { lock: lock.clone(), policy });
        self.remove_unservable_waiters(lock, policy.limit, ctx);
        self.recompute_cooldowns(lock, ctx);
        self.grant_next(lock, ctx);
        Ok(Reply::PolicySet { policy })
    }

    fn directory_for_policy(
        &mut self,
        lock: &LockName,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<ZnodePath, Rejection> {
        let directory = ZnodePath::of_lock(lock);
        let missing = self.missing_directories(&directory)?;
        let nearest = missing.first().and_then(ZnodePath::parent);
        let needed = if missing.is_empty() { Perms::WRITE } else { Perms::CREATE };
        self.allowed(nearest.as_ref().unwrap_or(&directory), needed, Requester::ANYBODY)?;
        self.check_room_for_znodes(missing.len())?;
        self.tree.check_quotas(&directory, &missing.iter(), 0)?;
        for path in &missing {
            self.make_directory(path, None, ctx);
        }
        Ok(directory)
    }

    /// Removes waiters that request more permits than the new limit. The entry of a ZooKeeper client, which cannot learn the
    /// reason, stays: such a client requests all permits, so it now requests the new limit.
    fn remove_unservable_waiters(
        &mut self,
        lock: &LockName,
        limit: Option<u32>,
        ctx: &mut ApplyContext<'_>,
    ) {
        let (Some(limit), Some(indexed)) = (limit, self.locks.get(lock)) else { return };
        let is_own = |waiter: &LockEntry| waiter.recipe() == EntryRecipe::Own;
        let waiters = indexed.waiters.values();
        let affected = waiters.filter(|waiter| waiter.permits > limit || !is_own(waiter));
        for waiter in affected.cloned().collect::<Vec<Arc<LockEntry>>>() {
            if is_own(&waiter) {
                self.leave(&SessionLockKey::of(lock, &waiter), LossCause::LimitLowered, ctx);
                self.close_if_anonymous_and_idle(waiter.session, ctx);
            } else {
                self.update_entry(lock, &waiter, |waiter| waiter.permits = limit);
            }
        }
    }

    /// Checks the policy options of an acquire. Returns the policy to set with a new lock, if any.
    pub(crate) fn policy_for(
        &self,
        lock: &LockName,
        acquire: &Acquire,
    ) -> Result<Option<StoredPolicy>, Rejection> {
        let indexed = self.locks.get(lock);
        let current_limit = indexed.and_then(|indexed| indexed.policy().limit);
        let (limit, stored_policy) = match acquire.limit {
            Some(limit) if indexed.is_none() => {
                let policy = LockPolicy { limit: Some(limit), ..LockPolicy::DEFAULT };
                (Some(limit), Some(StoredPolicy { policy, kept: false }))
            }
            Some(limit) if current_limit != Some(limit) => {
                return Err(LockRejection::LimitMismatch { limit: current_limit }.into());
            }
            Some(_) | None => (current_limit, None),
        };
        let policy = LockPolicy { limit, ..LockPolicy::DEFAULT };
        check_servable(&policy, GrantRequest::of(acquire)).map(|()| stored_policy)
    }
}

/// Rejects the request of an HTTP caller that a lock with this policy never grants.
pub(crate) fn check_servable(policy: &LockPolicy, request: GrantRequest) -> Result<(), Rejection> {
    let LockPolicy { limit, shards, .. } = *policy;
    match limit {
        _ if shards.is_some() => Err(LockRejection::ShardsMismatch { shards }.into()),
        Some(limit) if request.permits > limit => Err(limit_reached(Bound::Permits, limit)),
        Some(_) if request.mode != Mode::Exclusive => {
            let (mode, why) = (Mode::Exclusive, ModeConflictReason::NoOtherMode);
            Err(LockRejection::ModeConflict { mode, why }.into())
        }
        None if request.permits > 1 => Err(LockRejection::LimitMismatch { limit }.into()),
        Some(_) | None => Ok(()),
    }
}

/// Rejects out-of-bounds values, which the front-ends never send.
pub(crate) fn check_bounds(acquire: &Acquire) -> Result<(), Rejection> {
    let Acquire { permits, limit, shards, options, .. } = acquire;
    let sound = |count: Option<u32>, max| count.is_none_or(|n| (1..=max).contains(&n));
    let shards = shards.and_then(|shards| shards.count);
    let wrong = match () {
        () if !sound(*permits, LockPolicy::LIMIT_MAX) => Some(OutOfBounds::Permits),
        () if !sound(*limit, LockPolicy::LIMIT_MAX) => Some(OutOfBounds::Limit),
        () if !sound(shards, LockPolicy::SHARDS_MAX) => Some(OutOfBounds::Shards),
        () => options.out_of_bounds(),
    };
    if let Some(what) = wrong {
        return Err(Rejection::OutOfBounds { what });
    }
    if options.value.as_ref().is_some_and(|value| value.len() > AcquireOptions::VALUE_MAX) {
        return Err(limit_reached(Bound::ValueBytes, AcquireOptions::VALUE_MAX as u64));
    }
    if acquire.locks.is_multi_lock() { check_multi_lock_options(acquire) } else { Ok(()) }
}

fn check_multi_lock_options(acquire: &Acquire) -> Result<(), Rejection> {
    let Acquire { mode, permits, limit, shards, change, options, .. } = acquire;
    let plain = AcquireOptions { max_hold_ms: options.max_hold_ms, ..AcquireOptions::PLAIN };
    if permits.is_some_and(|permits| permits > 1)
        || limit.is_some()
        || shards.is_some()
        || change.is_some()
        || *options != plain
    {
        return Err(Rejection::OutOfBounds { what: OutOfBounds::Locks });
    }
    match mode {
        Some(Mode::Upgradable) => Err(LockRejection::ModeConflict {
            mode: Mode::Exclusive,
            why: ModeConflictReason::NoOtherMode,
        }
        .into()),
        Some(Mode::Exclusive | Mode::Shared) | None => Ok(()),
    }
}
