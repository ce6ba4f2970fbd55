//! Segments as files of a directory: `<number, 8 hex digits>.log`, beside `synced`, the watermark, and `lock`.
//!
//! An open disk holds a lock on `lock`. The disk writes a new segment under a `.partial` name, syncs it and renames
//! it, so every segment under its final name is complete. The next open removes `*.partial` files of interrupted
//! creations.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::watermark::{self, Watermark};
use super::{Disk, SegmentFile};
use crate::error::{At, StoreError};
use crate::file::{create_dir, drop_cached_pages, replace};

const LOCK: &str = "lock";
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
        let watermark = if names.iter().any(|name| name == watermark::FILE) {
            Watermark::open(dir)?
        } else if has_segments {
            let detail = format!("the file {} is missing in {}", watermark::FILE, dir.display());
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
        self.watermark.lock().frames()
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
