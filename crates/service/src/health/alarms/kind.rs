//! The conditions that an operator should end: their names, thresholds and next steps. Each is defined once, for the alarms,
//! `/readyz`, `holdfast doctor` and `holdfast explain`.
//!
//! A new kind also gets a section in docs/operations.md, a rule in cluster-config/monitoring, and a test of both.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A follower that has acknowledged nothing for longer is silent.
pub(crate) const SILENT: Duration = Duration::from_secs(10);
/// A follower that lags by more entries needs a snapshot soon, because the leader keeps about as many.
pub(super) const LAG_MAX: u64 = 4_096;
/// Free disk space below this multiple of the reserve is low.
pub(super) const RESERVES_MIN: u64 = 16;
/// With fewer syncs in the last minute, a single slow one is no alarm.
pub(super) const SYNCS_MIN: u64 = 20;
/// Certificates and access tokens that expire within this time.
pub(super) const EXPIRES_WITHIN: Duration = Duration::from_hours(14 * 24);
/// The largest difference between two clocks without an alarm, milliseconds.
pub const CLOCK_OFFSET_MAX: u64 = 500;
/// The largest delay of the log's time without an alarm, milliseconds.
pub(super) const BEHIND_MAX: i64 = 5_000;
/// Resident memory from this percentage of the limit on is high. The rest is for a snapshot and for calls in flight.
pub(super) const MEMORY_HIGH: u64 = 80;
/// From this percentage on, the kernel may end the process at any time.
pub(super) const MEMORY_CRITICAL: u64 = 92;
/// How long an eviction from the audit trail raises an alarm, milliseconds.
pub(super) const EVICTED_FOR: u64 = 86_400_000;
/// The most things that one alarm names.
pub(crate) const NAMED_MAX: usize = 5;

/// The kind of an alarm. Services exchange it: append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AlarmKind {
    NoLeader,
    Diverged,
    OneFailureLeft,
    MemberSilent,
    MemberLagging,
    DiskLow,
    LogSyncSlow,
    CertificateExpires,
    TlsReloadFailed,
    TokenExpires,
    QuotaNear,
    HistoryGap,
    OpenMode,
    ClockSkew,
    BackupOld,
    Unverified,
    Sealed,
    ForeignRecipe,
    TimeBehind,
    MemberAddress,
    MemoryHigh,
    BackupFailed,
    AuditEvicted,
    AuditBehind,
    DurableHoldOld,
    TreeQuotaSoft,
    LockWaitLong,
    LockHoldOld,
}

impl AlarmKind {
    pub const ALL: [Self; 28] = [
        Self::NoLeader,
        Self::Diverged,
        Self::OneFailureLeft,
        Self::MemberSilent,
        Self::MemberLagging,
        Self::DiskLow,
        Self::LogSyncSlow,
        Self::CertificateExpires,
        Self::TlsReloadFailed,
        Self::TokenExpires,
        Self::QuotaNear,
        Self::HistoryGap,
        Self::OpenMode,
        Self::ClockSkew,
        Self::BackupOld,
        Self::Unverified,
        Self::Sealed,
        Self::ForeignRecipe,
        Self::TimeBehind,
        Self::MemberAddress,
        Self::MemoryHigh,
        Self::BackupFailed,
        Self::AuditEvicted,
        Self::AuditBehind,
        Self::DurableHoldOld,
        Self::TreeQuotaSoft,
        Self::LockWaitLong,
        Self::LockHoldOld,
    ];

    /// The name, which is also its anchor in docs/operations.md.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoLeader => "no-leader",
            Self::Diverged => "diverged",
            Self::OneFailureLeft => "one-failure-left",
            Self::MemberSilent => "member-silent",
            Self::MemberLagging => "member-lagging",
            Self::DiskLow => "disk-low",
            Self::LogSyncSlow => "log-sync-slow",
            Self::CertificateExpires => "certificate-expires",
            Self::TlsReloadFailed => "tls-reload-failed",
            Self::TokenExpires => "token-expires",
            Self::QuotaNear => "quota-near",
            Self::HistoryGap => "history-gap",
            Self::OpenMode => "open-mode",
            Self::ClockSkew => "clock-skew",
            Self::BackupOld => "backup-old",
            Self::Unverified => "unverified",
            Self::Sealed => "sealed",
            Self::ForeignRecipe => "foreign-recipe",
            Self::TimeBehind => "time-behind",
            Self::MemberAddress => "member-address",
            Self::MemoryHigh => "memory-high",
            Self::BackupFailed => "backup-failed",
            Self::AuditEvicted => "audit-evicted",
            Self::AuditBehind => "audit-behind",
            Self::DurableHoldOld => "durable-hold-old",
            Self::TreeQuotaSoft => "tree-quota-soft",
            Self::LockWaitLong => "lock-wait-long",
            Self::LockHoldOld => "lock-hold-old",
        }
    }

    /// What to do next, without a full stop.
    pub const fn next_step(self) -> &'static str {
        match self {
            Self::NoLeader => {
                "start the members that do not run, and check the network between them"
            }
            Self::Diverged => "stop new work, keep all data directories, and report it",
            Self::OneFailureLeft => "start the missing members before another one fails",
            Self::MemberSilent => "start the member, or check the network to it",
            Self::MemberLagging => "check the disk, the processor and the network of the member",
            Self::DiskLow => "free disk space: at storage.disk_reserve the node rejects writes",
            Self::LogSyncSlow => "give the data directory a faster disk, or a separate disk",
            Self::CertificateExpires => {
                "replace the files of the certificate; the node uses them within 10 s"
            }
            Self::TlsReloadFailed => {
                "correct the files; until then new connections use the previous ones"
            }
            Self::TokenExpires => {
                "run holdfast auth token rotate ID, and give the new token to the client"
            }
            Self::QuotaNear => "raise the limit, or delete what is not needed",
            Self::HistoryGap => "check the disk and the load; locks are not affected",
            Self::OpenMode => "give the listeners certificates, and remove security.mode",
            Self::ClockSkew => "synchronize the clocks of the machines, for example with chrony",
            Self::BackupOld => "run holdfast backup, and check the timer that should run it",
            Self::Unverified => "start the other nodes, with programs of the same version",
            Self::ForeignRecipe => {
                "move these locks out of /locks, or use a recipe of docs/zookeeper.md"
            }
            Self::MemberAddress => {
                "correct it with holdfast member set ID --peer HOST:PORT, or start the member at this address"
            }
            Self::MemoryHigh => {
                "raise the memory limit of the node, or lower limits.tree_bytes_max on all nodes"
            }
            Self::BackupFailed => "correct the cause; the node tries again each minute",
            Self::TimeBehind => {
                "set the clocks of the machines; the time catches up by 1 ms/s, or at once while nothing depends on it"
            }
            Self::AuditEvicted => {
                "find what writes so many records, and let a collector follow the audit trail"
            }
            Self::AuditBehind => {
                "check the disk of audit.file, or the server of audit.syslog; the node writes on when it can"
            }
            Self::DurableHoldOld => {
                "ask its owner to release it, or run holdfast unlock NAME --force --reason TEXT"
            }
            Self::TreeQuotaSoft => {
                "delete znodes of the subtree, or raise the limit with holdfast tree quota set PATH"
            }
            Self::LockWaitLong => {
                "read the reason with holdfast who NAME, and ask its holder with holdfast unlock NAME --ask --reason TEXT"
            }
            Self::LockHoldOld => {
                "see with holdfast who NAME whether the holder works, and ask it with holdfast unlock NAME --ask --reason TEXT"
            }
            Self::Sealed => {
                "restore the backup elsewhere and stop these nodes, or run holdfast cluster unseal"
            }
        }
    }
}
