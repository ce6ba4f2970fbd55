//! Snapshots as complete, checksummed files.
//!
//! A directory holds the current snapshot, and partial files (`*.partial`) of unfinished snapshots, which the next
//! open removes. A writer appends the parts, syncs and renames the file, and syncs the directory. Only then it removes
//! the previous snapshot.
//!
//! A damaged current snapshot is an error. An older snapshot cannot replace it, because the log before the current one
//! is purged. Memory: one part at a time.
//!
//! The format (also in `docs/contributing/formats/storage.md`): a header and sections, of which the last one is the footer.
//! Numbers are little endian.
//!
//! ```text
//! header   "HFSNAP" 1 0
//! section  kind(1) length(4) checksum(4) body       CRC-32C of kind, length and body
//!   1 part    the caller's bytes, at most PART_BYTES_MAX
//!   2 meta    the caller's bytes, after the last part
//!   3 footer  parts(8) bytes-of-parts(8) offset-of-meta(8) whole(4)    CRC-32C of every byte before the footer
//! ```

mod reader;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{At, StoreError};
use crate::file::{create_dir, sync_dir};

pub use self::reader::{Parts, RawSnapshot, SnapshotReader};
pub use self::writer::{SnapshotReceiver, SnapshotWriter, VerifiedSnapshot};

const WHOLE: &str = ".snap";
const PARTIAL: &str = ".partial";
const NAME_LEN_MAX: usize = 100;

/// The snapshots of one node; clones share one directory.
#[derive(Clone, Debug)]
pub struct Snapshots {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The highest number of a whole or partial file.
    number: u64,
    latest: Option<SnapshotLocation>,
}

/// The location of a whole snapshot, in a file named `<number, 16 hex digits>-<name>.snap`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SnapshotLocation {
    number: u64,
    name: String,
    path: PathBuf,
}

impl Snapshots {
    /// Opens the directory, or creates it; removes partial and superseded files, and verifies the newest snapshot
    /// completely.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the newest snapshot is damaged: the node must not start. [`StoreError::UnknownFormat`],
    /// [`StoreError::Io`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        create_dir(dir)?;
        // A killed process may not have synced its rename, so the open syncs the directory before using it.
        sync_dir(dir)?;
        let mut places = list(dir)?;
        places.sort_by_key(|place| place.number);
        let latest = places.pop();
        if let Some(place) = &latest {
            SnapshotReader::open(place)?.verify()?;
        }
        for old in &places {
            fs::remove_file(&old.path).at("removing", &old.path)?;
        }
        let number = latest.as_ref().map_or(0, |place| place.number);
        let state = Mutex::new(State { number, latest });
        Ok(Self { shared: Arc::new(Shared { dir: dir.to_owned(), state }) })
    }

    /// Begins a new snapshot. `name` is 1 to 100 of the characters `A-Z a-z 0-9 . _ -`, without a leading dot; it need
    /// not be unique. Several snapshots can be in progress; the last one to finish becomes the latest.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] for another name, [`StoreError::Full`], [`StoreError::Io`].
    pub fn begin(&self, name: &str) -> Result<SnapshotWriter, StoreError> {
        SnapshotWriter::create(self.clone(), name)
    }

    /// Begins the receipt of the raw bytes of a snapshot, from [`SnapshotReader::raw`] on another node.
    ///
    /// # Errors
    /// The errors of [`begin`](Self::begin).
    pub fn receive(&self, name: &str) -> Result<SnapshotReceiver, StoreError> {
        SnapshotReceiver::create(self.clone(), name)
    }

    /// Returns the newest whole snapshot. The reader stays valid after its replacement.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its header, footer or meta is damaged (a read of a part checks that part),
    /// [`StoreError::Io`].
    pub fn latest(&self) -> Result<Option<SnapshotReader>, StoreError> {
        // The lock prevents a replacement and removal of the file during the open.
        let state = self.shared.state.lock();
        state.latest.as_ref().map(SnapshotReader::open).transpose()
    }

    /// Returns the path of a new partial file.
    fn partial(&self, name: &str) -> Result<PathBuf, StoreError> {
        check_name(name)?;
        let mut state = self.shared.state.lock();
        state.number += 1;
        Ok(self.shared.dir.join(format!("{:016x}-{name}{PARTIAL}", state.number)))
    }

    /// Publishes a complete and synced partial file durably as the latest snapshot, and removes the previous one.
    fn publish(&self, partial: &Path, name: &str) -> Result<SnapshotReader, StoreError> {
        let mut state = self.shared.state.lock();
        let number = state.number + 1;
        let path = self.shared.dir.join(format!("{number:016x}-{name}{WHOLE}"));
        fs::rename(partial, &path).at("renaming", partial)?;
        sync_dir(&self.shared.dir)?;
        let place = SnapshotLocation { number, name: name.to_owned(), path };
        state.number = number;
        let reader = SnapshotReader::open(&place);
        if let Some(old) = state.latest.replace(place) {
            fs::remove_file(&old.path).at("removing", &old.path)?;
        }
        reader
    }
}

/// Lists the whole snapshots in the directory, and removes partial files.
fn list(dir: &Path) -> Result<Vec<SnapshotLocation>, StoreError> {
    let mut places = Vec::new();
    for entry in dir.read_dir().at("listing", dir)? {
        let path = entry.at("listing", dir)?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if file.ends_with(PARTIAL) {
            fs::remove_file(&path).at("removing", &path)?;
        } else if let Some((number, name)) = parse_name(file) {
            let name = name.to_owned();
            places.push(SnapshotLocation { number, name, path });
        }
    }
    Ok(places)
}

fn parse_name(file: &str) -> Option<(u64, &str)> {
    let (number, name) = file.strip_suffix(WHOLE)?.split_once('-')?;
    Some((u64::from_str_radix(number, 16).ok()?, name))
}

fn check_name(name: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = !name.is_empty() && name.len() <= NAME_LEN_MAX && !name.starts_with('.');
    if fits && name.bytes().all(plain) {
        return Ok(());
    }
    Err(StoreError::misuse(format!("{name:?} cannot name a snapshot")))
}

/// The maximum length of a part and of the meta, bytes.
pub const PART_BYTES_MAX: usize = 16 << 20;

const HEADER: [u8; 8] = *b"HFSNAP\x01\x00";
const SECTION_HEADER_LEN: usize = 9;
const FOOTER_BODY_LEN: usize = 28;
const FOOTER_LEN: u64 = (SECTION_HEADER_LEN + FOOTER_BODY_LEN) as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum SectionKind {
    Part = 1,
    Meta = 2,
    Footer = 3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Footer {
    parts: u64,
    bytes: u64,
    meta_offset: u64,
    whole: u32,
}

impl Footer {
    fn encode(&self) -> [u8; FOOTER_BODY_LEN] {
        let mut body = [0; FOOTER_BODY_LEN];
        body[..8].copy_from_slice(&self.parts.to_le_bytes());
        body[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        body[16..24].copy_from_slice(&self.meta_offset.to_le_bytes());
        body[24..].copy_from_slice(&self.whole.to_le_bytes());
        body
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; FOOTER_BODY_LEN] = body.try_into().ok()?;
        let number = |at: usize| body[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let whole = u32::from_le_bytes(*body.last_chunk()?);
        let [parts, bytes, meta_offset] = [number(0)?, number(8)?, number(16)?];
        Some(Self { parts, bytes, meta_offset, whole })
    }
}

fn section_header(kind: SectionKind, body: &[u8]) -> [u8; SECTION_HEADER_LEN] {
    let mut header = [0; SECTION_HEADER_LEN];
    header[0] = kind as u8;
    header[1..5].copy_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..5]), body);
    header[5..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Returns the length of a section's body if the header has this kind and an allowed length.
fn body_len(kind: SectionKind, header: &[u8; SECTION_HEADER_LEN]) -> Option<usize> {
    let len = u32::from_le_bytes(*header[1..5].first_chunk()?) as usize;
    (header[0] == kind as u8 && len <= PART_BYTES_MAX).then_some(len)
}
