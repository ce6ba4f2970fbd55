//! Converts the parts of a lock and of a queue entry, and rejects values that no machine writes.

use std::sync::Arc;

use holdfast_types::{Acquire, AcquireAll, LockPolicy};

use crate::lock::cooldown::{Cooldowns, GrantInterval, LockDelay};
use crate::lock::index::StoredPolicy;
use crate::lock::lock_entry::{AcquireOptions, Hold};
use crate::snapshot::part::{
    AcquireOptionsPart, CooldownsPart, GrantIntervalPart, HoldPart, LockDelayPart,
    LockDirectoryPart, StoredPolicyPart,
};
use crate::tree::znode::LockDirectory;

/// What a directory of locks remembers; none if no directory can.
pub(super) fn lock_directory(part: LockDirectoryPart) -> Option<LockDirectory> {
    let LockDirectoryPart { base, floor, last_token, stored_policy, cooldowns } = part;
    let stored_policy = match stored_policy {
        Some(part) => Some(Arc::new(self::stored_policy(part)?)),
        None => None,
    };
    let cooldowns = match cooldowns {
        Some(part) => Some(Arc::new(self::cooldowns(part)?)),
        None => None,
    };
    Some(LockDirectory { base, floor, last_token, stored_policy, cooldowns })
}

fn stored_policy(StoredPolicyPart { policy, kept }: StoredPolicyPart) -> Option<StoredPolicy> {
    (policy.is_sound() && policy != LockPolicy::DEFAULT).then_some(StoredPolicy { policy, kept })
}

fn cooldowns(CooldownsPart { min_hold, cooldown, delay }: CooldownsPart) -> Option<Cooldowns> {
    let cooldown =
        cooldown.map(|GrantIntervalPart { since, until }| GrantInterval { since, until });
    let delay = delay.map(|LockDelayPart { since, until, lost }| LockDelay { since, until, lost });
    let rests = cooldown.is_none_or(|rest| rest.since <= rest.until);
    let delays = delay.as_ref().is_none_or(|delay| {
        let sorted = delay.lost.is_sorted_by(|a, b| a < b);
        delay.since <= delay.until && sorted && delay.lost.len() <= LockDelay::LOST_MAX
    });
    let cooldowns = Cooldowns { min_hold, cooldown, delay };
    (rests && delays && cooldowns != Cooldowns::NONE).then_some(cooldowns)
}

/// What an entry asked for; none if none can.
pub(super) fn options(part: AcquireOptionsPart) -> Option<Box<AcquireOptions>> {
    let AcquireOptionsPart {
        permits,
        priority,
        reentrant,
        max_hold_ms,
        min_hold_ms,
        value,
        multi_lock,
    } = part;
    let bundles = multi_lock.is_empty() || AcquireAll::are_sound(&multi_lock);
    let multi_lock = (!multi_lock.is_empty()).then(|| multi_lock.into());
    let options = AcquireOptions {
        permits,
        priority,
        reentrant,
        max_hold_ms,
        min_hold_ms,
        value,
        multi_lock,
    };
    let sound = bundles
        && (1..=LockPolicy::LIMIT_MAX).contains(&permits)
        && priority <= Acquire::PRIORITY_MAX
        && max_hold_ms.is_none_or(|ms| (1..=Acquire::HOLD_MAX_MS).contains(&ms))
        && min_hold_ms.is_none_or(|ms| (1..=Acquire::HOLD_MAX_MS).contains(&ms))
        && options.value.as_ref().is_none_or(|value| value.len() <= Acquire::VALUE_MAX);
    if sound { options.kept() } else { None }
}

/// What a grant left on a holder.
pub(super) fn hold(part: HoldPart) -> Hold {
    let HoldPart { token, granted_at, granted_in, mode, since, slots, release_request } = part;
    let (slots, release_request) = (slots.into(), release_request.map(Box::new));
    Hold { token, granted_at, granted_in, mode, since, slots, release_request }
}
