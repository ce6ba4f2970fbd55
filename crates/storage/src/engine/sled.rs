//! The engine on sled 0.34.7, with the rules that power-cut tests established (`docs/adr/0002`).
//!
//! sled's `flush` only starts write-back (`sync_file_range`), so [`sync`](Engine::sync) is `flush` and then `fdatasync` on
//! a second descriptor of `<dir>/db`.
//! Segments of 8 MiB with values of at most 64 KiB keep every page out of the blob files, which sled never syncs:
//! a file in `blobs/` is an error. sled's background flusher is off and `flush_async` is never called.
//!
//! Everything read after an open is durable: every file of the directory, those of the journal included, is written
//! again and synced before sled opens it, and sled's repairs are synced before any read. A sync alone is not
//! enough: after a failed sync, the page cache shows bytes that no later sync writes. A panic inside sled is damage.
//! Memory: the cache, bounded by the caller, and a few segments.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ::sled as sled_crate;
use bytes::Bytes;
use sled_crate::{Config, Db, IVec};

use super::{Engine, Order, Visit, Write, WriteBatch};
use crate::error::{At, StoreError};
use crate::file::sync_dir;

const SEGMENT_BYTES: usize = 8 << 20;
/// Bytes written again at once when a directory is opened.
const REWRITE_BYTES: usize = 1 << 20;
/// The largest value: 17 of them, the most a leaf holds, stay under a quarter of a segment, where blobs begin.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// An [`Engine`] on a sled database.
pub struct SledEngine {
    /// Only absent while it is dropped.
    db: Option<Db>,
    /// Our own descriptor of sled's one data file.
    data: File,
    data_path: PathBuf,
    blobs: PathBuf,
}

impl SledEngine {
    /// Opens or creates the database in `dir`, which exists. `cache_bytes` bounds its page cache.
    ///
    /// # Errors
    /// [`StoreError::Io`] (also if it is open already), [`StoreError::Full`], or [`StoreError::Corrupt`] if sled
    /// cannot make sense of its files.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        rewrite_files(dir)?;
        let config = Config::new()
            .path(dir)
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None)
            .cache_capacity(cache_bytes);
        let db = guarded(dir, "opening", || config.open())?;
        let data_path = dir.join("db");
        let data = File::open(&data_path).at("opening", &data_path)?;
        let engine = Self { db: Some(db), data, data_path, blobs: dir.join("blobs") };
        engine.sync()?;
        sync_files(dir)?;
        Ok(engine)
    }

    /// Hands everything written to the operating system. It is not durable then: this is half of a
    /// [`sync`](Engine::sync), public so that a test can show what the other half is for.
    ///
    /// # Errors
    /// As [`Engine::sync`].
    pub fn flush(&self) -> Result<(), StoreError> {
        guarded(&self.data_path, "flushing", || self.db()?.flush().map(drop))
    }

    fn db(&self) -> Result<&Db, sled_crate::Error> {
        self.db
            .as_ref()
            .ok_or_else(|| sled_crate::Error::Unsupported("the database is closed".into()))
    }

    fn refuse_blobs(&self) -> Result<(), StoreError> {
        let mut entries = self.blobs.read_dir().at("listing", &self.blobs)?;
        match entries.next() {
            None => Ok(()),
            Some(entry) => {
                let name = entry.at("listing", &self.blobs)?.file_name();
                Err(StoreError::corrupt(format!(
                    "{} holds {}, a file that is never synced",
                    self.blobs.display(),
                    name.display()
                )))
            }
        }
    }
}

impl Engine for SledEngine {
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let mut changes = sled_crate::Batch::default();
        for write in &batch.writes {
            match write {
                Write::Put(key, value) => {
                    check_len(value)?;
                    changes.insert(key.as_slice(), value.as_ref());
                }
                Write::Delete(key) => changes.remove(key.as_slice()),
            }
        }
        guarded(&self.data_path, "writing", || self.db()?.apply_batch(changes))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.data.sync_data().at("syncing", &self.data_path)?;
        self.refuse_blobs()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = guarded(&self.data_path, "reading", || self.db()?.get(key))?;
        Ok(value.map(|value| owned(&value)))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let mut pairs = guarded(&self.data_path, "reading", || Ok(self.db()?.range(from..to)))?;
        loop {
            let next = guarded(&self.data_path, "reading", || match order {
                Order::Ascending => pairs.next().transpose(),
                Order::Descending => pairs.next_back().transpose(),
            })?;
            match next {
                Some((key, value)) if visit(&key, owned(&value))? => {}
                _ => return Ok(()),
            }
        }
    }
}

impl Drop for SledEngine {
    /// Closing syncs once more, and sled panics if that fails; nobody was promised those bytes. Then a task on
    /// sled's own threads may still be shortening the file, holding sled's lock on it: wait until it has let go, so
    /// that the directory can be opened again at once.
    fn drop(&mut self) {
        let path = self.data_path.display();
        let db = self.db.take();
        if catch_unwind(AssertUnwindSafe(|| drop(db))).is_err() {
            tracing::error!(%path, "the log database did not close cleanly");
        }
        if let Err(error) = self.data.lock() {
            tracing::warn!(%path, %error, "the log database may still be in use for a moment");
        }
    }
}

fn owned(value: &IVec) -> Bytes {
    Bytes::copy_from_slice(value)
}

fn check_len(value: &Bytes) -> Result<(), StoreError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::TooLarge {
        what: "a value of the log database",
        bytes: value.len() as u64,
        bytes_max: VALUE_BYTES_MAX as u64,
    })
}

/// Makes durable what an earlier process may have left in the page cache alone: each file's bytes are written again, so
/// that they are dirty, and synced. A power cut in between leaves no more than one before. Nothing to do for a new directory.
fn rewrite_files(dir: &Path) -> Result<(), StoreError> {
    let mut bytes = vec![0; REWRITE_BYTES];
    each_file(dir, |path| {
        let file = File::options().read(true).write(true).open(path)?;
        let mut at = 0;
        loop {
            let len = file.read_at(&mut bytes, at)?;
            if len == 0 {
                return file.sync_all();
            }
            file.write_all_at(&bytes[..len], at)?;
            at += len as u64;
        }
    })
}

fn sync_files(dir: &Path) -> Result<(), StoreError> {
    each_file(dir, |path| File::open(path)?.sync_all())
}

/// Makes every file of a directory durable with `sync`, and then the directory.
fn each_file(dir: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> Result<(), StoreError> {
    for entry in dir.read_dir().at("listing", dir)? {
        let entry = entry.at("listing", dir)?;
        if entry.file_type().at("looking at", &entry.path())?.is_file() {
            let path = entry.path();
            sync(&path).at("syncing", &path)?;
        }
    }
    let blobs = dir.join("blobs");
    if blobs.is_dir() {
        sync_dir(&blobs)?;
    }
    sync_dir(dir)
}

/// Runs a call of sled; its errors become ours, and so does a panic.
fn guarded<T>(
    path: &Path,
    doing: &str,
    call: impl FnOnce() -> Result<T, sled_crate::Error>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(translate(path, doing, error)),
        Err(panic) => {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(StoreError::corrupt(format!(
                "sled panicked while {doing} {}: {said}",
                path.display()
            )))
        }
    }
}

fn translate(path: &Path, doing: &str, error: sled_crate::Error) -> StoreError {
    match error {
        sled_crate::Error::Io(error) => {
            StoreError::io(format!("{doing} {}", path.display()), &error)
        }
        sled_crate::Error::Corruption { .. }
        | sled_crate::Error::CollectionNotFound(_)
        | sled_crate::Error::Unsupported(_)
        | sled_crate::Error::ReportableBug(_) => {
            StoreError::corrupt(format!("{doing} {}: {error}", path.display()))
        }
    }
}
