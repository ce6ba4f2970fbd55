//! Writes new files, each complete or absent, and the files of a service that is not root.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind::{AlreadyExists, InvalidInput, Unsupported};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::unistd::{getegid, geteuid, setegid, seteuid};
use sha2::{Digest as _, Sha256};

use crate::exit::CommandFailure;

const PARTIAL: &str = ".partial";

/// What happens to a file with the name of the new one.
#[derive(Clone, Copy, Debug)]
pub enum Existing {
    Replaced,
    /// The new file is rejected, with this advice.
    Kept {
        advice: &'static str,
    },
}

/// A file under another name until it is complete. The drop removes it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    directory: File,
    partial: PathBuf,
    path: PathBuf,
    replaces: bool,
    /// The SHA-256 of the bytes so far.
    hash: Sha256,
}

impl NewFile {
    /// Creates a file that only its owner can read.
    ///
    /// # Errors
    /// The errors of [`NewFile::create`].
    pub fn secret(path: &Path, existing: Existing) -> Result<Self, CommandFailure> {
        Self::create(path, existing, 0o600)
    }

    /// # Errors
    /// If the file exists, unless the new one replaces it; if there is a directory or a device; or if its directory cannot
    /// be written.
    pub fn create(path: &Path, existing: Existing, mode: u32) -> Result<Self, CommandFailure> {
        let replaces = match existing {
            Existing::Replaced if fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
                let path = path.display();
                return Err(CommandFailure::usage(format!("{path} is no file: name another path")));
            }
            Existing::Replaced => true,
            Existing::Kept { advice } if path.exists() => {
                return Err(CommandFailure::usage(format!("{} exists: {advice}", path.display())));
            }
            Existing::Kept { .. } => false,
        };
        // The error of a directory that cannot be read comes before the content exists.
        let directory = File::open(directory(path)).map_err(|error| failed(path, &error))?;
        remove_interrupted(path);
        let (file, partial) = create_partial(path, mode).map_err(|error| failed(path, &error))?;
        Ok(Self { file, directory, partial, path: path.to_owned(), replaces, hash: Sha256::new() })
    }

    /// # Errors
    /// The disk failed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CommandFailure> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(|error| failed(&self.partial, &error))
    }

    /// Reads the complete file back from the disk, then gives it its name, durably.
    ///
    /// # Errors
    /// The errors of [`NewFile::publish`]; or the disk returns other bytes than were written.
    pub fn publish_verified(self) -> Result<PathBuf, CommandFailure> {
        self.file.sync_all().map_err(|error| failed(&self.partial, &error))?;
        // Without the copy in memory, the bytes come from the disk. An error only costs this.
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).ok();
        let mut found = Sha256::new();
        let mut stored =
            File::open(&self.partial).map_err(|error| failed(&self.partial, &error))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match stored.read(&mut buffer).map_err(|error| failed(&self.partial, &error))? {
                0 => break,
                count => found.update(&buffer[..count]),
            }
        }
        if found.finalize() != self.hash.clone().finalize() {
            let what = std::io::Error::other("the disk returns other bytes than were written");
            return Err(failed(&self.partial, &what));
        }
        self.publish()
    }

    /// Gives the complete file its name, durably.
    ///
    /// # Errors
    /// The disk failed, or another process has created the file meanwhile.
    pub fn publish(self) -> Result<PathBuf, CommandFailure> {
        let published = self
            .file
            .sync_all()
            .and_then(|()| self.name())
            .and_then(|()| sync_directory(&self.directory));
        published.map_err(|error| failed(&self.path, &error))?;
        Ok(self.path.clone())
    }

    fn name(&self) -> std::io::Result<()> {
        if !self.replaces {
            match fs::hard_link(&self.partial, &self.path) {
                // Some file systems have no second names.
                Err(error) if error.kind() != AlreadyExists && !self.path.exists() => {}
                linked => return linked,
            }
        }
        fs::rename(&self.partial, &self.path)
    }
}

/// Writes a file with these access rights.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(path: &Path, content: &str, mode: u32) -> Result<(), CommandFailure> {
    let mut file = NewFile::create(path, Existing::Replaced, mode)?;
    file.write(content.as_bytes())?;
    file.publish().map(drop)
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `publish` the file has another name, or this one does not exist.
        fs::remove_file(&self.partial).ok();
    }
}

/// Runs `work` as the owner of a directory, if this is root and the owner is not: a service can then use its files. All
/// threads of the process have that user meanwhile. A missing directory has the owner of the nearest one above it.
///
/// # Errors
/// The process may not change its user. Then `work` has not run.
pub fn as_owner_of<T>(dir: &Path, work: impl FnOnce() -> T) -> Result<T, CommandFailure> {
    let Some((user, group)) = owner_below_root(dir) else { return Ok(work()) };
    let (root, own_group) = (geteuid(), getegid());
    let failed = |error: Errno| {
        let dir = dir.display();
        CommandFailure::failed(format!(
            "{dir} belongs to the user {user}: run the command as this user ({error})"
        ))
    };
    setegid(group.into()).and_then(|()| seteuid(user.into())).map_err(failed)?;
    let result = work();
    seteuid(root).and_then(|()| setegid(own_group)).map_err(failed)?;
    Ok(result)
}

/// The user and the group of a directory or the nearest one above it; `None` if this is not root, or the owner is.
pub fn owner_below_root(dir: &Path) -> Option<(u32, u32)> {
    let absolute = std::path::absolute(dir).ok().filter(|_| geteuid().is_root())?;
    let found = absolute.ancestors().find_map(|dir| fs::metadata(dir).ok())?;
    Some((found.uid(), found.gid())).filter(|(user, _)| *user != geteuid().as_raw())
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// Creates the file under another name, and locks it.
fn create_partial(path: &Path, mode: u32) -> std::io::Result<(File, PathBuf)> {
    loop {
        let random = getrandom::u32()?;
        let partial = path.with_added_extension(format!("{random:08x}{PARTIAL}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&partial)?;
        // A file system without locks only keeps the files of killed processes.
        file.lock().ok();
        // Another process may have removed it before the lock.
        if partial.exists() {
            return Ok((file, partial));
        }
    }
}

/// Makes the name of a file durable. Some file systems have no such operation for directories.
fn sync_directory(directory: &File) -> std::io::Result<()> {
    match directory.sync_all() {
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Removes the partial files of killed processes. A running process has its file locked.
fn remove_interrupted(path: &Path) {
    let (Some(name), Ok(entries)) = (path.file_name(), fs::read_dir(directory(path))) else {
        return;
    };
    let name = format!("{}.", name.to_string_lossy());
    for file in entries.flatten() {
        let found = file.file_name();
        let found = found.to_string_lossy();
        let random = found.strip_prefix(&name).and_then(|rest| rest.strip_suffix(PARTIAL));
        let is_partial = random.is_some_and(|random| {
            random.len() == 8 && random.bytes().all(|b| b.is_ascii_hexdigit())
        });
        // An open of a pipe would wait for its writer.
        let is_file = file.file_type().is_ok_and(|kind| kind.is_file());
        if is_partial
            && is_file
            && File::open(file.path()).is_ok_and(|file| file.try_lock().is_ok())
        {
            fs::remove_file(file.path()).ok();
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEPT: Existing = Existing::Kept { advice: "name another" };

    #[test]
    fn a_file_is_complete_or_absent_and_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let mut dropped = NewFile::secret(&path, KEPT).unwrap();
        dropped.write(b"half").unwrap();
        assert!(!path.exists());
        drop(dropped);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut file = NewFile::secret(&path, KEPT).unwrap();
        file.write(b"whole").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let refused = NewFile::secret(&path, KEPT).err().unwrap().to_string();
        assert!(refused.contains("exists: name another"), "{refused}");
        NewFile::secret(&path, Existing::Replaced).unwrap().publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_killed_process_leaves_no_file_that_blocks_or_outlives_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let other = dir.path().join("b.2024.partial");
        let killed = dir.path().join("b.0123abcd.partial");
        for file in [&other, &killed] {
            fs::write(file, "part").unwrap();
        }
        let running = NewFile::secret(&path, KEPT).unwrap();
        assert!(!killed.exists() && other.exists());
        NewFile::secret(&path, KEPT).unwrap().publish().unwrap();
        assert!(running.publish().is_err(), "another process has created it meanwhile");
        NewFile::secret(&path, Existing::Replaced).unwrap().publish().unwrap();
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "the file, and that of another name"
        );
    }

    #[test]
    fn a_key_is_secret_and_no_other_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (key, other) = (dir.path().join("node.key"), dir.path().join("node.partial"));
        fs::write(&other, "notes").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
        write_file(&key, "secret", 0o600).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&key).unwrap(), "secret");
        assert_eq!(fs::read_to_string(&other).unwrap(), "notes");
    }

    #[test]
    fn a_failed_write_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let (taken, socket) = (dir.path().join("node.key"), dir.path().join("socket"));
        fs::create_dir(&taken).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [&taken, &socket] {
            let error = write_file(path, "secret", 0o600).unwrap_err().to_string();
            assert!(error.contains("is no file: name another path"), "{error}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert!(!fs::metadata(&socket).unwrap().is_file());
    }
}
