//! Snapshots as files, complete and with checksums.
//!
//! A directory holds the current snapshot, and partial files (`*.partial`) of snapshots being written, which the next open
//! removes. A snapshot is written part by part, synced and renamed, and the directory is synced. Only then the previous
//! snapshot is removed.
//!
//! A damaged current snapshot is an error. An older one cannot replace it: the log before it is purged.
//! Memory: one part at a time. Format in `docs/formats/storage.md`.

mod format;
mod reader;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{At, StoreError};
use crate::file::{create_dir, sync_dir};

pub use self::format::PART_BYTES_MAX;
pub use self::reader::{Parts, RawSnapshot, SnapshotReader};
pub use self::writer::{SnapshotReceiver, SnapshotWriter, VerifiedSnapshot};

const WHOLE: &str = ".snap";
const PARTIAL: &str = ".partial";
const NAME_LEN_MAX: usize = 100;

/// The snapshots of one node; clones are the same directory.
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
    /// The highest number given to a file, whole or partial.
    number: u64,
    latest: Option<Place>,
}

/// Where a whole snapshot is. The file is named `<number, 16 hex digits>-<name>.snap`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    number: u64,
    name: String,
    path: PathBuf,
}

impl Snapshots {
    /// Opens the directory, creating it if need be; removes what is half-written or superseded, and reads the newest
    /// snapshot through to verify it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the newest snapshot is damaged: the node must not start. [`StoreError::Io`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        create_dir(dir)?;
        // A rename that a killed process did not sync must be durable before it is used.
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

    /// Begins a new snapshot. `name` is 1 to 100 of the characters `A-Z a-z 0-9 . _ -`, not beginning with a dot; it
    /// need not be unique. Several may be written at the same time: the one finished last is the latest.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] for another name, [`StoreError::Full`], [`StoreError::Io`].
    pub fn begin(&self, name: &str) -> Result<SnapshotWriter, StoreError> {
        SnapshotWriter::create(self.clone(), name)
    }

    /// Begins to receive the raw bytes of a snapshot, as [`SnapshotReader::raw`] of another node gives them.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn receive(&self, name: &str) -> Result<SnapshotReceiver, StoreError> {
        SnapshotReceiver::create(self.clone(), name)
    }

    /// The newest whole snapshot. The reader stays good when a newer one replaces it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its frame is damaged (parts are checked when they are read), [`StoreError::Io`].
    pub fn latest(&self) -> Result<Option<SnapshotReader>, StoreError> {
        // Held while the file is opened, so that it is not replaced and removed in between.
        let state = self.shared.state.lock();
        state.latest.as_ref().map(SnapshotReader::open).transpose()
    }

    /// The path of a new partial file.
    fn partial(&self, name: &str) -> Result<PathBuf, StoreError> {
        check_name(name)?;
        let mut state = self.shared.state.lock();
        state.number += 1;
        Ok(self.shared.dir.join(format!("{:016x}-{name}{PARTIAL}", state.number)))
    }

    /// Makes a complete and synced partial file the latest snapshot, durably, and removes the one before it.
    fn publish(&self, partial: &Path, name: &str) -> Result<SnapshotReader, StoreError> {
        let mut state = self.shared.state.lock();
        let number = state.number + 1;
        let path = self.shared.dir.join(format!("{number:016x}-{name}{WHOLE}"));
        fs::rename(partial, &path).at("renaming", partial)?;
        sync_dir(&self.shared.dir)?;
        let place = Place { number, name: name.to_owned(), path };
        state.number = number;
        let reader = SnapshotReader::open(&place);
        if let Some(old) = state.latest.replace(place) {
            fs::remove_file(&old.path).at("removing", &old.path)?;
        }
        reader
    }
}

/// The whole snapshots in the directory; partial ones are removed on the way.
fn list(dir: &Path) -> Result<Vec<Place>, StoreError> {
    let mut places = Vec::new();
    for entry in dir.read_dir().at("listing", dir)? {
        let path = entry.at("listing", dir)?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if file.ends_with(PARTIAL) {
            fs::remove_file(&path).at("removing", &path)?;
        } else if let Some((number, name)) = parse_name(file) {
            let name = name.to_owned();
            places.push(Place { number, name, path });
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
