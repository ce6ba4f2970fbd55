//! How a lock may be held, and the rules that one lock follows: its policy.
//!
//! Owns the words and their bounds. Refuses to know queues and grants: the machine does. Bounds: [`LockPolicy::LIMIT_MAX`]
//! permits, [`LockPolicy::LOCK_DELAY_MAX_MS`], [`LockPolicy::COOLDOWN_MAX_MS`], [`LockPolicy::AGEING_MAX_MS`],
//! [`LockPolicy::SEGMENTS_MAX`] segments.

use serde::{Deserialize, Serialize};

use crate::Stamp;

/// How a place wants to hold, or holds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mode {
    /// Beside nobody. On a semaphore: beside others, as long as the permits last.
    #[default]
    Exclusive,
    /// Beside shared holders, and one upgradable one.
    Shared,
    /// Beside shared holders; may become exclusive later. There is one at a time.
    Upgradable,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Exclusive, Self::Shared, Self::Upgradable];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Upgradable => "upgradable",
        }
    }
}

/// Who goes before whom in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum QueueOrder {
    /// Who came first goes first.
    #[default]
    Fifo,
    /// Exclusive and upgradable requests go before shared ones.
    WriterFirst,
    /// Shared requests go before the others.
    ReaderFirst,
}

impl QueueOrder {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::WriterFirst, Self::ReaderFirst];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::WriterFirst => "writer-first",
            Self::ReaderFirst => "reader-first",
        }
    }
}

/// The rules of one lock. What was never set is as by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockPolicy {
    /// Permits that may be held at a time, from 1 to [`LockPolicy::LIMIT_MAX`]: the lock is a semaphore. None: it is a lock.
    pub limit: Option<u32>,
    /// Who goes before whom.
    pub order: QueueOrder,
    /// How much waiting one level of priority is worth, milliseconds, up to [`LockPolicy::AGEING_MAX_MS`].
    pub ageing_ms: u64,
    /// How long the lock stays closed after a holder was lost that may not know it, milliseconds, up to
    /// [`LockPolicy::LOCK_DELAY_MAX_MS`]; 0 for not at all.
    pub lock_delay_ms: u64,
    /// How long after a grant there is no other one, milliseconds, up to [`LockPolicy::COOLDOWN_MAX_MS`]; 0 for no such rule.
    pub cooldown_ms: u64,
    /// Whether a request that would close a cycle of waiters is refused.
    pub detect_deadlocks: bool,
    /// Into how many segments the resource is cut, from 1 to [`LockPolicy::SEGMENTS_MAX`].
    pub segments: Option<u32>,
}

impl LockPolicy {
    /// The most permits of a semaphore.
    pub const LIMIT_MAX: u32 = 10_000;
    /// One minute.
    pub const LOCK_DELAY_MAX_MS: u64 = 60_000;
    /// Seven days.
    pub const COOLDOWN_MAX_MS: u64 = 7 * 86_400_000;
    /// One day.
    pub const AGEING_MAX_MS: u64 = 86_400_000;
    /// The most segments.
    pub const SEGMENTS_MAX: u32 = 1_024;

    /// The rules of a lock that nobody set any for.
    pub const DEFAULT: Self = Self {
        limit: None,
        order: QueueOrder::Fifo,
        ageing_ms: 10_000,
        lock_delay_ms: 0,
        cooldown_ms: 0,
        detect_deadlocks: true,
        segments: None,
    };

    /// True if every number is within its bounds.
    pub fn is_sound(&self) -> bool {
        self.limit.is_none_or(|limit| (1..=Self::LIMIT_MAX).contains(&limit))
            && self.ageing_ms <= Self::AGEING_MAX_MS
            && self.lock_delay_ms <= Self::LOCK_DELAY_MAX_MS
            && self.cooldown_ms <= Self::COOLDOWN_MAX_MS
            && self.segments.is_none_or(|count| (1..=Self::SEGMENTS_MAX).contains(&count))
    }
}

impl Default for LockPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Rules to be changed: what is none stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyChange {
    /// See [`LockPolicy::limit`]; `Some(None)` makes it a lock again.
    pub limit: Option<Option<u32>>,
    pub order: Option<QueueOrder>,
    pub ageing_ms: Option<u64>,
    pub lock_delay_ms: Option<u64>,
    pub cooldown_ms: Option<u64>,
    pub detect_deadlocks: Option<bool>,
    /// See [`LockPolicy::segments`]; `Some(None)` makes it whole again.
    pub segments: Option<Option<u32>>,
}

impl PolicyChange {
    /// The rules after the change.
    #[must_use]
    pub fn of(&self, policy: LockPolicy) -> LockPolicy {
        LockPolicy {
            limit: self.limit.unwrap_or(policy.limit),
            order: self.order.unwrap_or(policy.order),
            ageing_ms: self.ageing_ms.unwrap_or(policy.ageing_ms),
            lock_delay_ms: self.lock_delay_ms.unwrap_or(policy.lock_delay_ms),
            cooldown_ms: self.cooldown_ms.unwrap_or(policy.cooldown_ms),
            detect_deadlocks: self.detect_deadlocks.unwrap_or(policy.detect_deadlocks),
            segments: self.segments.unwrap_or(policy.segments),
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
    /// The last hold was lost, and its holder may not know it yet.
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
    fn a_change_changes_what_it_names() {
        let change = PolicyChange { limit: Some(Some(3)), ..PolicyChange::default() };
        let changed = change.of(LockPolicy::DEFAULT);
        assert_eq!(changed, LockPolicy { limit: Some(3), ..LockPolicy::DEFAULT });
        let back = PolicyChange { limit: Some(None), ..PolicyChange::default() };
        assert_eq!(back.of(changed), LockPolicy::DEFAULT);
    }

    #[test]
    fn numbers_have_bounds() {
        assert!(LockPolicy::DEFAULT.is_sound());
        for limit in [0, LockPolicy::LIMIT_MAX + 1] {
            assert!(!LockPolicy { limit: Some(limit), ..LockPolicy::DEFAULT }.is_sound());
        }
        let lock_delay_ms = LockPolicy::LOCK_DELAY_MAX_MS + 1;
        assert!(!LockPolicy { lock_delay_ms, ..LockPolicy::DEFAULT }.is_sound());
    }
}
