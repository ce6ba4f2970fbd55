//! A database of rebuildable data, on sled 0.34.7. It never prevents the start of a node.
//!
//! An open replaces a damaged database by an empty one. Power-cut tests established the rules for durable data in sled
//! (`docs/contributing/adr/0002`):
//!
//! - sled's `flush` only starts write-back (`sync_file_range`), so [`sync`](RebuildableDatabase::sync) calls `flush`
//!   and then `fdatasync` on a second descriptor of `<dir>/db`. The background flusher is off.
//! - sled never syncs its blob files. Segments of 8 MiB with values of at most 64 KiB keep every page out of blob
//!   files.
//! - Before sled opens a directory, the open rewrites and syncs every file in it: after `kill -9` or a failed sync,
//!   the page cache holds bytes that no later sync writes.
//! - A panic inside sled is damage.
//!
//! Bounds: the cache; the caller bounds the content.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sled::{Batch, Config, Db, IVec};

use crate::error::{At, StoreError, check_len};
use crate::file::{create_dir, sync_dir};

const SEGMENT_BYTES: usize = 8 << 20;
/// The maximum number of bytes in one rewrite at the open of a directory.
const REWRITE_BYTES: usize = 1 << 20;
/// The maximum length of a value. A leaf holds at most 17 values; together they stay below a quarter of a segment,
/// where blobs begin.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Changes that apply atomically.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// Keys with their new values, in order; `None` removes a key.
    writes: Vec<(Vec<u8>, Option<Bytes>)>,
}

impl WriteBatch {
    /// Adds a key with its value, at most 64 KiB.
    pub fn put(&mut self, key: &[u8], value: impl Into<Bytes>) {
        self.writes.push((key.to_vec(), Some(value.into())));
    }

    /// Adds the removal of a key; the removal of a missing key has no effect.
    pub fn delete(&mut self, key: &[u8]) {
        self.writes.push((key.to_vec(), None));
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }
}

/// An ordered map of bytes. After a crash it holds a prefix of the written batches, at least those before the last
/// successful [`sync`](Self::sync); or it is empty.
pub struct RebuildableDatabase {
    /// `None` only during the drop.
    db: Option<Db>,
    /// A separate descriptor of sled's only data file.
    data: File,
    data_path: PathBuf,
    blobs: PathBuf,
}

impl RebuildableDatabase {
    /// Opens the database in `dir`. Creates an empty database if it does not exist or is unreadable. A database open
    /// in another process stays unchanged. `cache_bytes` limits the page cache of the database.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Full`] if the creation of an empty database fails.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        create_dir(dir)?;
        let error = match Self::open_existing(dir, cache_bytes) {
            Err(error @ StoreError::Corrupt { .. }) => error,
            result => return result,
        };
        tracing::warn!(dir = %dir.display(), %error, "replacing a damaged rebuildable database by an empty one");
        fs::remove_dir_all(dir).at("removing", dir)?;
        create_dir(dir)?;
        Self::open_existing(dir, cache_bytes)
    }

    fn open_existing(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        sync_files(dir, rewrite)?;
        let config = Config::new()
            .path(dir)
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None)
            .cache_capacity(cache_bytes);
        let db = guarded(dir, "opening", || config.open())?;
        let data_path = dir.join("db");
        let data = File::open(&data_path).at("opening", &data_path)?;
        let database = Self { db: Some(db), data, data_path, blobs: dir.join("blobs") };
        database.sync()?;
        sync_files(dir, |path| File::open(path)?.sync_all())?;
        Ok(database)
    }

    /// Applies a batch atomically. Readers see it on return; it is durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`StoreError::TooLarge`]; [`StoreError::Io`], [`StoreError::Full`] or [`StoreError::Corrupt`], after which the
    /// caller must open the database again.
    pub fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let mut changes = Batch::default();
        for (key, value) in &batch.writes {
            match value {
                Some(value) => {
                    check_len("a value of a database", value, VALUE_BYTES_MAX)?;
                    changes.insert(key.as_slice(), value.as_ref());
                }
                None => changes.remove(key.as_slice()),
            }
        }
        self.guarded("writing", |db| db.apply_batch(changes))
    }

    /// Makes all written batches durable.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn sync(&self) -> Result<(), StoreError> {
        self.guarded("flushing", |db| db.flush().map(drop))?;
        self.data.sync_data().at("syncing", &self.data_path)?;
        self.refuse_blobs()
    }

    /// The last written value of a key.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Corrupt`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.guarded("reading", |db| db.get(key))?;
        Ok(value.map(|value| owned(&value)))
    }

    /// Calls `visit` with the keys from `from` (inclusive) to `to` (exclusive), ascending, until it returns `Ok(false)`.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get), and the error of `visit`.
    pub fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        mut visit: impl FnMut(&[u8], Bytes) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let mut pairs = self.guarded("reading", |db| Ok(db.range(from..to)))?;
        while let Some((key, value)) = self.guarded("reading", |_| pairs.next().transpose())? {
            if !visit(&key, owned(&value))? {
                break;
            }
        }
        Ok(())
    }

    fn guarded<T>(
        &self,
        action: &str,
        call: impl FnOnce(&Db) -> Result<T, sled::Error>,
    ) -> Result<T, StoreError> {
        let db = self.db.as_ref().ok_or(StoreError::Closed)?;
        guarded(&self.data_path, action, || call(db))
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

impl Drop for RebuildableDatabase {
    /// sled syncs again, and panics if the sync fails. After that a task of sled may still truncate the file under
    /// sled's lock. The drop waits for that lock, so a caller can reopen the directory immediately.
    fn drop(&mut self) {
        let path = self.data_path.display();
        let db = self.db.take();
        if catch_unwind(AssertUnwindSafe(|| drop(db))).is_err() {
            tracing::error!(%path, "a rebuildable database did not close cleanly");
        }
        if let Err(error) = self.data.lock() {
            tracing::warn!(%path, %error, "a rebuildable database may still be in use for a short time");
        }
    }
}

fn owned(value: &IVec) -> Bytes {
    Bytes::copy_from_slice(value)
}

/// Makes each file of a directory durable with `sync`, then the directory itself.
fn sync_files(dir: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> Result<(), StoreError> {
    for entry in dir.read_dir().at("listing", dir)? {
        let path = entry.at("listing", dir)?.path();
        if path.is_file() {
            sync(&path).at("syncing", &path)?;
        }
    }
    sync_dir(dir)
}

/// Rewrites a file with the same bytes, which marks them dirty, and syncs it.
fn rewrite(path: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut bytes = vec![0; REWRITE_BYTES];
    let mut at = 0;
    loop {
        let len = file.read_at(&mut bytes, at)?;
        if len == 0 {
            return file.sync_all();
        }
        file.write_all_at(&bytes[..len], at)?;
        at += len as u64;
    }
}

/// Runs a call of sled; converts its errors and panics to [`StoreError`].
fn guarded<T>(
    path: &Path,
    action: &str,
    call: impl FnOnce() -> Result<T, sled::Error>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(error))) => {
            Err(StoreError::io(format!("{action} {}", path.display()), &error))
        }
        Ok(Err(error)) => Err(StoreError::corrupt(format!("{action} {}: {error}", path.display()))),
        Err(panic) => {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(StoreError::corrupt(format!(
                "sled panicked while {action} {}: {message}",
                path.display()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> RebuildableDatabase {
        RebuildableDatabase::open(dir, 1 << 20).unwrap()
    }

    fn put(database: &RebuildableDatabase) {
        let mut batch = WriteBatch::default();
        batch.put(b"key", b"value".as_slice());
        database.write(&batch).unwrap();
        database.sync().unwrap();
    }

    #[test]
    fn synced_data_survives_a_reopen_and_a_damaged_database_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("history");
        put(&open(&at));
        let database = open(&at);
        assert_eq!(database.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
        drop(database);
        for entry in at.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::write(path, [0xFF; 64]).unwrap();
            }
        }
        assert_eq!(open(&at).get(b"key").unwrap(), None);
    }

    #[test]
    fn a_database_with_a_file_that_sled_never_syncs_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        put(&open(dir.path()));
        fs::write(dir.path().join("blobs/77"), "x").unwrap();
        assert_eq!(open(dir.path()).get(b"key").unwrap(), None);
    }

    #[test]
    fn values_over_the_limit_never_reach_the_database() {
        let dir = tempfile::tempdir().unwrap();
        let mut batch = WriteBatch::default();
        batch.put(b"k", vec![0; 70_000]);
        assert!(matches!(open(dir.path()).write(&batch), Err(StoreError::TooLarge { .. })));
    }

    #[test]
    fn a_scan_visits_its_keys_in_order_until_the_visitor_stops_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(dir.path());
        let mut batch = WriteBatch::default();
        for key in [b"b1", b"c1", b"a1", b"b2", b"b3"] {
            batch.put(key, key.as_slice());
        }
        batch.delete(b"b2");
        database.write(&batch).unwrap();
        for (enough, expected) in [(9, &[b"b1", b"b3"][..]), (1, &[b"b1"])] {
            let mut found = Vec::new();
            let visit = |key: &[u8], value: Bytes| {
                assert_eq!(key, value);
                found.push(value.to_vec());
                Ok(found.len() < enough)
            };
            database.scan(b"b", b"c", visit).unwrap();
            assert_eq!(found, expected);
        }
    }
}
