//! The disk below the log: numbered segment files and the watermark.
//!
//! The log decides what is in a segment. [`DirectoryDisk`] keeps segments in a directory; [`FaultyDisk`] keeps them in
//! memory, for tests and simulations, and fails and loses power on demand.

mod directory;
mod faulty;
mod watermark;

use std::sync::Arc;

use bytes::Bytes;

pub use self::directory::DirectoryDisk;
pub use self::faulty::{FaultyDisk, OpenFaultyDisk};
use crate::error::StoreError;

/// Segment files by number, and the watermark. Only the log's thread calls it, after an open.
///
/// After an error of any call the log calls nothing here again.
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

    /// Creates a segment with this content, or replaces an existing one. On `Ok` the new file is durable; a crash leaves
    /// the new file or what was there before.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError>;

    /// Removes a segment. Open handles can still read it. A power cut may bring it back.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn remove(&self, number: u32) -> Result<(), StoreError>;

    /// The highest value given to [`raise_watermark`](Self::raise_watermark), or an earlier one after a crash; 0 for a new disk.
    fn watermark(&self) -> u64;

    /// Records that the first `frames` frames of the log are durable. Not itself durable at once.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError>;
}

/// An open segment file. One thread writes and syncs; any thread reads what was written.
pub trait SegmentFile: Send + Sync {
    /// The whole content. Called only before the first write.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_all(&self) -> Result<Bytes, StoreError>;

    /// Up to `len` bytes from `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError>;

    /// Writes bytes at `offset`. Until the next [`sync`](Self::sync), a power cut keeps any part of them.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes everything written durable: on `Ok` a power cut does not undo it.
    ///
    /// # Errors
    /// [`StoreError::Io`]. The bytes written since the last `Ok` are in an unknown state.
    fn sync(&self) -> Result<(), StoreError>;
}
