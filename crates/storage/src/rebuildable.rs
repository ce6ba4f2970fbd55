//! A small database of data that can be rebuilt. It never prevents the start of a node.
//!
//! A damaged database is removed and replaced by an empty one. Bounds: the cache; the caller bounds the content.

use std::fs;
use std::path::Path;

use crate::engine::{Engine, SledEngine};
use crate::error::{At, StoreError};
use crate::file::create_dir;

/// Opens the database in `dir`, or makes an empty one: if there is none, or if what is there cannot be read.
/// One that another process has open is left alone.
///
/// # Errors
/// [`StoreError::Io`] or [`StoreError::Full`] if not even an empty one can be made.
pub fn open_rebuildable(dir: &Path, cache_bytes: u64) -> Result<Box<dyn Engine>, StoreError> {
    create_dir(dir)?;
    let error = match SledEngine::open(dir, cache_bytes) {
        Ok(engine) => return Ok(Box::new(engine)),
        Err(error @ StoreError::Corrupt { .. }) => error,
        Err(error) => return Err(error),
    };
    tracing::warn!(dir = %dir.display(), %error, "a database that can be rebuilt is damaged, and begins anew");
    fs::remove_dir_all(dir).at("removing", dir)?;
    create_dir(dir)?;
    Ok(Box::new(SledEngine::open(dir, cache_bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::WriteBatch;

    fn put(engine: &dyn Engine) {
        let mut batch = WriteBatch::default();
        batch.put(b"key", b"value".as_slice());
        engine.write(&batch).unwrap();
        engine.sync().unwrap();
    }

    #[test]
    fn what_was_synced_is_there_again_and_a_damaged_one_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("history");
        put(&*open_rebuildable(&at, 1 << 20).unwrap());
        let engine = open_rebuildable(&at, 1 << 20).unwrap();
        assert_eq!(engine.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
        drop(engine);
        for entry in at.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::write(path, [0xFF; 64]).unwrap();
            }
        }
        let engine = open_rebuildable(&at, 1 << 20).unwrap();
        assert_eq!(engine.get(b"key").unwrap(), None);
    }
}
