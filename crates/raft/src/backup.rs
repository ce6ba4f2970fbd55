//! Backups: the state of a cluster at one revision as a stream of bytes (`docs/contributing/formats/backup.md`).
//!
//! The parts of a snapshot stand between a head, which names the origin, and an end with a SHA-256. A stream without its
//! end is not a backup. This file builds the stream from a frozen machine, `read` checks every byte and loads the machine.
//!
//! Bounds: one part in memory, and [`QUEUE_MAX`] parts that the receiver of the stream has not taken.

mod read;

use std::fmt::{self, Write as _};
use std::io;

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_machine::{DIGEST_SCHEMA, Machine, SnapshotPart};
use holdfast_types::{ClusterId, FeatureLevel, NodeId, Revision, Stamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::node::RaftNode;
use crate::store::run_in_background;

/// The version of the bytes. A reader rejects later ones.
const FORMAT: u16 = 1;

/// The origin and the sizes of a backup. `format` is the first field of every version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHead {
    format: u16,
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

/// Parts that the receiver of a stream has not taken. Then the thread of the backup waits.
const QUEUE_MAX: usize = 2;

impl RaftNode {
    /// Streams a machine of this node as a backup. `cluster` is the name of the cluster. The work ends when the receiver is
    /// dropped.
    pub fn stream_backup(
        &self,
        machine: Machine,
        cluster: String,
    ) -> mpsc::Receiver<io::Result<Bytes>> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let (node, made_at) = (self.node(), self.wall_clock());
        let failed = sender.clone();
        let work = move || {
            for bytes in write(&machine, cluster, node, made_at) {
                if sender.blocking_send(bytes).is_err() {
                    return;
                }
            }
        };
        tokio::spawn(async move {
            if let Err(error) = run_in_background("backup", work).await {
                failed.send(Err(error)).await.ok();
            }
        });
        receiver
    }
}

/// The bytes of a backup. An error ends them early, without an end.
fn write(
    machine: &Machine,
    cluster: String,
    node: NodeId,
    made_at: Stamp,
) -> impl Iterator<Item = io::Result<Bytes>> + use<> {
    let counts = machine.counts();
    let head = BackupHead {
        format: FORMAT,
        cluster,
        cluster_id: machine.cluster_id(),
        level: machine.level(),
        revision: machine.revision(),
        last_token: counts.grants,
        sessions: counts.sessions,
        locks_held: counts.locks_held,
        znodes: counts.znodes,
        made_at,
        node,
        build: env!("CARGO_PKG_VERSION").to_owned(),
        digest_schema: DIGEST_SCHEMA,
        state_digest: machine.state_digest(),
    };
    let stages = std::iter::once(Stage::Head(Box::new(head)))
        .chain(machine.dump().map(Stage::Part))
        .chain([Stage::End]);
    stages.scan(Some(Written::default()), |written, stage| {
        let mut before = written.take()?;
        let bytes = before.encode(&stage);
        *written = bytes.is_ok().then_some(before);
        Some(bytes)
    })
}

enum Stage {
    Head(Box<BackupHead>),
    Part(SnapshotPart),
    End,
}

/// The bytes so far.
#[derive(Default)]
struct Written {
    bytes: u64,
    hash: Sha256,
}

impl Written {
    fn encode(&mut self, stage: &Stage) -> io::Result<Bytes> {
        let encoded = match stage {
            Stage::Head(head) => holdfast_codec::encode(Kind::BackupHead, head),
            Stage::Part(part) => holdfast_codec::encode(Kind::SnapshotPart, part),
            Stage::End => {
                let sha256 = self.hash.clone().finalize().into();
                holdfast_codec::encode(Kind::BackupEnd, &BackupEnd { bytes: self.bytes, sha256 })
            }
        };
        let bytes = encoded.map_err(io::Error::other)?;
        self.bytes += bytes.len() as u64;
        self.hash.update(&bytes);
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests;
