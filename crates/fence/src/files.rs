//! Fenced replacement of a file on a local disk.
//!
//! Two files are beside the guarded file: `NAME.fence.lock`, which is locked with flock and never replaced, and
//! `NAME.fence`, which has the mark as a decimal number. The order is flock, compare, write `NAME.fence.new`, fsync,
//! rename, fsync of the directory. `sh/fence_file.sh` does the same for shell scripts. Do not use it on network file systems,
//! whose flock and rename guarantee less. The calls block their thread.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use holdfast_types::FencingToken;

use crate::{Claim, FenceError};

/// The locked file. Other holders wait until this is dropped, so do not keep it during other work.
#[derive(Debug)]
#[must_use = "the file is free again when this is dropped"]
pub struct FencedFile {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

/// Locks the file and raises its mark. The file itself need not exist.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token.
pub fn begin(path: impl AsRef<Path>, token: impl Into<Claim>) -> Result<FencedFile, FenceError> {
    let (path, lock) = (resolved(path.as_ref())?, File::lock as fn(&File) -> io::Result<()>);
    claimed(path, token.into(), |file| lock(file).map_err(FenceError::from))
}

/// As [`begin`], without waiting for other holders.
///
/// # Errors
/// As [`begin`]; [`FenceError::Conflict`] if another holder has the file locked.
pub fn try_begin(
    path: impl AsRef<Path>,
    token: impl Into<Claim>,
) -> Result<FencedFile, FenceError> {
    let path = resolved(path.as_ref())?;
    claimed(path, token.into(), |file| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let reason = "another holder has the file locked".to_owned();
            Err(FenceError::Conflict { reason })
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    })
}

impl FencedFile {
    /// The content; `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<Option<Vec<u8>>, FenceError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the whole file durably: after a power cut it has the old or the new content.
    ///
    /// # Errors
    /// If the file cannot be written; it has the old content.
    pub fn replace(&mut self, bytes: &[u8]) -> Result<(), FenceError> {
        Ok(replace_file(&self.path, &self.path, bytes)?)
    }
}

/// The path with its directory resolved. Rejects links, symbolic and hard: the file would have two names and two marks.
fn resolved(path: &Path) -> Result<PathBuf, FenceError> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name").into());
    };
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() || found.nlink() != 1) {
        let what = format!(
            "{} is a link or no regular file: guard a file with one name, by that name",
            path.display()
        );
        return Err(io::Error::new(ErrorKind::InvalidInput, what).into());
    }
    Ok(fs::canonicalize(directory(path))?.join(name))
}

/// Raises the mark of a path and returns it. The file need not exist.
#[cfg(feature = "http")]
pub(crate) fn raise_mark(path: &Path, claim: Claim) -> Result<FencingToken, FenceError> {
    let claim = claim.check()?;
    let sidecar = sidecar(path)?;
    sidecar.lock()?;
    raise(path, claim)
}

/// Whether a path has a mark.
#[cfg(feature = "http")]
pub(crate) fn has_mark(path: &Path) -> bool {
    beside(path, "fence").exists()
}

fn claimed(
    path: PathBuf,
    claim: Claim,
    lock: impl FnOnce(&File) -> Result<(), FenceError>,
) -> Result<FencedFile, FenceError> {
    let claim = claim.check()?;
    let sidecar = sidecar(&path)?;
    lock(&sidecar)?;
    raise(&path, claim)?;
    Ok(FencedFile { path, _lock: sidecar })
}

/// The locked file, which is never replaced. A new one belongs to the owner of the guarded file, who can guard it later,
/// too.
fn sidecar(path: &Path) -> io::Result<File> {
    let name = beside(path, "fence.lock");
    match OpenOptions::new().create_new(true).append(true).open(&name) {
        Ok(file) => {
            if let Ok(guarded) = fs::metadata(path) {
                own_like(&file, &guarded);
            }
            Ok(file)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().append(true).open(name)
        }
        Err(error) => Err(error),
    }
}

/// Gives a file the owner of another one. Only root may give a file away; others keep the group if they belong to it.
fn own_like(file: &File, other: &Metadata) {
    let (owner, group) = (Some(other.uid()), Some(other.gid()));
    if fchown(file, owner, group).is_err() {
        drop(fchown(file, None, group));
    }
}

/// Compares and raises the mark, and returns it. The caller has the lock.
fn raise(path: &Path, claim: Claim) -> Result<FencingToken, FenceError> {
    let file = beside(path, "fence");
    let mark = mark(&file)?;
    let risen = claim.judge(&path.display().to_string(), mark)?;
    if mark != Some(risen) {
        replace_file(path, &file, format!("{risen}\n").as_bytes())?;
    }
    Ok(risen)
}

/// The mark; `None` if it does not exist. Other content than a number is an error.
fn mark(file: &Path) -> Result<Option<FencingToken>, FenceError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match text.trim_end().parse() {
        Ok(number) if number > 0 => Ok(Some(FencingToken(number))),
        Ok(_) | Err(_) => {
            let what =
                format!("{} is not a valid mark: restore it, do not delete it", file.display());
            Err(io::Error::new(ErrorKind::InvalidData, what).into())
        }
    }
}

/// Replaces a guarded file or its mark atomically and durably. The caller has the lock of the file.
fn replace_file(guarded: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(guarded, "fence.new");
    // A writer that was killed may have left it.
    drop(fs::remove_file(&new));
    let replaced = write_new(&new, guarded, path, bytes).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        drop(fs::remove_file(&new));
    }
    replaced?;
    File::open(directory(path))?.sync_all()
}

/// Writes a file that replaces `path`, with its owner and its permissions; a new mark has the owner of the guarded file.
fn write_new(new: &Path, guarded: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(new)?;
    if let Ok(old) = fs::metadata(path) {
        own_like(&file, &old);
        file.set_permissions(old.permissions())?;
    } else if let Ok(guarded) = fs::metadata(guarded) {
        own_like(&file, &guarded);
    }
    file.write_all(bytes)?;
    file.sync_all()
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
