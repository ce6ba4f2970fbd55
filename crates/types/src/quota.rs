//! Quotas: what the clients of a namespace, or one subject, may use.
//!
//! A namespace without a quota is unlimited. A subject has a default for each of its quotas except the calls a second, so
//! that nobody with one access token can fill the cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{NamespaceName, SubjectName};

/// What a quota bounds. Append-only: the order of the variants is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QuotaKind {
    /// Locks with a holder or a waiter.
    Locks,
    /// Holders and waiters of all locks.
    QueueEntries,
    WaitersPerLock,
    /// Live sessions.
    Sessions,
    Znodes,
    /// Of a namespace, bytes of znodes: their paths, data, access lists and queue entries. Of a subject, bytes of
    /// sessions: their names, labels and remembered replies.
    Bytes,
    /// Latches, barriers and counters.
    Recipes,
    /// Calls to one node.
    CallsPerSecond,
    /// Event streams of one node.
    Streams,
    /// Connections to one node.
    Connections,
}

/// Percent of a limit from which on it is nearly reached.
const NEARLY_FULL_PERCENT: u128 = 90;

/// Whether the use of a quota raises the alarm `quota-near`.
pub fn is_nearly_full(used: u64, limit: u64) -> bool {
    limit > 0 && u128::from(used) * 100 >= u128::from(limit) * NEARLY_FULL_PERCENT
}

/// Limits by what they bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quotas(pub BTreeMap<QuotaKind, u64>);

/// Whose use a quota bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QuotaOwner {
    Namespace(NamespaceName),
    Subject(SubjectName),
}

/// An owner has no room for what a command adds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuotaFull {
    pub owner: QuotaOwner,
    pub quota: QuotaKind,
    pub limit: u64,
    /// What the owner uses now, before the rejected command.
    pub used: u64,
}

impl QuotaKind {
    /// The quotas of a namespace.
    pub const OF_NAMESPACE: [Self; 8] = [
        Self::Locks,
        Self::QueueEntries,
        Self::WaitersPerLock,
        Self::Sessions,
        Self::Znodes,
        Self::Bytes,
        Self::Recipes,
        Self::CallsPerSecond,
    ];
    /// The quotas of a subject.
    pub const OF_SUBJECT: [Self; 6] = [
        Self::Sessions,
        Self::QueueEntries,
        Self::Bytes,
        Self::Streams,
        Self::Connections,
        Self::CallsPerSecond,
    ];

    /// The limit of a subject for which neither it nor the cluster has a quota. A small part of the limits of the cluster,
    /// and more than a program needs.
    pub const fn default_of_subject(self) -> Option<u64> {
        match self {
            Self::Sessions => Some(10_000),
            Self::QueueEntries => Some(100_000),
            Self::Bytes => Some(64 << 20),
            Self::Streams | Self::Connections => Some(4_000),
            Self::Locks
            | Self::WaitersPerLock
            | Self::Znodes
            | Self::Recipes
            | Self::CallsPerSecond => None,
        }
    }

    /// The name in replies and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::QueueEntries => "queue_entries",
            Self::WaitersPerLock => "waiters_per_lock",
            Self::Sessions => "sessions",
            Self::Znodes => "znodes",
            Self::Bytes => "bytes",
            Self::Recipes => "recipes",
            Self::CallsPerSecond => "calls_per_second",
            Self::Streams => "streams",
            Self::Connections => "connections",
        }
    }

    /// The values that it can have.
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Recipes => 0..=Self::RECIPES_MAX,
            Self::CallsPerSecond => 1..=1_000_000,
            Self::Locks
            | Self::QueueEntries
            | Self::WaitersPerLock
            | Self::Sessions
            | Self::Znodes
            | Self::Bytes
            | Self::Streams
            | Self::Connections => 0..=(1 << 53) - 1,
        }
    }

    /// The greatest quota of recipes. It is low because a new recipe counts all recipes of its namespace.
    pub const RECIPES_MAX: u64 = 10_000;
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Quotas {
    pub fn get(&self, quota: QuotaKind) -> Option<u64> {
        self.0.get(&quota).copied()
    }

    /// Whether each quota is one of `kinds`, with a value that it can have.
    pub fn are_of(&self, kinds: &[QuotaKind]) -> bool {
        self.0.iter().all(|(quota, limit)| kinds.contains(quota) && quota.range().contains(limit))
    }
}

/// `the namespace 'team-a'`.
impl fmt::Display for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(namespace) => write!(f, "the namespace '{namespace}'"),
            Self::Subject(subject) => write!(f, "the subject '{subject}'"),
        }
    }
}
