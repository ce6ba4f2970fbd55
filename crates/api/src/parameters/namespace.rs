//! Parameters of namespaces: one for each quota.

use holdfast_types::NamespaceQuota;

use crate::param::Param;

const fn quota(quota: NamespaceQuota, about: &'static str) -> Param {
    let range = quota.range();
    Param::number(quota.as_str(), (*range.start(), *range.end()), about)
}

pub const LOCKS: Param = quota(NamespaceQuota::Locks, "Locks with a holder or a waiter");
pub const QUEUE_ENTRIES: Param =
    quota(NamespaceQuota::QueueEntries, "Holders and waiters of all locks");
pub const WAITERS_PER_LOCK: Param = quota(NamespaceQuota::WaitersPerLock, "Waiters on one lock");
pub const SESSIONS: Param =
    quota(NamespaceQuota::Sessions, "Open sessions of the subjects of the namespace");
pub const ZNODES: Param =
    quota(NamespaceQuota::Znodes, "Znodes, including locks and their queue entries");
pub const BYTES: Param =
    quota(NamespaceQuota::Bytes, "Bytes of the paths, data and access lists of the znodes");
pub const RECIPES: Param = quota(NamespaceQuota::Recipes, "Latches, barriers and counters");
pub const CALLS_PER_SECOND: Param = quota(
    NamespaceQuota::CallsPerSecond,
    "Calls of the subjects of the namespace to one node; renewals of sessions do not count",
);

/// The parameter of a quota.
pub const fn parameter(quota: NamespaceQuota) -> Param {
    match quota {
        NamespaceQuota::Locks => LOCKS,
        NamespaceQuota::QueueEntries => QUEUE_ENTRIES,
        NamespaceQuota::WaitersPerLock => WAITERS_PER_LOCK,
        NamespaceQuota::Sessions => SESSIONS,
        NamespaceQuota::Znodes => ZNODES,
        NamespaceQuota::Bytes => BYTES,
        NamespaceQuota::Recipes => RECIPES,
        NamespaceQuota::CallsPerSecond => CALLS_PER_SECOND,
    }
}
