//! Backups: the state of a cluster at one revision as a stream of bytes (`docs/contributing/formats/backup.md`).
//!
//! The parts of a snapshot stand between a head, which names the origin, and an end with a SHA-256. A stream without its
//! end is not a backup. `write` builds the stream from a frozen machine, `read` checks every byte and loads the machine.
//!
//! Bounds: one part in memory, and [`write::QUEUE_MAX`] parts that the receiver of the stream has not taken.

mod read;
mod write;

use std::fmt::{self, Write as _};

use holdfast_machine::Machine;
use holdfast_types::{ClusterId, FeatureLevel, NodeId, Revision, Stamp};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the bytes. A reader rejects later ones.
pub(crate) const FORMAT: u16 = 1;

/// The origin and the sizes of a backup. `format` is the first field of every version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHead {
    pub(crate) format: u16,
    /// The name of the cluster.
    pub cluster: String,
    pub cluster_id: Option<ClusterId>,
    pub level: FeatureLevel,
    pub revision: Revision,
    /// The value of the last fencing token.
    pub last_token: u64,
    /// Live sessions.
    pub sessions: u64,
    /// Locks with a holder.
    pub locks_held: u64,
    pub znodes: u64,
    /// The wall clock of the node.
    pub made_at: Stamp,
    pub node: NodeId,
    /// The version of the program.
    pub build: String,
    /// Digests are comparable only within one schema.
    pub digest_schema: u16,
    /// [`Machine::state_digest`].
    pub state_digest: u64,
}

/// The last part of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupEnd {
    /// The number of bytes before the end.
    pub bytes: u64,
    /// The SHA-256 of these bytes.
    pub sha256: [u8; 32],
}

/// A backup that was read completely.
#[derive(Debug)]
pub struct Backup {
    pub head: BackupHead,
    pub machine: Machine,
    pub end: BackupEnd,
}

/// The part of a backup in which an error was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupPart {
    Head,
    /// A part of the state, from 1.
    State(u64),
    /// The state that all parts together are.
    WholeState,
    End,
}

/// Why bytes are not a usable backup.
#[derive(Debug, Error)]
#[error("{part}, at byte {offset}: {reason}")]
pub struct BackupError {
    pub part: BackupPart,
    /// The start of the part.
    pub offset: u64,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl BackupEnd {
    /// The hash as 64 hexadecimal digits.
    pub fn sha256_hex(&self) -> String {
        self.sha256.iter().fold(String::new(), |mut hex, byte| {
            // Writing into a string does not fail.
            let _infallible = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl fmt::Display for BackupPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("the head of the backup"),
            Self::State(number) => write!(f, "part {number} of the state"),
            Self::WholeState => f.write_str("the state"),
            Self::End => f.write_str("the end of the backup"),
        }
    }
}

#[cfg(test)]
mod tests;
