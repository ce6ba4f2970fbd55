//! Reads a snapshot: its meta, its parts one by one, or its raw bytes for a peer.
//!
//! The reader checks every length before an allocation and every checksum before a return. Reads use offsets, so any
//! number of readers can share one open file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    FOOTER_LEN, Footer, HEADER, SECTION_HEADER_LEN, SectionKind, SnapshotLocation, body_len,
    section_header,
};
use crate::error::{At, QUARANTINE, StoreError};
use crate::file::{drop_cached_pages, later_version};

const VERIFY_BYTES: usize = 1 << 20;

/// A whole snapshot, open for reading. It stays readable after its replacement.
#[derive(Clone, Debug)]
pub struct SnapshotReader {
    file: Arc<OpenFile>,
    name: String,
    meta: Bytes,
    footer: Footer,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl SnapshotReader {
    /// Opens the file and checks its header, footer and meta.
    pub(super) fn open(place: &SnapshotLocation) -> Result<Self, StoreError> {
        let path = place.path.clone();
        let file = File::open(&path).at("opening", &path)?;
        let len = file.metadata().at("looking at", &path)?.len();
        let file = OpenFile { file, path, len };
        let footer_offset = len
            .checked_sub(FOOTER_LEN)
            .filter(|offset| *offset >= HEADER.len() as u64)
            .ok_or_else(|| file.damaged("is cut off"))?;
        let header = file.exact(0, HEADER.len())?;
        if let Some(later) = later_version(&header, &HEADER[..6], HEADER[6]) {
            let detail = format!("the snapshot {} has format version {later}", file.path.display());
            return Err(StoreError::newer_format(detail));
        }
        if *header != HEADER {
            return Err(file.damaged("does not start as a snapshot"));
        }
        let (body, _) = file.section(SectionKind::Footer, footer_offset)?;
        let footer = Footer::decode(&body).ok_or_else(|| file.damaged("has a damaged footer"))?;
        let (meta, end) = file.section(SectionKind::Meta, footer.meta_offset)?;
        if end != footer_offset {
            return Err(file.damaged("has its meta in the wrong place"));
        }
        Ok(Self { file: Arc::new(file), name: place.name.clone(), meta, footer })
    }

    /// The name passed to [`Snapshots::begin`](super::Snapshots::begin).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The meta passed to `finish`.
    pub fn meta(&self) -> &Bytes {
        &self.meta
    }

    /// The total length of all parts, bytes.
    pub fn bytes(&self) -> u64 {
        self.footer.bytes
    }

    /// The parts in the order of their writes. After an error the iterator ends.
    pub fn parts(&self) -> Parts {
        Parts {
            snapshot: self.clone(),
            offset: HEADER.len() as u64,
            given: 0,
            bytes: 0,
            ended: false,
        }
    }

    /// Makes the next reads of the file read the disk instead of memory.
    pub fn drop_cached_pages(&self) {
        drop_cached_pages(&self.file.file);
    }

    /// The raw file, for a peer.
    pub fn raw(&self) -> RawSnapshot {
        RawSnapshot { file: Arc::clone(&self.file) }
    }

    /// Reads the whole file and checks all checksums.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the file name, [`StoreError::Io`].
    pub fn verify(&self) -> Result<(), StoreError> {
        self.parts().try_for_each(|part| part.map(drop))?;
        let footer_offset = self.file.len - FOOTER_LEN;
        let (mut offset, mut sum) = (0, 0);
        while offset < footer_offset {
            let left = usize::try_from(footer_offset - offset).unwrap_or(usize::MAX);
            let bytes = self.file.exact(offset, left.min(VERIFY_BYTES))?;
            sum = crc32c::crc32c_append(sum, &bytes);
            offset += bytes.len() as u64;
        }
        if sum == self.footer.whole { Ok(()) } else { Err(self.file.damaged("fails its checksum")) }
    }
}

/// The parts of a snapshot, one at a time; each is at most [`PART_BYTES_MAX`](super::PART_BYTES_MAX) bytes.
#[derive(Debug)]
pub struct Parts {
    snapshot: SnapshotReader,
    offset: u64,
    /// The number of returned parts, and their bytes.
    given: u64,
    bytes: u64,
    ended: bool,
}

impl Parts {
    fn read(&mut self) -> Result<Option<Bytes>, StoreError> {
        let SnapshotReader { file, footer, .. } = &self.snapshot;
        if self.offset == footer.meta_offset {
            let whole = self.given == footer.parts && self.bytes == footer.bytes;
            return if whole { Ok(None) } else { Err(file.damaged("lacks parts")) };
        }
        let (part, end) = file.section(SectionKind::Part, self.offset)?;
        self.offset = end;
        self.given += 1;
        self.bytes += part.len() as u64;
        Ok(Some(part))
    }
}

impl Iterator for Parts {
    type Item = Result<Bytes, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let part = self.read().transpose();
        self.ended = !matches!(part, Some(Ok(_)));
        part
    }
}

/// The raw bytes of a snapshot's file, for a transfer.
#[derive(Clone, Debug)]
pub struct RawSnapshot {
    file: Arc<OpenFile>,
}

impl RawSnapshot {
    /// The length of the file, bytes.
    pub fn len(&self) -> u64 {
        self.file.len
    }

    /// Always `false`: a snapshot has at least a header and a footer.
    pub fn is_empty(&self) -> bool {
        self.file.len == 0
    }

    /// Returns up to `bytes_max` bytes at `offset`; no bytes at the end.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, StoreError> {
        let left = usize::try_from(self.file.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.file.exact(offset, left.min(bytes_max))
    }
}

impl OpenFile {
    fn exact(&self, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        let mut bytes = BytesMut::zeroed(len);
        self.file.read_exact_at(&mut bytes, offset).at("reading", &self.path)?;
        Ok(bytes.freeze())
    }

    /// Returns the verified body of the section at `offset`, and the offset of the next section.
    fn section(&self, kind: SectionKind, offset: u64) -> Result<(Bytes, u64), StoreError> {
        let damaged = || self.damaged(&format!("fails its checksum at offset {offset}"));
        let body_offset = offset.checked_add(SECTION_HEADER_LEN as u64).ok_or_else(damaged)?;
        if body_offset > self.len {
            return Err(damaged());
        }
        let header = self.exact(offset, SECTION_HEADER_LEN)?;
        let header = header.first_chunk().ok_or_else(damaged)?;
        let len = body_len(kind, header).ok_or_else(damaged)?;
        let end = body_offset + len as u64;
        if end > self.len {
            return Err(damaged());
        }
        let body = self.exact(body_offset, len)?;
        if section_header(kind, &body) != *header {
            return Err(damaged());
        }
        Ok((body, end))
    }

    fn damaged(&self, how: &str) -> StoreError {
        let detail = format!("the snapshot {} {how}", self.path.display());
        StoreError::Corrupt { detail, fix: QUARANTINE.to_owned() }
    }
}
