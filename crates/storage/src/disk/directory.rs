//! Segments as files of a directory: `<number, 8 hex digits>.log`, beside `synced`, the watermark, and `lock`.
//!
//! An open disk holds a lock on `lock`. The disk writes a new segment under a `.partial` name, syncs it and renames
//! it, so every segment under its final name is complete. The next open removes `*.partial` files of interrupted
//! creations.

use std::fs::{File, TryLockError};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Disk, SegmentFile};
use crate::error::{At, StoreError};
use crate::file::{create_dir, drop_cached_pages, replace};

const LOCK: &str = "lock";
/// The file of the watermark.
const WATERMARK: &str = "synced";
const SUFFIX: &str = ".log";
const PARTIAL: &str = ".partial";

/// A [`Disk`] in a directory of the file system.
pub struct DirectoryDisk {
    dir: PathBuf,
    watermark: Mutex<Watermark>,
    _lock: File,
}

impl DirectoryDisk {
    /// Opens the directory; creates it and its missing parents.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Io`], [`StoreError::Full`];
    /// [`StoreError::Corrupt`] if the watermark is damaged, or missing beside segments.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        create_dir(dir)?;
        let lock = lock(dir)?;
        let names = names(dir)?;
        for name in names.iter().filter(|name| name.ends_with(PARTIAL)) {
            let path = dir.join(name);
            fs::remove_file(&path).at("removing", &path)?;
        }
        let has_segments = names.iter().any(|name| number(name).is_some());
        let watermark = if names.iter().any(|name| name == WATERMARK) {
            Watermark::open(dir)?
        } else if has_segments {
            let detail = format!("the file {WATERMARK} is missing in {}", dir.display());
            return Err(StoreError::corrupt(detail));
        } else {
            Watermark::create(dir)?
        };
        Ok(Self { dir: dir.to_owned(), watermark: Mutex::new(watermark), _lock: lock })
    }

    fn path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{number:08x}{SUFFIX}"))
    }
}

/// Whether a directory has files of a log: not so an empty one, a new volume with its `lost+found`, or one whose first open
/// was interrupted. True for a directory that cannot be read.
pub fn has_log(dir: &Path) -> bool {
    let is_of_log = |name: &String| name == WATERMARK || number(name).is_some();
    names(dir).map_or(dir.exists(), |names| names.iter().any(is_of_log))
}

/// Locks the directory against other processes and other logs of this process.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join(LOCK);
    let file = File::create(&path).at("creating", &path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(error).at("locking", &path),
    }
}

fn names(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    for entry in dir.read_dir().at("listing", dir)? {
        names.push(entry.at("listing", dir)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Parses the number in a segment's file name.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == 8)?;
    u32::from_str_radix(digits, 16).ok()
}

impl Disk for DirectoryDisk {
    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        let mut numbers: Vec<u32> =
            names(&self.dir)?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn open(&self, number: u32) -> Result<Arc<dyn SegmentFile>, StoreError> {
        let path = self.path(number);
        let file = File::options().read(true).write(true).open(&path).at("opening", &path)?;
        Ok(Arc::new(DirectorySegment { file, path }))
    }

    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError> {
        let path = self.path(number);
        let file = replace(&path, &[content])?;
        Ok(Arc::new(DirectorySegment { file, path }))
    }

    fn remove(&self, number: u32) -> Result<(), StoreError> {
        let path = self.path(number);
        fs::remove_file(&path).at("removing", &path)
    }

    fn watermark(&self) -> u64 {
        self.watermark.lock().frames
    }

    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError> {
        self.watermark.lock().raise(frames)
    }
}

struct DirectorySegment {
    file: File,
    path: PathBuf,
}

impl SegmentFile for DirectorySegment {
    fn read_all(&self) -> Result<Bytes, StoreError> {
        fs::read(&self.path).at("reading", &self.path).map(Bytes::from)
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let at = offset + filled as u64;
            match self.file.read_at(&mut bytes[filled..], at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                // A file system of the network or of a process can be interrupted.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at("reading", &self.path),
            }
        }
        bytes.truncate(filled);
        Ok(Bytes::from(bytes))
    }

    fn drop_cached_pages(&self) {
        drop_cached_pages(&self.file);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all_at(bytes, offset).at("writing", &self.path)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().at("syncing", &self.path)
    }
}

const WATERMARK_MAGIC: [u8; 4] = *b"HFSY";
const SLOT_LEN: usize = 16;
const SLOT_OFFSETS: [u64; 2] = [0, 4096];
/// The distance between the slots, bytes.
const SLOT_GAP_LEN: usize = 4096 - SLOT_LEN;

/// The number of frames of the log that are certainly durable, in the file `<dir>/synced`.
///
/// After each sync of the log the log thread writes the number of frames here, without another sync. The file may lag
/// behind the log, but never leads it. A log with fewer frames has lost acknowledged data, even if all its checksums
/// are valid.
///
/// The file has two slots, a page apart. Writes alternate between them, so a torn write damages at most one slot:
///
/// ```text
/// 0..4   magic "HFSY"
/// 4..12  number of frames, little endian
/// 12..16 CRC-32C of bytes 0..12, little endian
/// ```
#[derive(Debug)]
struct Watermark {
    file: File,
    path: PathBuf,
    /// The number in the newer slot.
    frames: u64,
    /// The index of the slot for the next write.
    turn: usize,
}

impl Watermark {
    /// Creates the file in `dir` with the value 0, durably.
    fn create(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(WATERMARK);
        let gap = [0; SLOT_GAP_LEN];
        let file = replace(&path, &[&slot(0), &gap, &slot(0)])?;
        Ok(Self { file, path, frames: 0, turn: 0 })
    }

    /// Opens the file in `dir`; [`StoreError::Corrupt`] if both slots are damaged.
    fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(WATERMARK);
        let file = File::options().read(true).write(true).open(&path).at("opening", &path)?;
        let slots = SLOT_OFFSETS.map(|offset| {
            let mut bytes = [0; SLOT_LEN];
            file.read_exact_at(&mut bytes, offset).ok().and_then(|()| parse(&bytes))
        });
        let frames = slots.iter().flatten().max().copied().ok_or_else(|| {
            StoreError::corrupt(format!("both slots of {} fail their checksum", path.display()))
        })?;
        let turn = usize::from(slots[0] == Some(frames));
        Ok(Self { file, path, frames, turn })
    }

    /// Records that `frames` frames are durable. The caller has synced them before.
    fn raise(&mut self, frames: u64) -> Result<(), StoreError> {
        let offset = SLOT_OFFSETS[self.turn];
        self.file.write_all_at(&slot(frames), offset).at("writing", &self.path)?;
        self.frames = frames;
        self.turn = 1 - self.turn;
        Ok(())
    }
}

fn slot(frames: u64) -> [u8; SLOT_LEN] {
    let mut bytes = [0; SLOT_LEN];
    bytes[..4].copy_from_slice(&WATERMARK_MAGIC);
    bytes[4..12].copy_from_slice(&frames.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8; SLOT_LEN]) -> Option<u64> {
    let (_, rest) = bytes.split_first_chunk::<4>()?;
    let (frames, _) = rest.split_first_chunk::<8>()?;
    let frames = u64::from_le_bytes(*frames);
    (slot(frames) == *bytes).then_some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reopening_returns_the_highest_written_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut watermark = Watermark::create(dir.path()).unwrap();
        for frames in [2, 3, 9, 10] {
            watermark.raise(frames).unwrap();
            assert_eq!(Watermark::open(dir.path()).unwrap().frames, frames);
        }
    }

    #[test]
    fn one_torn_slot_falls_back_to_the_other_and_two_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut watermark = Watermark::create(dir.path()).unwrap();
        watermark.raise(5).unwrap();
        watermark.raise(6).unwrap();
        watermark.file.write_all_at(b"torn", SLOT_OFFSETS[1]).unwrap();
        let mut again = Watermark::open(dir.path()).unwrap();
        assert_eq!(again.frames, 5);
        again.raise(7).unwrap();
        assert_eq!(
            Watermark::open(dir.path()).unwrap().frames,
            7,
            "the write replaces the torn slot"
        );
        again.file.set_len(0).unwrap();
        assert!(matches!(Watermark::open(dir.path()), Err(StoreError::Corrupt { .. })));
    }
}
