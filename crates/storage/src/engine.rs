//! The interface below the log: an ordered map of bytes that writes atomic batches and syncs them.
//!
//! [`Engine`] has four implementations: sled, a journal in front of sled, memory, and a faulty one that fails and crashes
//! on demand. The log above it handles chunks, checksums and order.

mod faulty;
pub(crate) mod journal;
mod memory;
mod sled;

use bytes::Bytes;

pub use self::faulty::{FaultyDisk, FaultyEngine};
pub use self::journal::JournaledEngine;
pub use self::memory::MemoryEngine;
pub use self::sled::SledEngine;
use crate::error::StoreError;

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put(Vec<u8>, Bytes),
    /// Removes a key; removing what is not there changes nothing.
    Delete(Vec<u8>),
}

/// Changes that happen together or not at all. Bounded by the log to about a mebibyte and one record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The changes, in order; the last one of a key wins.
    pub writes: Vec<Write>,
}

impl WriteBatch {
    /// Adds a key with its value.
    pub fn put(&mut self, key: &[u8], value: impl Into<Bytes>) {
        self.writes.push(Write::Put(key.to_vec(), value.into()));
    }

    /// Adds the removal of a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.writes.push(Write::Delete(key.to_vec()));
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        let size = |write: &Write| match write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
        };
        self.writes.iter().map(size).sum()
    }
}

/// The direction of a [`scan`](Engine::scan).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the smallest key up.
    Ascending,
    /// From the largest key down.
    Descending,
}

/// Called by a scan with each key and value; `Ok(false)` ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], Bytes) -> Result<bool, StoreError>;

/// An ordered map of bytes. One thread writes and syncs; any thread reads what was written.
///
/// After a crash the map holds a prefix of the batches written, never less than what was written before the last
/// `sync` that returned `Ok`. After an error of `write` or `sync` the caller never calls either again.
pub trait Engine: Send + Sync + 'static {
    /// Applies a batch, all or nothing. Readers see it on return; it is durable after the next `sync`.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Full`] or [`StoreError::Corrupt`]; all are final.
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Makes every batch written so far durable: on `Ok` a power cut does not undo it.
    ///
    /// # Errors
    /// As `write`. What was written since the last `Ok` is in an unknown state.
    fn sync(&self) -> Result<(), StoreError>;

    /// The value of a key, as last written.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Corrupt`].
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Calls `visit` with the keys from `from` (inclusive) to `to` (exclusive), in the given order.
    ///
    /// # Errors
    /// As `get`, and the error of `visit`.
    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;
}
