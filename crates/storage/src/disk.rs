//! The disk interface of the log: numbered segment files and the watermark.
//!
//! The log defines the content of a segment. [`DirectoryDisk`] keeps segments in a directory. [`FaultyDisk`] keeps
//! them in memory, for tests and simulations, and simulates failures and power cuts.

mod directory;
mod faulty;
mod watermark;

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::StoreError;

pub use self::directory::DirectoryDisk;
pub use self::faulty::{FaultyDisk, OpenFaultyDisk};

/// Segment files by number, and the watermark. After the open only the log thread calls this trait.
///
/// After an error of any call the log makes no further call.
pub trait Disk: Send + Sync + 'static {
    /// The numbers of the segments, ascending.
    ///
    /// # Errors
    /// [`StoreError::Io`], as for every call.
    fn segments(&self) -> Result<Vec<u32>, StoreError>;

    /// Opens an existing segment.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn open(&self, number: u32) -> Result<Arc<dyn SegmentFile>, StoreError>;

    /// Creates or replaces a segment with this content. On `Ok` the new file is durable; a crash leaves either the new
    /// file or the previous state.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError>;

    /// Removes a segment. Open handles can still read it. A power cut may restore it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn remove(&self, number: u32) -> Result<(), StoreError>;

    /// The highest value passed to [`raise_watermark`](Self::raise_watermark), or an earlier one after a crash; 0 for
    /// a new disk.
    fn watermark(&self) -> u64;

    /// Records that the first `frames` frames of the log are durable. The record itself is not synced.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError>;
}

/// An open segment file. One thread writes and syncs; any thread reads written bytes.
pub trait SegmentFile: Send + Sync {
    /// The whole content. The log calls it only before the first write.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_all(&self) -> Result<Bytes, StoreError>;

    /// Up to `len` bytes from `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError>;

    /// Makes the next reads read the disk instead of memory, where the disk has a cache. Changes no byte.
    fn drop_cached_pages(&self) {}

    /// Writes bytes at `offset`. Until the next [`sync`](Self::sync), a power cut may keep any part of them.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes all written bytes durable: after `Ok` a power cut does not remove them.
    ///
    /// # Errors
    /// [`StoreError::Io`]. The bytes written since the last `Ok` are then in an unknown state.
    fn sync(&self) -> Result<(), StoreError>;
}

/// The number of bytes that an unprivileged process can still write on the file system of `dir`.
///
/// # Errors
/// The error of `statvfs`, for example for a missing `dir`.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(dir).map_err(io::Error::from)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_an_error_and_an_existing_one_has_room() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/no/such/place")).is_err());
    }
}
