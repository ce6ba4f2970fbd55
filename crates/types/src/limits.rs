//! Bounds that are part of the replicated state, so that every node refuses the same command.

use serde::{Deserialize, Serialize};

/// What the machine refuses to exceed. Changed only by a command in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Live sessions.
    pub sessions_max: u32,
    /// Znodes in the tree.
    pub znodes_max: u32,
    /// Waiters on one lock.
    pub waiters_per_lock_max: u32,
    /// Contenders (holding or waiting) of one session.
    pub queue_entries_per_session_max: u32,
    /// Entries of one hold.
    pub hold_count_max: u32,
    /// Bytes of data in one znode.
    pub data_bytes_max: u32,
    /// Bytes that clients have stored: of znodes their paths, data, access lists and places in queues; of live sessions
    /// their names, labels and remembered answers.
    pub tree_bytes_max: u64,
    /// Remembered answers of one session; the oldest is forgotten first.
    pub memo_per_session_max: u32,
    /// Remembered ends of sessions; the oldest is forgotten first.
    pub tombstones_max: u32,
    /// How long the end of a session is remembered at least, milliseconds of stamps, room permitting.
    pub tombstone_ms: u64,
    /// Ephemerals of one session that are not contenders.
    pub ephemerals_per_session_max: u32,
    /// Latches, barriers, double barriers and counters, together.
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
