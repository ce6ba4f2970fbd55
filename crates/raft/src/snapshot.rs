//! Snapshots of the machine: made, kept, sent and received.
//!
//! Owns the translation between the machine's parts and the bytes of a snapshot file. Everything here that touches the
//! disk runs on threads that may block. A received snapshot is verified and loaded before openraft hears of it, and stays a
//! partial file until openraft installs it. So one that is damaged, or of a form that this build does not know, changes
//! nothing here: the peer is refused.
//!
//! Bounds: one part, or one piece, in memory; and the machine of one received snapshot, beside the one that serves.

use std::io;
use std::path::Path;

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_machine::{Machine, Part};
use holdfast_storage::{
    RawSnapshot, SnapshotReader, SnapshotReceiver, Snapshots, StoreError, VerifiedSnapshot,
};
use openraft::alias::SnapshotOf;
use tokio::task::spawn_blocking;

use crate::type_config::{SnapshotMeta, TypeConfig, Vote};
use crate::wire::SnapshotMetaDto;

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

type Snapshot = SnapshotOf<TypeConfig, SnapshotFile>;

/// A snapshot as openraft hands it around.
pub(crate) enum SnapshotFile {
    /// The one that counts, or counted when it was asked for.
    Stored(SnapshotReader),
    /// One from a peer, which can be loaded.
    Received(Box<Loaded>),
}

/// A peer's snapshot and the machine in it. It does not count yet.
pub(crate) struct Loaded {
    snapshot: VerifiedSnapshot,
    machine: Machine,
}

impl Loaded {
    fn verify(receiver: SnapshotReceiver, announced: &SnapshotMeta) -> io::Result<Self> {
        let snapshot = receiver.verify().map_err(io::Error::other)?;
        if read_meta(snapshot.reader())? != *announced {
            return Err(io::Error::other("a snapshot covers something else than was announced"));
        }
        let machine = load(snapshot.reader())?;
        Ok(Self { snapshot, machine })
    }

    fn publish(self) -> io::Result<Machine> {
        self.snapshot.publish().map_err(io::Error::other)?;
        Ok(self.machine)
    }
}

impl SnapshotFile {
    /// Reads the file as it is, piece by piece.
    pub(crate) fn into_pieces(self, bytes_max: usize) -> io::Result<Pieces> {
        match self {
            Self::Stored(reader) => Ok(Pieces { raw: reader.raw(), offset: 0, bytes_max }),
            Self::Received(_) => Err(io::Error::other("a received snapshot is not sent on")),
        }
    }
}

/// See [`SnapshotFile::into_pieces`].
pub(crate) struct Pieces {
    raw: RawSnapshot,
    offset: u64,
    bytes_max: usize,
}

impl Pieces {
    /// The next piece; none at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let (raw, offset, bytes_max) = (self.raw.clone(), self.offset, self.bytes_max);
        let read = spawn_blocking(move || raw.read_at(offset, bytes_max));
        let piece = read.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        self.offset += piece.len() as u64;
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// A snapshot on its way in.
pub(crate) struct IncomingSnapshot {
    receiver: SnapshotReceiver,
    vote: Vote,
    meta: SnapshotMeta,
}

impl IncomingSnapshot {
    /// Takes the next piece.
    pub(crate) async fn add(mut self, piece: Bytes) -> io::Result<Self> {
        let add = move || self.receiver.append(&piece).map(|()| self).map_err(io::Error::other);
        spawn_blocking(add).await.map_err(io::Error::other)?
    }

    /// All has come: loads it, and hands it over for installation.
    pub(crate) async fn finish(self) -> io::Result<(Vote, Snapshot)> {
        let Self { receiver, vote, meta } = self;
        let load = move || Loaded::verify(receiver, &meta).map(|loaded| (loaded, meta));
        let (loaded, meta) = spawn_blocking(load).await.map_err(io::Error::other)??;
        Ok((vote, Snapshot { meta, snapshot: SnapshotFile::Received(Box::new(loaded)) }))
    }
}

/// The snapshots of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SnapshotStore {
    snapshots: Snapshots,
}

impl SnapshotStore {
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        Ok(Self { snapshots: Snapshots::open(dir)? })
    }

    /// Bytes of the snapshot that counts; 0 if there is none.
    pub(crate) fn bytes(&self) -> u64 {
        self.snapshots.latest().ok().flatten().map_or(0, |reader| reader.bytes())
    }

    /// Begins to receive a snapshot.
    pub(crate) fn receive(
        &self,
        vote: Vote,
        meta: SnapshotMetaDto,
    ) -> io::Result<IncomingSnapshot> {
        let meta = meta.into_meta().map_err(io::Error::other)?;
        let receiver = self.snapshots.receive(&name(&meta)).map_err(io::Error::other)?;
        Ok(IncomingSnapshot { receiver, vote, meta })
    }

    /// Writes a frozen machine, and makes it the snapshot that counts. Blocks.
    pub(crate) fn build(&self, machine: &Machine, meta: SnapshotMeta) -> io::Result<Snapshot> {
        let mut writer = self.snapshots.begin(&name(&meta)).map_err(io::Error::other)?;
        for part in machine.dump() {
            let bytes =
                holdfast_codec::encode(Kind::SnapshotPart, &part).map_err(io::Error::other)?;
            writer.write_part(&bytes).map_err(io::Error::other)?;
        }
        let dto = SnapshotMetaDto::from(&meta);
        let bytes = holdfast_codec::encode(Kind::SnapshotMeta, &dto).map_err(io::Error::other)?;
        let reader = writer.finish(&bytes).map_err(io::Error::other)?;
        Ok(Snapshot { meta, snapshot: SnapshotFile::Stored(reader) })
    }

    /// Answers the machine of a snapshot; a received one becomes the one that counts. Blocks.
    pub(crate) fn install(
        &self,
        file: SnapshotFile,
        expected: &SnapshotMeta,
    ) -> io::Result<Machine> {
        match file {
            SnapshotFile::Stored(reader) => self.own(&reader, expected),
            SnapshotFile::Received(loaded) => loaded.publish(),
        }
    }

    /// A stored snapshot is this node's own, except in a test that has two nodes in one hand.
    fn own(&self, reader: &SnapshotReader, meta: &SnapshotMeta) -> io::Result<Machine> {
        if self.current()?.is_some_and(|current| current.meta == *meta) {
            return load(reader);
        }
        let mut receiver = self.snapshots.receive(&name(meta)).map_err(io::Error::other)?;
        let raw = reader.raw();
        loop {
            let piece = raw.read_at(receiver.received(), COPY_BYTES).map_err(io::Error::other)?;
            if piece.is_empty() {
                return Loaded::verify(receiver, meta)?.publish();
            }
            receiver.append(&piece).map_err(io::Error::other)?;
        }
    }

    /// The snapshot that counts. Blocks.
    pub(crate) fn current(&self) -> io::Result<Option<Snapshot>> {
        let Some(reader) = self.snapshots.latest().map_err(io::Error::other)? else {
            return Ok(None);
        };
        let meta = read_meta(&reader)?;
        Ok(Some(Snapshot { meta, snapshot: SnapshotFile::Stored(reader) }))
    }
}

fn name(meta: &SnapshotMeta) -> String {
    match meta.last_log_id {
        Some(last) => format!("{}.{}.{}", last.leader_id.term, last.leader_id.node_id, last.index),
        None => "empty".into(),
    }
}

fn read_meta(reader: &SnapshotReader) -> io::Result<SnapshotMeta> {
    let dto: SnapshotMetaDto =
        holdfast_codec::decode(Kind::SnapshotMeta, reader.meta()).map_err(io::Error::other)?;
    dto.into_meta().map_err(io::Error::other)
}

/// Loads part by part; the first damaged one ends it, and is the error rather than what its absence looks like.
fn load(reader: &SnapshotReader) -> io::Result<Machine> {
    let mut damaged = None;
    let parts = reader.parts().map_while(|part| match decode(part) {
        Ok(part) => Some(part),
        Err(error) => {
            damaged = Some(error);
            None
        }
    });
    let machine = Machine::load(parts);
    match damaged {
        Some(error) => Err(error),
        None => machine.map_err(io::Error::other),
    }
}

fn decode(part: Result<Bytes, StoreError>) -> io::Result<Part> {
    let bytes = part.map_err(io::Error::other)?;
    holdfast_codec::decode(Kind::SnapshotPart, &bytes).map_err(io::Error::other)
}
