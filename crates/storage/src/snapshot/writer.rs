//! Writes a snapshot of this node or of a peer.
//!
//! Dropping an unpublished snapshot removes its partial file. The writer syncs the file every [`SYNC_BYTES`], so the
//! last sync is short and does not delay the log's syncs on the same disk.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use super::{
    Footer, HEADER, PART_BYTES_MAX, SectionKind, SnapshotLocation, SnapshotReader, Snapshots,
    section_header,
};
use crate::error::{At, StoreError, check_len};
use crate::file::new_file;

const SYNC_BYTES: u64 = 4 << 20;

/// A file that the drop removes unless it was published.
#[derive(Debug)]
struct PartialFile {
    snapshots: Snapshots,
    name: String,
    path: PathBuf,
    file: File,
    /// The number of written bytes.
    len: u64,
    unsynced: u64,
    /// The CRC-32C of all written bytes.
    sum: u32,
    published: bool,
}

impl PartialFile {
    fn create(snapshots: Snapshots, name: &str) -> Result<Self, StoreError> {
        let path = snapshots.partial(name)?;
        let file = new_file().create_new(true).open(&path).at("creating", &path)?;
        let name = name.to_owned();
        Ok(Self { snapshots, name, path, file, len: 0, unsynced: 0, sum: 0, published: false })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).at("writing", &self.path)?;
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.len += bytes.len() as u64;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data().at("syncing", &self.path)?;
            self.unsynced = 0;
        }
        Ok(())
    }

    fn publish(mut self) -> Result<SnapshotReader, StoreError> {
        self.file.sync_all().at("syncing", &self.path)?;
        let reader = self.snapshots.publish(&self.path, &self.name)?;
        self.published = true;
        Ok(reader)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a partial snapshot; the next start removes it");
        }
    }
}

/// A snapshot in progress. Dropping it removes its partial file.
#[derive(Debug)]
pub struct SnapshotWriter {
    partial: PartialFile,
    parts: u64,
    bytes: u64,
}

impl SnapshotWriter {
    pub(super) fn create(snapshots: Snapshots, name: &str) -> Result<Self, StoreError> {
        let mut partial = PartialFile::create(snapshots, name)?;
        partial.write(&HEADER)?;
        Ok(Self { partial, parts: 0, bytes: 0 })
    }

    /// Writes the next part, at most [`PART_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`]; [`StoreError::Full`] or [`StoreError::Io`], after which the caller must drop this
    /// snapshot.
    pub fn write_part(&mut self, part: &[u8]) -> Result<(), StoreError> {
        self.section(SectionKind::Part, part)?;
        self.parts += 1;
        self.bytes += part.len() as u64;
        Ok(())
    }

    /// Finishes the snapshot with its meta (at most [`PART_BYTES_MAX`] bytes), publishes it durably as the latest, and
    /// removes the previous one.
    ///
    /// # Errors
    /// The errors of [`write_part`](Self::write_part). After an error the previous snapshot is still the latest,
    /// unless the final sync of the directory failed: stop the node on [`StoreError::Io`].
    pub fn finish(mut self, meta: &[u8]) -> Result<SnapshotReader, StoreError> {
        let meta_offset = self.partial.len;
        self.section(SectionKind::Meta, meta)?;
        let whole = self.partial.sum;
        let footer = Footer { parts: self.parts, bytes: self.bytes, meta_offset, whole };
        self.section(SectionKind::Footer, &footer.encode())?;
        self.partial.publish()
    }

    fn section(&mut self, kind: SectionKind, body: &[u8]) -> Result<(), StoreError> {
        check_len("a part of a snapshot", body, PART_BYTES_MAX)?;
        self.partial.write(&section_header(kind, body))?;
        self.partial.write(body)
    }
}

/// A peer's snapshot during its receipt. Dropping it removes its partial file.
#[derive(Debug)]
pub struct SnapshotReceiver {
    partial: PartialFile,
}

impl SnapshotReceiver {
    pub(super) fn create(snapshots: Snapshots, name: &str) -> Result<Self, StoreError> {
        Ok(Self { partial: PartialFile::create(snapshots, name)? })
    }

    /// The number of received bytes, which is the offset of the next chunk.
    pub fn received(&self) -> u64 {
        self.partial.len
    }

    /// Appends the next bytes. The caller limits the total.
    ///
    /// # Errors
    /// [`StoreError::Full`] or [`StoreError::Io`], after which the caller must drop this snapshot.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.partial.write(bytes)
    }

    /// Verifies the received snapshot. The latest snapshot does not change before [`VerifiedSnapshot::publish`].
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the snapshot is incomplete or damaged: fetch it from the peer again.
    /// [`StoreError::Io`].
    pub fn verify(self) -> Result<VerifiedSnapshot, StoreError> {
        let Self { partial } = self;
        let place =
            SnapshotLocation { number: 0, name: partial.name.clone(), path: partial.path.clone() };
        let reader = SnapshotReader::open(&place);
        let verified = reader.and_then(|reader| reader.verify().map(|()| reader));
        if let Err(StoreError::Corrupt { detail, .. }) = verified {
            let fix = "it was damaged in transit and is not used; fetch it from the leader again";
            return Err(StoreError::Corrupt { detail, fix: fix.to_owned() });
        }
        Ok(VerifiedSnapshot { partial, reader: verified? })
    }
}

/// A whole snapshot of a peer before its publication. Dropping it removes its partial file.
#[derive(Debug)]
pub struct VerifiedSnapshot {
    partial: PartialFile,
    reader: SnapshotReader,
}

impl VerifiedSnapshot {
    /// Returns a reader, so that the caller can check the parts.
    pub fn reader(&self) -> &SnapshotReader {
        &self.reader
    }

    /// Publishes the snapshot durably as the latest, and removes the previous one.
    ///
    /// # Errors
    /// The errors of [`SnapshotWriter::finish`].
    pub fn publish(self) -> Result<SnapshotReader, StoreError> {
        self.partial.publish()
    }
}
