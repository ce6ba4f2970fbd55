//! The figures that each node remembers for the last quarter of an hour.

use serde::{Deserialize, Serialize};

/// A figure of a node, one value for each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RecentMetric {
    /// Grants of the cluster.
    Grants,
    /// Holds of the cluster that ended.
    HoldsEnded,
    /// Sessions of the cluster that expired.
    SessionsExpired,
    /// Locks with a holder.
    LocksHeld,
    /// Clients that wait for a lock.
    LockWaiters,
    /// Open sessions.
    Sessions,
    /// The median of the waits that ended with a grant.
    WaitP50,
    /// The 99th percentile of the waits that ended with a grant.
    WaitP99,
    /// The median of the holds that ended.
    HoldP50,
    /// The 99th percentile of the holds that ended.
    HoldP99,
    /// Acquires on this node that were rejected because the lock was busy.
    AcquiresBusy,
    /// Acquires on this node whose wait ended without a grant.
    AcquiresTimedOut,
    /// Session renewals that this node served.
    Keepalives,
    /// Log entries that this node applied.
    LogEntries,
    /// Calls of this node that wait.
    ParkedCalls,
}

/// What the values of a figure are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RecentUnit {
    /// Events in a second.
    PerSecond,
    /// A number at the time of the value.
    Count,
    /// Milliseconds, estimated from the buckets of the metric.
    Milliseconds,
}

impl RecentMetric {
    pub const ALL: [Self; 15] = [
        Self::Grants,
        Self::HoldsEnded,
        Self::SessionsExpired,
        Self::LocksHeld,
        Self::LockWaiters,
        Self::Sessions,
        Self::WaitP50,
        Self::WaitP99,
        Self::HoldP50,
        Self::HoldP99,
        Self::AcquiresBusy,
        Self::AcquiresTimedOut,
        Self::Keepalives,
        Self::LogEntries,
        Self::ParkedCalls,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::HoldsEnded => "holds_ended",
            Self::SessionsExpired => "sessions_expired",
            Self::LocksHeld => "locks_held",
            Self::LockWaiters => "lock_waiters",
            Self::Sessions => "sessions",
            Self::WaitP50 => "wait_p50",
            Self::WaitP99 => "wait_p99",
            Self::HoldP50 => "hold_p50",
            Self::HoldP99 => "hold_p99",
            Self::AcquiresBusy => "acquires_busy",
            Self::AcquiresTimedOut => "acquires_timed_out",
            Self::Keepalives => "keepalives",
            Self::LogEntries => "log_entries",
            Self::ParkedCalls => "parked_calls",
        }
    }

    pub const fn unit(self) -> RecentUnit {
        match self {
            Self::Grants
            | Self::HoldsEnded
            | Self::SessionsExpired
            | Self::AcquiresBusy
            | Self::AcquiresTimedOut
            | Self::Keepalives
            | Self::LogEntries => RecentUnit::PerSecond,
            Self::LocksHeld | Self::LockWaiters | Self::Sessions | Self::ParkedCalls => {
                RecentUnit::Count
            }
            Self::WaitP50 | Self::WaitP99 | Self::HoldP50 | Self::HoldP99 => {
                RecentUnit::Milliseconds
            }
        }
    }

    /// True for a figure of the whole cluster, which is about equal on every node.
    pub const fn is_of_cluster(self) -> bool {
        match self {
            Self::Grants
            | Self::HoldsEnded
            | Self::SessionsExpired
            | Self::LocksHeld
            | Self::LockWaiters
            | Self::Sessions
            | Self::WaitP50
            | Self::WaitP99
            | Self::HoldP50
            | Self::HoldP99 => true,
            Self::AcquiresBusy
            | Self::AcquiresTimedOut
            | Self::Keepalives
            | Self::LogEntries
            | Self::ParkedCalls => false,
        }
    }
}
