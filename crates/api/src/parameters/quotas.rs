//! Parameters of the quotas of namespaces, of subjects and of subtrees: one for each quota.

use holdfast_types::QuotaKind;

use crate::param::Param;

const fn quota(quota: QuotaKind, about: &'static str) -> Param {
    let range = quota.range();
    Param::number(quota.as_str(), (*range.start(), *range.end()), about)
}

/// Parameters of namespaces: one for each quota.
pub mod namespace {
    use holdfast_types::QuotaKind;

    use super::quota;
    use crate::param::Param;

    pub const LOCKS: Param = quota(QuotaKind::Locks, "Locks with a holder or a waiter");
    pub const QUEUE_ENTRIES: Param =
        quota(QuotaKind::QueueEntries, "Holders and waiters of all locks");
    pub const WAITERS_PER_LOCK: Param = quota(QuotaKind::WaitersPerLock, "Waiters on one lock");
    pub const SESSIONS: Param =
        quota(QuotaKind::Sessions, "Open sessions of the subjects of the namespace");
    pub const ZNODES: Param =
        quota(QuotaKind::Znodes, "Znodes, including locks and their queue entries");
    pub const BYTES: Param =
        quota(QuotaKind::Bytes, "Bytes of the paths, data and access lists of the znodes");
    pub const RECIPES: Param = quota(QuotaKind::Recipes, "Latches, barriers and counters");
    pub const CALLS_PER_SECOND: Param = quota(
        QuotaKind::CallsPerSecond,
        "Calls of the subjects of the namespace to one node; renewals of sessions do not count",
    );

    /// The parameter of a quota; `None` for a quota that only subjects have.
    pub const fn parameter(quota: QuotaKind) -> Option<Param> {
        Some(match quota {
            QuotaKind::Locks => LOCKS,
            QuotaKind::QueueEntries => QUEUE_ENTRIES,
            QuotaKind::WaitersPerLock => WAITERS_PER_LOCK,
            QuotaKind::Sessions => SESSIONS,
            QuotaKind::Znodes => ZNODES,
            QuotaKind::Bytes => BYTES,
            QuotaKind::Recipes => RECIPES,
            QuotaKind::CallsPerSecond => CALLS_PER_SECOND,
            QuotaKind::Streams | QuotaKind::Connections => return None,
        })
    }
}

/// Parameters of the quotas of subjects: one for each quota.
pub mod subject_quotas {
    use holdfast_types::QuotaKind;

    use super::quota;
    use crate::param::Param;

    pub const SESSIONS: Param = quota(QuotaKind::Sessions, "Open sessions of the subject");
    pub const QUEUE_ENTRIES: Param =
        quota(QuotaKind::QueueEntries, "Holds and waiters of its sessions");
    pub const BYTES: Param = quota(
        QuotaKind::Bytes,
        "Bytes of the names, labels and remembered replies of its sessions",
    );
    pub const STREAMS: Param = quota(QuotaKind::Streams, "Its event streams from one node");
    pub const CONNECTIONS: Param = quota(QuotaKind::Connections, "Its connections to one node");
    pub const CALLS_PER_SECOND: Param = quota(
        QuotaKind::CallsPerSecond,
        "Its calls to one node; renewals of sessions do not count",
    );

    /// The parameter of a quota; `None` for a quota that only namespaces have.
    pub const fn parameter(quota: QuotaKind) -> Option<Param> {
        match quota {
            QuotaKind::Sessions => Some(SESSIONS),
            QuotaKind::QueueEntries => Some(QUEUE_ENTRIES),
            QuotaKind::Bytes => Some(BYTES),
            QuotaKind::Streams => Some(STREAMS),
            QuotaKind::Connections => Some(CONNECTIONS),
            QuotaKind::CallsPerSecond => Some(CALLS_PER_SECOND),
            QuotaKind::Locks
            | QuotaKind::WaitersPerLock
            | QuotaKind::Znodes
            | QuotaKind::Recipes => None,
        }
    }
}

/// Parameters of the quotas of subtrees: the limits.
pub mod tree_quota {
    use holdfast_types::QuotaKind;

    use super::quota;
    use crate::param::Param;

    const LIMIT_MAX: u64 = *QuotaKind::Znodes.range().end();

    pub const ZNODES: Param = quota(
        QuotaKind::Znodes,
        "The most znodes of the subtree, including its root and the queue entries of locks",
    );
    pub const BYTES: Param = quota(QuotaKind::Bytes, "The most bytes of data in the subtree");
    pub const SOFT_ZNODES: Param = Param::number(
        "soft_znodes",
        (0, LIMIT_MAX),
        "More znodes raise the alarm tree-quota-soft; they are not rejected",
    );
    pub const SOFT_BYTES: Param = Param::number(
        "soft_bytes",
        (0, LIMIT_MAX),
        "More bytes of data raise the alarm tree-quota-soft; they are not rejected",
    );
}
