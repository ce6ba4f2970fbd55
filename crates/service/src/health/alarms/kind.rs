//! The kinds of alarms, with their names and the next step for an operator.
//!
//! A new kind also gets a section in docs/operations.md, a rule in cluster-config/monitoring, and a test of both.

use serde::{Deserialize, Serialize};

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
}

impl AlarmKind {
    pub const ALL: [Self; 26] = [
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
            Self::Sealed => {
                "restore the backup elsewhere and stop these nodes, or run holdfast cluster unseal"
            }
        }
    }
}
