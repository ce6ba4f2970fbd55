//! Fenced replacement of a file on a local disk.
//!
//! Owns two files beside the guarded one: `NAME.fence.lock`, which is flocked and never replaced, and `NAME.fence`,
//! which holds the mark as a decimal number; and the order flock, compare, write anew, fsync, rename, fsync of the
//! directory. `sh/fence_file.sh` does the same for shell scripts, with the same files. Refuses network file systems by
//! documentation only: there flock and rename promise less. The calls block their thread.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use holdfast_types::FencingToken;

use crate::{Claim, FenceError};

/// A new file's permissions, less what the process's umask takes away.
const NEW_FILE_MODE: u32 = 0o666;

/// A holder that has the file to itself until this is dropped. Do not keep it while thinking: the next holder waits.
#[derive(Debug)]
#[must_use = "the file is free again when this is dropped"]
pub struct Fenced {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

/// Waits until nobody else is at the file, and raises its mark. The file itself need not exist.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen.
pub fn begin(path: impl AsRef<Path>, token: impl Into<Claim>) -> Result<Fenced, FenceError> {
    let (path, lock) = (settled(path.as_ref())?, File::lock as fn(&File) -> io::Result<()>);
    claimed(path, token.into(), |file| lock(file).map_err(FenceError::from))
}

/// As [`begin`], and does not wait.
///
/// # Errors
/// As [`begin`]; [`FenceError::Conflict`] if another holder is at the file.
pub fn try_begin(path: impl AsRef<Path>, token: impl Into<Claim>) -> Result<Fenced, FenceError> {
    let path = settled(path.as_ref())?;
    claimed(path, token.into(), |file| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let reason = "another holder has the file open for writing".to_owned();
            Err(FenceError::Conflict { reason })
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    })
}

impl Fenced {
    /// What the file holds; none if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<Option<Vec<u8>>, FenceError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the file as a whole, durably: after a power cut there is the old one or the new one.
    ///
    /// # Errors
    /// The file cannot be written; there is still the old one.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), FenceError> {
        Ok(put(&self.path, bytes)?)
    }
}

/// The path with its directory resolved. A link is refused: the file behind it would have two names, and two marks.
fn settled(path: &Path) -> Result<PathBuf, FenceError> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path names no file").into());
    };
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        let what = format!("{} is a link or no file: name the file itself", path.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, what).into());
    }
    Ok(fs::canonicalize(directory(path))?.join(name))
}

/// Raises the mark that belongs to a path, and answers it; there need not be a file.
#[cfg(feature = "http")]
pub(crate) fn raise_mark(path: &Path, claim: Claim) -> Result<FencingToken, FenceError> {
    let claim = claim.check()?;
    let sidecar = sidecar(path)?;
    sidecar.lock()?;
    raise(path, claim)
}

/// Whether a mark belongs to a path.
#[cfg(feature = "http")]
pub(crate) fn has_mark(path: &Path) -> bool {
    beside(path, "fence").exists()
}

fn claimed(
    path: PathBuf,
    claim: Claim,
    lock: impl FnOnce(&File) -> Result<(), FenceError>,
) -> Result<Fenced, FenceError> {
    let claim = claim.check()?;
    let sidecar = sidecar(&path)?;
    lock(&sidecar)?;
    raise(&path, claim)?;
    Ok(Fenced { path, _lock: sidecar })
}

/// The file that everybody locks; it is never replaced.
fn sidecar(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(beside(path, "fence.lock"))
}

/// Compares and raises the mark, and answers it; the caller has the lock.
fn raise(path: &Path, claim: Claim) -> Result<FencingToken, FenceError> {
    let place = beside(path, "fence");
    let mark = mark(&place)?;
    let risen = claim.judge(&path.display().to_string(), mark)?;
    if mark != Some(risen) {
        put(&place, format!("{risen}\n").as_bytes())?;
    }
    Ok(risen)
}

/// The mark; none if there never was one. What is no number is an error: a guard does not guess.
fn mark(place: &Path) -> Result<Option<FencingToken>, FenceError> {
    let text = match fs::read_to_string(place) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match text.trim_end().parse() {
        Ok(number) if number > 0 => Ok(Some(FencingToken(number))),
        Ok(_) | Err(_) => {
            let what = format!("{} holds no mark: restore it, do not delete it", place.display());
            Err(io::Error::new(ErrorKind::InvalidData, what).into())
        }
    }
}

/// Puts a file into its place, whole and durable.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = directory(path);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fence-").permissions(Permissions::from_mode(NEW_FILE_MODE));
    let mut file = builder.tempfile_in(directory)?;
    if let Ok(old) = fs::metadata(path) {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// `stock.json.fence`
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

impl From<io::Error> for FenceError {
    fn from(error: io::Error) -> Self {
        Self::Store(Box::new(error))
    }
}
