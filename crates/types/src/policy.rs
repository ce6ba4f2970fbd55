//! Modes of a hold, the policy of a lock, and cooldowns.
//!
//! Bounds: [`LockPolicy::LIMIT_MAX`] permits, [`LockPolicy::LOCK_DELAY_MAX_MS`], [`LockPolicy::COOLDOWN_MAX_MS`],
//! [`LockPolicy::AGEING_MAX_MS`], [`LockPolicy::SHARDS_MAX`] shards.

use serde::{Deserialize, Serialize};

use crate::Stamp;

/// The mode in which a lock is held or requested.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mode {
    /// Held alone; on a semaphore held together with others while permits last.
    #[default]
    Exclusive,
    /// Held together with shared holders and one upgradable holder.
    Shared,
    /// Held together with shared holders; may become exclusive later. At most one holder at a time.
    Upgradable,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Exclusive, Self::Shared, Self::Upgradable];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Upgradable => "upgradable",
        }
    }

    /// Whether this mode excludes more holders than the other one.
    pub const fn is_stronger_than(self, other: Self) -> bool {
        self.strength() > other.strength()
    }

    /// The stronger of two modes.
    #[must_use]
    pub const fn stronger(self, other: Self) -> Self {
        if self.is_stronger_than(other) { self } else { other }
    }

    const fn strength(self) -> u8 {
        match self {
            Self::Shared => 0,
            Self::Upgradable => 1,
            Self::Exclusive => 2,
        }
    }
}

/// The order of a lock's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum QueueOrder {
    /// In the order of arrival.
    #[default]
    Fifo,
    /// Exclusive and upgradable requests go before shared ones.
    WriterFirst,
    /// Shared requests go before the others.
    ReaderFirst,
}

impl QueueOrder {
    pub const ALL: [Self; 3] = [Self::Fifo, Self::WriterFirst, Self::ReaderFirst];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::WriterFirst => "writer-first",
            Self::ReaderFirst => "reader-first",
        }
    }
}

/// The policy of one lock. A field that was never set has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockPolicy {
    /// The permits of a semaphore, from 1 to [`LockPolicy::LIMIT_MAX`]; `None` for a lock that is not a semaphore.
    pub limit: Option<u32>,
    pub order: QueueOrder,
    /// The waiting time that equals one level of priority, milliseconds, up to [`LockPolicy::AGEING_MAX_MS`].
    pub ageing_ms: u64,
    /// The cooldown after a hold expires, is revoked or is broken, because its holder may still write. Milliseconds, up
    /// to [`LockPolicy::LOCK_DELAY_MAX_MS`]; 0 for none.
    pub lock_delay_ms: u64,
    /// The minimum time between two grants, milliseconds, up to [`LockPolicy::COOLDOWN_MAX_MS`]; 0 for none.
    pub cooldown_ms: u64,
    /// Whether an acquire that would close a cycle of waiters is rejected.
    pub detect_deadlocks: bool,
    /// The number of shards of a sharded lock, from 1 to [`LockPolicy::SHARDS_MAX`].
    pub shards: Option<u32>,
    /// A longer wait raises an alarm. Milliseconds, up to [`LockPolicy::ALARM_MAX_MS`]; 0 for none.
    pub wait_alarm_ms: u64,
    /// A longer hold raises an alarm. Milliseconds, up to [`LockPolicy::ALARM_MAX_MS`]; 0 for none.
    pub hold_alarm_ms: u64,
}

impl LockPolicy {
    /// The maximum permits of a semaphore.
    pub const LIMIT_MAX: u32 = 10_000;
    /// One minute.
    pub const LOCK_DELAY_MAX_MS: u64 = 60_000;
    /// Seven days.
    pub const COOLDOWN_MAX_MS: u64 = 7 * 86_400_000;
    /// One day.
    pub const AGEING_MAX_MS: u64 = 86_400_000;
    /// The maximum number of shards.
    pub const SHARDS_MAX: u32 = 1_024;
    /// 30 days.
    pub const ALARM_MAX_MS: u64 = 30 * 86_400_000;

    /// The policy of a lock without a stored policy.
    pub const DEFAULT: Self = Self {
        limit: None,
        order: QueueOrder::Fifo,
        ageing_ms: 10_000,
        lock_delay_ms: 0,
        cooldown_ms: 0,
        detect_deadlocks: true,
        shards: None,
        wait_alarm_ms: 0,
        hold_alarm_ms: 0,
    };

    /// True if every number is within its bounds.
    pub fn is_within_bounds(&self) -> bool {
        self.limit.is_none_or(|limit| (1..=Self::LIMIT_MAX).contains(&limit))
            && self.ageing_ms <= Self::AGEING_MAX_MS
            && self.lock_delay_ms <= Self::LOCK_DELAY_MAX_MS
            && self.cooldown_ms <= Self::COOLDOWN_MAX_MS
            && self.shards.is_none_or(|count| (1..=Self::SHARDS_MAX).contains(&count))
            && self.wait_alarm_ms <= Self::ALARM_MAX_MS
            && self.hold_alarm_ms <= Self::ALARM_MAX_MS
    }

    /// True if a long wait or a long hold raises an alarm.
    pub fn has_alarm(&self) -> bool {
        self.wait_alarm_ms > 0 || self.hold_alarm_ms > 0
    }
}

impl Default for LockPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A change of a policy: a `None` field stays unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyChange {
    /// See [`LockPolicy::limit`]; `Some(None)` turns the semaphore into a lock.
    pub limit: Option<Option<u32>>,
    pub order: Option<QueueOrder>,
    pub ageing_ms: Option<u64>,
    pub lock_delay_ms: Option<u64>,
    pub cooldown_ms: Option<u64>,
    pub detect_deadlocks: Option<bool>,
    /// See [`LockPolicy::shards`]; `Some(None)` turns the sharded lock into one lock.
    pub shards: Option<Option<u32>>,
    pub wait_alarm_ms: Option<u64>,
    pub hold_alarm_ms: Option<u64>,
}

impl PolicyChange {
    /// The policy after the change.
    #[must_use]
    pub fn of(&self, policy: LockPolicy) -> LockPolicy {
        LockPolicy {
            limit: self.limit.unwrap_or(policy.limit),
            order: self.order.unwrap_or(policy.order),
            ageing_ms: self.ageing_ms.unwrap_or(policy.ageing_ms),
            lock_delay_ms: self.lock_delay_ms.unwrap_or(policy.lock_delay_ms),
            cooldown_ms: self.cooldown_ms.unwrap_or(policy.cooldown_ms),
            detect_deadlocks: self.detect_deadlocks.unwrap_or(policy.detect_deadlocks),
            shards: self.shards.unwrap_or(policy.shards),
            wait_alarm_ms: self.wait_alarm_ms.unwrap_or(policy.wait_alarm_ms),
            hold_alarm_ms: self.hold_alarm_ms.unwrap_or(policy.hold_alarm_ms),
        }
    }
}

/// Why a free lock is not granted for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CooldownCause {
    /// The last acquire named a `min_hold`.
    MinHold,
    /// The policy names a cooldown after each grant.
    Cooldown,
    /// The last hold expired, was revoked or was broken, and its holder may still write.
    LockDelay,
}

/// A lock in cooldown: it is not granted until a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cooldown {
    /// The lock can be granted by the first entry with this stamp or a later one.
    pub until: Stamp,
    /// Of several causes the one that lasts longest.
    pub cause: CooldownCause,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_change_keeps_all_other_fields() {
        let change = PolicyChange { limit: Some(Some(3)), ..PolicyChange::default() };
        let changed = change.of(LockPolicy::DEFAULT);
        assert_eq!(changed, LockPolicy { limit: Some(3), ..LockPolicy::DEFAULT });
        let back = PolicyChange { limit: Some(None), ..PolicyChange::default() };
        assert_eq!(back.of(changed), LockPolicy::DEFAULT);
    }

    #[test]
    fn a_policy_out_of_bounds_is_not_sound() {
        assert!(LockPolicy::DEFAULT.is_within_bounds());
        for limit in [0, LockPolicy::LIMIT_MAX + 1] {
            assert!(!LockPolicy { limit: Some(limit), ..LockPolicy::DEFAULT }.is_within_bounds());
        }
        let lock_delay_ms = LockPolicy::LOCK_DELAY_MAX_MS + 1;
        assert!(!LockPolicy { lock_delay_ms, ..LockPolicy::DEFAULT }.is_within_bounds());
    }
}
