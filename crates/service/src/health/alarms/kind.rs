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
pub(super) const MEMORY_HIGH: u128 = 80;
/// From this percentage on, the kernel may end the process at any time.
pub(super) const MEMORY_CRITICAL: u128 = 92;
/// How long an eviction from the audit trail raises an alarm, milliseconds.
pub(super) const EVICTED_FOR: u64 = 86_400_000;
/// The most things that one alarm names.
pub(crate) const NAMED_MAX: usize = 5;

macro_rules! kinds {
    ($($kind:ident, $name:literal, $next_step:literal;)*) => {
        /// The kind of an alarm. Services exchange it: append-only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum AlarmKind {
            $($kind,)*
        }

        impl AlarmKind {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The name, which is also its anchor in docs/operations.md.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// What to do next, without a full stop.
            pub const fn next_step(self) -> &'static str {
                match self {
                    $(Self::$kind => $next_step,)*
                }
            }
        }
    };
}

// Append-only: each kind with its name and what to do next.
kinds! {
    NoLeader, "no-leader", "start the members that do not run, and check the network between them";
    Diverged, "diverged", "stop new work, keep all data directories, and report it";
    OneFailureLeft, "one-failure-left", "start the missing members before another one fails";
    MemberSilent, "member-silent", "start the member, or check the network to it";
    MemberLagging, "member-lagging", "check the disk, the processor and the network of the member";
    DiskLow, "disk-low", "free disk space: at storage.disk_reserve the node rejects writes";
    LogSyncSlow, "log-sync-slow", "give the data directory a faster disk, or a separate disk";
    CertificateExpires, "certificate-expires",
        "replace the files of the certificate; the node uses them within 10 s";
    TlsReloadFailed, "tls-reload-failed",
        "correct the files; until then new connections use the previous ones";
    TokenExpires, "token-expires",
        "run holdfast auth token rotate ID, and give the new token to the client";
    QuotaNear, "quota-near", "raise the limit, or delete what is not needed";
    HistoryGap, "history-gap", "check the disk and the load; locks are not affected";
    OpenMode, "open-mode", "give the listeners certificates, and remove security.mode";
    ClockSkew, "clock-skew", "synchronize the clocks of the machines, for example with chrony";
    BackupOld, "backup-old", "run holdfast backup, and check the timer that should run it";
    Unverified, "unverified", "start the other nodes, with programs of the same version";
    Sealed, "sealed",
        "restore the backup elsewhere and stop these nodes, or run holdfast cluster unseal";
    ForeignRecipe, "foreign-recipe",
        "move these locks out of /locks, or use a recipe of docs/zookeeper.md";
    TimeBehind, "time-behind",
        "set the clocks of the machines; the time catches up by 1 ms/s, or at once while nothing depends on it";
    MemberAddress, "member-address",
        "correct it with holdfast member set ID --peer HOST:PORT, or start the member at this address";
    MemoryHigh, "memory-high",
        "raise the memory limit of the node, or lower limits.tree_bytes_max on all nodes";
    BackupFailed, "backup-failed", "correct the cause; the node tries again each minute";
    AuditEvicted, "audit-evicted",
        "find what writes so many records, and let a collector follow the audit trail";
    AuditBehind, "audit-behind",
        "check the disk of audit.file, or the server of audit.syslog; the node writes on when it can";
    DurableHoldOld, "durable-hold-old",
        "ask its owner to release it, or run holdfast unlock NAME --force --reason TEXT";
    TreeQuotaSoft, "tree-quota-soft",
        "delete znodes of the subtree, or raise the limit with holdfast tree quota set PATH";
    LockWaitLong, "lock-wait-long",
        "read the reason with holdfast who NAME, and ask its holder with holdfast unlock NAME --ask --reason TEXT";
    LockHoldOld, "lock-hold-old",
        "see with holdfast who NAME whether the holder works, and ask it with holdfast unlock NAME --ask --reason TEXT";
}
