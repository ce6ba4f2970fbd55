//! Parameters of namespaces: one for each quota.

use holdfast_types::QuotaKind;

use crate::param::Param;

pub(super) const fn quota(quota: QuotaKind, about: &'static str) -> Param {
    let range = quota.range();
    Param::number(quota.as_str(), (*range.start(), *range.end()), about)
}

pub const LOCKS: Param = quota(QuotaKind::Locks, "Locks with a holder or a waiter");
pub const QUEUE_ENTRIES: Param = quota(QuotaKind::QueueEntries, "Holders and waiters of all locks");
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
