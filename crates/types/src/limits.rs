//! Limits that are part of the replicated state, so that every node rejects the same commands.

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
