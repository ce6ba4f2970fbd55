//! Snapshots of the machine: building, storing, sending and receiving.
//!
//! The node verifies and loads a received snapshot before openraft sees it; the snapshot stays a partial file until
//! openraft installs it. The node therefore rejects a damaged snapshot, or one of an unknown format, without a change
//! of its state. Disk access runs on blocking threads.
//!
//! Bounds: one part or one piece in memory, and the machine of one received snapshot in addition to the current
//! machine.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_machine::{Machine, SnapshotPart};
use holdfast_storage::{
    RawSnapshot, SnapshotReader, SnapshotReceiver, Snapshots, StoreError, VerifiedSnapshot,
};
use openraft::alias::SnapshotOf;
use tokio::task::spawn_blocking;

use crate::failure::Failure;
use crate::store::disk::DiskGauge;
use crate::type_config::{LogId, SnapshotMeta, TypeConfig, Vote};
use crate::wire::SnapshotMetaDto;

/// The maximum number of bytes copied at once.
const COPY_BYTES: usize = 1 << 20;
/// After each part of a snapshot, the thread pauses for this many times as long as the part took. So clients barely notice a
/// snapshot: docs/contributing/performance.md.
const PAUSE_FACTOR: u32 = 4;
/// The longest pause, for a thread that waits for a processor.
const PAUSE_MAX: Duration = Duration::from_millis(5);

type Snapshot = SnapshotOf<TypeConfig, SnapshotFile>;

/// The snapshot data that openraft passes between its components.
pub(crate) enum SnapshotFile {
    /// The current snapshot, or the snapshot that was current at openraft's request.
    Stored(SnapshotReader),
    /// A verified snapshot of a peer.
    Received(Box<Loaded>),
    /// The build had too little space, or a snapshot of a peer waits for its installation. The position of this snapshot is
    /// before all others, so openraft ignores it.
    Absent,
}

/// A peer's snapshot and its machine, before their installation.
pub(crate) struct Loaded {
    snapshot: VerifiedSnapshot,
    machine: Machine,
}

impl Loaded {
    fn verify(
        receiver: SnapshotReceiver,
        announced: &SnapshotMeta,
        failure: &Failure,
    ) -> io::Result<Self> {
        let snapshot = failure.checked(receiver.verify())?;
        if read_meta(snapshot.reader())? != *announced {
            return Err(io::Error::other("the snapshot does not match its announcement"));
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
    /// Reads the bytes of the file in pieces.
    pub(crate) fn into_pieces(self, bytes_max: usize, failure: Failure) -> io::Result<Pieces> {
        match self {
            Self::Stored(reader) => Ok(Pieces { raw: reader.raw(), offset: 0, bytes_max, failure }),
            Self::Received(_) | Self::Absent => {
                Err(io::Error::other("only a stored snapshot can be sent"))
            }
        }
    }
}

pub(crate) struct Pieces {
    raw: RawSnapshot,
    offset: u64,
    bytes_max: usize,
    failure: Failure,
}

impl Pieces {
    /// Returns the next piece; `None` at the end. A disk error stops the node.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let (raw, offset, bytes_max) = (self.raw.clone(), self.offset, self.bytes_max);
        let read = spawn_blocking(move || raw.read_at(offset, bytes_max));
        let piece = self.failure.checked(read.await.map_err(io::Error::other)?)?;
        self.offset += piece.len() as u64;
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// A snapshot during its transfer from a peer.
pub(crate) struct IncomingSnapshot {
    receiver: SnapshotReceiver,
    vote: Vote,
    meta: SnapshotMeta,
    failure: Failure,
}

impl IncomingSnapshot {
    pub(crate) async fn add(mut self, piece: Bytes) -> io::Result<Self> {
        let add = move || {
            let appended = self.receiver.append(&piece);
            self.failure.checked(appended).map(|()| self)
        };
        spawn_blocking(add).await.map_err(io::Error::other)?
    }

    /// Verifies and loads the complete snapshot, ready for installation.
    pub(crate) async fn finish(self) -> io::Result<(Vote, Snapshot)> {
        let Self { receiver, vote, meta, failure } = self;
        let load = move || Loaded::verify(receiver, &meta, &failure).map(|loaded| (loaded, meta));
        let (loaded, meta) = spawn_blocking(load).await.map_err(io::Error::other)??;
        Ok((vote, Snapshot { meta, snapshot: SnapshotFile::Received(Box::new(loaded)) }))
    }
}

/// The snapshots of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SnapshotStore {
    snapshots: Snapshots,
    failure: Failure,
    /// The bytes of the last build if it ended for want of space; 0 otherwise.
    abandoned_bytes: Arc<AtomicU64>,
    /// Whether a snapshot of a peer waits for the end of a build.
    superseded: Arc<AtomicBool>,
}

impl SnapshotStore {
    pub(crate) fn open(dir: &Path, failure: Failure) -> Result<Self, StoreError> {
        let snapshots = Snapshots::open(dir)?;
        let (abandoned_bytes, superseded) = Default::default();
        Ok(Self { snapshots, failure, abandoned_bytes, superseded })
    }

    /// The current snapshot.
    pub(crate) fn reader(&self) -> Result<Option<SnapshotReader>, StoreError> {
        self.snapshots.latest()
    }

    /// The last entry in the current snapshot.
    pub(crate) fn position(&self) -> io::Result<Option<LogId>> {
        let reader = self.reader().map_err(io::Error::other)?;
        Ok(reader.map(|reader| read_meta(&reader)).transpose()?.and_then(|meta| meta.last_log_id))
    }

    /// The bytes of the current snapshot; 0 without a snapshot.
    pub(crate) fn bytes(&self) -> u64 {
        self.snapshots.latest().ok().flatten().map_or(0, |reader| reader.bytes())
    }

    /// Whether the last build ended for want of space.
    pub(crate) fn was_abandoned(&self) -> bool {
        self.abandoned_bytes.load(Ordering::Relaxed) > 0
    }

    /// The bytes of the current snapshot, or those of an abandoned build if they are more.
    pub(crate) fn bytes_expected(&self) -> u64 {
        self.bytes().max(self.abandoned_bytes.load(Ordering::Relaxed))
    }

    /// Begins the receipt of a snapshot of a peer. A disk error here or later stops the node; a full disk, or damage, ends
    /// only the transfer.
    pub(crate) fn receive(
        &self,
        vote: Vote,
        meta: SnapshotMetaDto,
    ) -> io::Result<IncomingSnapshot> {
        let meta = meta.into_meta().map_err(io::Error::other)?;
        let receiver = self.failure.checked(self.snapshots.receive(&name(&meta)))?;
        Ok(IncomingSnapshot { receiver, vote, meta, failure: self.failure.clone() })
    }

    /// Announces that a snapshot of a peer waits for its installation, which ends a build; or that it waits no more.
    pub(crate) fn set_superseded(&self, superseded: bool) {
        self.superseded.store(superseded, Ordering::Relaxed);
    }

    pub(crate) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    /// Writes a copy of the machine as the current snapshot. Blocks the thread. When less than half of the reserve would be
    /// free, when the disk is full, or when a snapshot of a peer waits, it removes the partial file and returns
    /// [`SnapshotFile::Absent`]: an error would stop the node.
    pub(crate) fn build(
        &self,
        machine: &Machine,
        meta: SnapshotMeta,
        disk: &DiskGauge,
    ) -> io::Result<Snapshot> {
        let mut written = 0;
        let reader = match self.write(machine, &meta, disk, &mut written) {
            Err(error) if !is_full(&error) => return Err(error),
            Ok(reader) => reader,
            Err(_) => None,
        };
        let is_short_of_space = reader.is_none() && !self.is_superseded();
        let abandoned = if is_short_of_space { written.max(1) } else { 0 };
        self.abandoned_bytes.store(abandoned, Ordering::Relaxed);
        if is_short_of_space {
            tracing::warn!(written, "the disk has too little space for a snapshot");
        }
        Ok(match reader {
            Some(reader) => Snapshot { meta, snapshot: SnapshotFile::Stored(reader) },
            None => Snapshot { meta: SnapshotMeta::default(), snapshot: SnapshotFile::Absent },
        })
    }

    /// Returns `None` for a snapshot that ended early.
    fn write(
        &self,
        machine: &Machine,
        meta: &SnapshotMeta,
        disk: &DiskGauge,
        written: &mut u64,
    ) -> io::Result<Option<SnapshotReader>> {
        let mut writer = self.snapshots.begin(&name(meta)).map_err(io::Error::other)?;
        let mut began = Instant::now();
        for part in machine.dump() {
            let bytes =
                holdfast_codec::encode(Kind::SnapshotPart, &part).map_err(io::Error::other)?;
            *written += bytes.len() as u64;
            disk.count(bytes.len());
            if self.is_superseded() || !disk.has_half_of_reserve() {
                return Ok(None);
            }
            writer.write_part(&bytes).map_err(io::Error::other)?;
            std::thread::sleep((began.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
            began = Instant::now();
        }
        let dto = SnapshotMetaDto::from(meta);
        let bytes = holdfast_codec::encode(Kind::SnapshotMeta, &dto).map_err(io::Error::other)?;
        writer.finish(&bytes).map(Some).map_err(io::Error::other)
    }

    /// Returns the machine of a snapshot. A received snapshot becomes the current snapshot. Blocks the thread.
    pub(crate) fn install(
        &self,
        file: SnapshotFile,
        expected: &SnapshotMeta,
    ) -> io::Result<Machine> {
        match file {
            SnapshotFile::Stored(reader) => self.install_stored(&reader, expected),
            SnapshotFile::Received(loaded) => loaded.publish(),
            SnapshotFile::Absent => Err(io::Error::other("the snapshot was not built")),
        }
    }

    /// A stored snapshot always belongs to this node, except in openraft's test suite, which runs two nodes in one
    /// process.
    fn install_stored(&self, reader: &SnapshotReader, meta: &SnapshotMeta) -> io::Result<Machine> {
        if self.current()?.is_some_and(|current| current.meta == *meta) {
            return load(reader)
                .inspect_err(|error| self.failure.stop_if_newer("the snapshot", error));
        }
        let mut receiver = self.snapshots.receive(&name(meta)).map_err(io::Error::other)?;
        let raw = reader.raw();
        loop {
            let piece = raw.read_at(receiver.received(), COPY_BYTES).map_err(io::Error::other)?;
            if piece.is_empty() {
                return Loaded::verify(receiver, meta, &self.failure)?.publish();
            }
            receiver.append(&piece).map_err(io::Error::other)?;
        }
    }

    /// Returns the current snapshot. Blocks the thread.
    pub(crate) fn current(&self) -> io::Result<Option<Snapshot>> {
        let Some(reader) = self.snapshots.latest().map_err(io::Error::other)? else {
            return Ok(None);
        };
        let meta = read_meta(&reader)
            .inspect_err(|error| self.failure.stop_if_newer("the snapshot", error))?;
        Ok(Some(Snapshot { meta, snapshot: SnapshotFile::Stored(reader) }))
    }
}

fn is_full(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(StoreError::Full { .. }))
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

/// Loads all parts. A damaged part takes precedence over the error of the incomplete machine.
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

fn decode(part: Result<Bytes, StoreError>) -> io::Result<SnapshotPart> {
    let bytes = part.map_err(io::Error::other)?;
    holdfast_codec::decode(Kind::SnapshotPart, &bytes).map_err(io::Error::other)
}
