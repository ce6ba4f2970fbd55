//! Limits that are part of the replicated state, so that every node rejects the same commands, and the names of all bounds of
//! what a client can make grow. [`crate::Rejection::LimitReached`] names one with its value.

use serde::{Deserialize, Serialize};

/// The limits of the state machine. Only [`crate::Command::SetLimits`] changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Live sessions.
    pub sessions_max: u32,
    /// Znodes in the tree.
    pub znodes_max: u32,
    /// Waiters on one lock.
    pub waiters_per_lock_max: u32,
    /// Queue entries (holders and waiters) of one session.
    pub queue_entries_per_session_max: u32,
    /// Attempts of one hold.
    pub hold_count_max: u32,
    /// Bytes of data in one znode.
    pub data_bytes_max: u32,
    /// Bytes that clients have stored: paths, data, access lists and queue entries of znodes; names, labels and
    /// remembered replies of live sessions.
    pub tree_bytes_max: u64,
    /// Remembered replies of one session; the oldest is forgotten first.
    pub memo_per_session_max: u32,
    /// Tombstones of sessions; the oldest is forgotten first.
    pub tombstones_max: u32,
    /// The minimum age of a forgotten tombstone, unless `tombstones_max` is reached; milliseconds of stamps.
    pub tombstone_ms: u64,
    /// Ephemeral znodes of one session that are not queue entries.
    pub ephemerals_per_session_max: u32,
    /// Latches, barriers, double barriers and counters.
    pub recipes_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 1_000_000,
            znodes_max: 4_000_000,
            waiters_per_lock_max: 10_000,
            queue_entries_per_session_max: 100_000,
            hold_count_max: 1_024,
            data_bytes_max: 1_048_575,
            tree_bytes_max: 1_073_741_824,
            memo_per_session_max: 64,
            tombstones_max: 200_000,
            tombstone_ms: 3_600_000,
            ephemerals_per_session_max: 100_000,
            recipes_max: 100_000,
        }
    }
}

/// A limit of the state machine; most are fields of [`crate::Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bound {
    /// `sessions_max`.
    Sessions,
    /// `znodes_max`.
    Znodes,
    /// `waiters_per_lock_max`.
    WaitersPerLock,
    /// `queue_entries_per_session_max`.
    QueueEntriesPerSession,
    /// `hold_count_max`.
    HoldCount,
    /// `data_bytes_max`.
    DataBytes,
    /// The end of a directory's sequence counter, or of the grant counter.
    Counter,
    /// The length of a path with its sequence number, or of a shard's name.
    PathLength,
    /// Znodes that one command deletes with a subtree.
    DeletedAtOnce,
    /// Operations and conditions of one multi.
    OpsOfMulti,
    /// Bytes that one multi adds or reads.
    BytesOfMulti,
    /// Missing directories that one command creates.
    MissingDirectories,
    /// Entries of an access list.
    AclEntries,
    /// Znodes that one command counts when it sets a quota on a subtree.
    CountedAtOnce,
    /// `ephemerals_per_session_max`.
    EphemeralsPerSession,
    /// `recipes_max`.
    Recipes,
    /// Arrivals and promises of one session, promises of one latch, or arrivals at one double barrier.
    RecipeEntries,
    /// Permits of one acquire: the limit of the semaphore.
    Permits,
    /// Bytes of the `value` of a queue entry.
    ValueBytes,
    /// `tree_bytes_max`.
    TreeBytes,
    /// Access tokens of the cluster.
    AccessTokens,
    /// Subjects of the cluster.
    Subjects,
    /// Roles of the cluster.
    Roles,
    /// Permissions of one role.
    Permissions,
    /// Roles of one subject.
    RolesOfSubject,
    /// Certificates of one subject.
    CertificatesOfSubject,
    /// Namespaces of the cluster.
    Namespaces,
    /// Denied certificates of the cluster.
    DeniedCertificates,
}
