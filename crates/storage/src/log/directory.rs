//! The directory of a log: created completely or not at all, and opened only if it is complete.
//!
//! The file `creating` exists from before the first byte of a new log until after the last. It distinguishes a partly
//! created log, which has acknowledged nothing, from a damaged one. The file `lock` is locked while the log is open. A log
//! that ends before its watermark has lost acknowledged data and does not open.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use super::recover::{self, Start};
use crate::engine::{Engine as _, JournaledEngine, journal};
use crate::error::{At, StoreError};
use crate::file::{create_dir, sync_dir};
use crate::watermark::{self, Watermark};

const CREATING: &str = "creating";
const DATA: &str = "db";

/// Opens the log in `dir`, or creates it if there is none.
pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Start, StoreError> {
    create_dir(dir)?;
    let lock = lock(dir)?;
    if dir.join(CREATING).exists() {
        remove_half_made(dir)?;
    }
    match (dir.join(DATA).exists(), dir.join(watermark::FILE).exists()) {
        (false, false) => create(dir, cache_bytes, lock),
        (true, true) => open_existing(dir, cache_bytes, lock),
        (has_data, _) => {
            let missing = if has_data { watermark::FILE } else { DATA };
            let what = format!("the file {missing} is missing in {}", dir.display());
            Err(StoreError::corrupt(what))
        }
    }
}

/// Excludes other processes, and other logs of this process, from the directory.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let file = File::create(&path).at("creating", &path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(error).at("locking", &path),
    }
}

fn open_existing(dir: &Path, cache_bytes: u64, lock: File) -> Result<Start, StoreError> {
    let watermark = Watermark::open(dir)?;
    let engine = JournaledEngine::open(dir, cache_bytes)?;
    let head = recover::recover(&engine)?.ok_or_else(|| {
        StoreError::corrupt(format!("the log in {} is empty and was not before", dir.display()))
    })?;
    if head.seq < watermark.seq() {
        return Err(StoreError::corrupt(format!(
            "the log in {} ends at batch {}, batch {} was acknowledged",
            dir.display(),
            head.seq,
            watermark.seq()
        )));
    }
    Ok(Start { engine: Box::new(engine), head, watermark: Some(watermark), lock: Some(lock) })
}

fn create(dir: &Path, cache_bytes: u64, lock: File) -> Result<Start, StoreError> {
    let creating = dir.join(CREATING);
    File::create(&creating).and_then(|file| file.sync_all()).at("creating", &creating)?;
    sync_dir(dir)?;
    let engine = JournaledEngine::open(dir, cache_bytes)?;
    let head = recover::create(&engine)?;
    engine.sync()?;
    let watermark = Watermark::create(dir, head.seq)?;
    fs::remove_file(&creating).at("removing", &creating)?;
    sync_dir(dir)?;
    Ok(Start { engine: Box::new(engine), head, watermark: Some(watermark), lock: Some(lock) })
}

/// Removes the files of an interrupted creation, except `creating`, which the following creation removes.
fn remove_half_made(dir: &Path) -> Result<(), StoreError> {
    for entry in dir.read_dir().at("listing", dir)? {
        let entry = entry.at("listing", dir)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name == "blobs" {
            fs::remove_dir_all(&path).at("removing", &path)?;
        } else if is_ours(&name) {
            fs::remove_file(&path).at("removing", &path)?;
        }
    }
    sync_dir(dir)
}

/// Whether a file of this name is part of a log.
fn is_ours(name: &str) -> bool {
    [DATA, "conf", watermark::FILE].contains(&name)
        || journal::NAMES.contains(&name)
        || name.starts_with("snap.")
}
