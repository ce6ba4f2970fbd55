//! The bounds of everything that a client can make grow. [`crate::Rejection::LimitReached`] names one with its value.
//!
//! Some are fields of [`crate::Limits`], the others constants of the state machine.

use serde::{Deserialize, Serialize};

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
