//! Builds the stream of a backup.

use std::io;

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_machine::{DIGEST_SCHEMA, Machine, SnapshotPart};
use holdfast_types::{NodeId, Stamp};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{BackupEnd, BackupHead, FORMAT};
use crate::node::RaftNode;
use crate::store::run_in_background;

/// Parts that the receiver of a stream has not taken. Then the thread of the backup waits.
pub(crate) const QUEUE_MAX: usize = 2;

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
pub(crate) fn write(
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
