//! Parameters of the quotas of subjects: one for each quota.

use holdfast_types::QuotaKind;

use super::namespace::quota;
use crate::param::Param;

pub const SESSIONS: Param = quota(QuotaKind::Sessions, "Open sessions of the subject");
pub const QUEUE_ENTRIES: Param =
    quota(QuotaKind::QueueEntries, "Holds and waiters of its sessions");
pub const BYTES: Param =
    quota(QuotaKind::Bytes, "Bytes of the names, labels and remembered replies of its sessions");
pub const STREAMS: Param = quota(QuotaKind::Streams, "Its event streams from one node");
pub const CONNECTIONS: Param = quota(QuotaKind::Connections, "Its connections to one node");
pub const CALLS_PER_SECOND: Param =
    quota(QuotaKind::CallsPerSecond, "Its calls to one node; renewals of sessions do not count");

/// The parameter of a quota; `None` for a quota that only namespaces have.
pub const fn parameter(quota: QuotaKind) -> Option<Param> {
    match quota {
        QuotaKind::Sessions => Some(SESSIONS),
        QuotaKind::QueueEntries => Some(QUEUE_ENTRIES),
        QuotaKind::Bytes => Some(BYTES),
        QuotaKind::Streams => Some(STREAMS),
        QuotaKind::Connections => Some(CONNECTIONS),
        QuotaKind::CallsPerSecond => Some(CALLS_PER_SECOND),
        QuotaKind::Locks | QuotaKind::WaitersPerLock | QuotaKind::Znodes | QuotaKind::Recipes => {
            None
        }
    }
}
