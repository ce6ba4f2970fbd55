//! Rejects values of a lock and of a queue entry that no machine writes.

use holdfast_types::{AcquireOptions, LockPolicy};

use crate::lock::cooldown::{Cooldowns, LockDelay};
use crate::snapshot::part::LockEntryPart;
use crate::tree::znode::LockDirectory;

pub(super) fn is_sound_directory(directory: &LockDirectory) -> bool {
    let policy = directory.stored_policy.as_ref().map(|stored| stored.policy);
    policy.is_none_or(|policy| policy.is_within_bounds() && policy != LockPolicy::DEFAULT)
        && directory.cooldowns.as_deref().is_none_or(are_sound_cooldowns)
}

fn are_sound_cooldowns(cooldowns: &Cooldowns) -> bool {
    let Cooldowns { cooldown, delay, .. } = cooldowns;
    let delay_is_sound = delay.as_ref().is_none_or(|delay| {
        let sorted = delay.lost.is_sorted_by(|a, b| a < b);
        delay.since <= delay.until && sorted && delay.lost.len() <= LockDelay::LOST_MAX
    });
    cooldown.is_none_or(|cooldown| cooldown.since <= cooldown.until)
        && delay_is_sound
        && *cooldowns != Cooldowns::NONE
}

pub(super) fn is_sound_entry(entry: &LockEntryPart) -> bool {
    let is_within_bounds = |options: &AcquireOptions| {
        options.out_of_bounds().is_none()
            && options.value.as_ref().is_none_or(|value| value.len() <= AcquireOptions::VALUE_MAX)
            && *options != AcquireOptions::PLAIN
    };
    (1..=LockPolicy::LIMIT_MAX).contains(&entry.permits)
        && entry.options.as_deref().is_none_or(is_within_bounds)
        && entry.multi_lock.as_ref().is_none_or(|locks| locks.is_multi_lock())
}
