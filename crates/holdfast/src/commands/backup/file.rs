//! A new file, complete or absent, which only its owner can read; and the encryption of a backup on its way into a file or a
//! pipe.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use holdfast_cli::exit::CommandFailure;
use holdfast_tls::{AgeRecipient, AgeWriter};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use sha2::{Digest as _, Sha256};

const PARTIAL: &str = ".partial";

/// A file under another name until it is complete. The drop removes it.
pub(crate) struct NewFile {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    replaces: bool,
    /// The SHA-256 of the bytes so far.
    hash: Sha256,
}

impl NewFile {
    /// # Errors
    /// If the file exists, unless `replaces`; or if its directory cannot be written.
    pub(crate) fn create(path: &Path, replaces: bool) -> Result<Self, CommandFailure> {
        if !replaces && path.exists() {
            let path = path.display();
            return Err(CommandFailure::failed(format!(
                "{path} exists: give another name, or replace it with --force"
            )));
        }
        remove_interrupted(path);
        let random = getrandom::u32().map_err(CommandFailure::failed)?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{random:08x}{PARTIAL}"));
        let partial = PathBuf::from(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
        let file = file.map_err(|error| failed(&partial, &error))?;
        // A file system without locks only keeps the files of killed processes.
        file.try_lock().ok();
        Ok(Self { file, partial, path: path.to_owned(), replaces, hash: Sha256::new() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CommandFailure> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(|error| failed(&self.partial, &error))
    }

    /// Reads the complete file back from the disk, then gives it its name, durably.
    pub(crate) fn publish_verified(self) -> Result<PathBuf, CommandFailure> {
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
    pub(super) fn publish(self) -> Result<PathBuf, CommandFailure> {
        let published = self
            .file
            .sync_all()
            .and_then(|()| self.name())
            .and_then(|()| File::open(directory(&self.path))?.sync_all());
        published.map_err(|error| failed(&self.path, &error))?;
        Ok(self.path.clone())
    }

    fn name(&self) -> std::io::Result<()> {
        if !self.replaces {
            match fs::hard_link(&self.partial, &self.path) {
                // Some file systems have no second names.
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {}
                linked => return linked,
            }
        }
        fs::rename(&self.partial, &self.path)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `publish` the file has another name, or this one does not exist.
        fs::remove_file(&self.partial).ok();
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
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
        let suffix = found.strip_prefix(&name).and_then(|rest| rest.strip_suffix(PARTIAL));
        let is_partial = suffix.is_some_and(|suffix| suffix.bytes().all(|b| b.is_ascii_hexdigit()));
        if is_partial && File::open(file.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            fs::remove_file(file.path()).ok();
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::failed(format!("cannot write {}: {error}", path.display()))
}

/// Encrypts the bytes of a backup if there is a recipient.
pub(crate) struct Encryption(Option<AgeWriter>);

impl Encryption {
    pub(crate) fn to(recipient: Option<&AgeRecipient>) -> Result<Self, CommandFailure> {
        let writer = recipient.map(AgeWriter::new).transpose();
        writer.map(Self).map_err(CommandFailure::failed)
    }

    /// The bytes to write for the next piece.
    pub(crate) fn next<'b>(&mut self, piece: &'b [u8]) -> Result<Cow<'b, [u8]>, CommandFailure> {
        match &mut self.0 {
            None => Ok(Cow::Borrowed(piece)),
            Some(writer) => writer.write(piece).map(Cow::Owned).map_err(CommandFailure::failed),
        }
    }

    /// The last bytes to write.
    pub(crate) fn end(self) -> Result<Vec<u8>, CommandFailure> {
        self.0.map_or_else(
            || Ok(Vec::new()),
            |writer| writer.finish().map_err(CommandFailure::failed),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_complete_or_absent_and_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let mut dropped = NewFile::create(&path, false).unwrap();
        dropped.write(b"half").unwrap();
        assert!(!path.exists());
        drop(dropped);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut file = NewFile::create(&path, false).unwrap();
        file.write(b"whole").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let refused = NewFile::create(&path, false).err().unwrap().to_string();
        assert!(refused.contains("--force"), "{refused}");
        NewFile::create(&path, true).unwrap().publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    /// In a container each process can have the id 1.
    #[test]
    fn a_killed_process_leaves_no_file_that_blocks_or_outlives_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let other = dir.path().join("b.notes.partial");
        let killed = dir.path().join(format!("b.{}.partial", std::process::id()));
        for file in [&other, &killed] {
            fs::write(file, "part").unwrap();
        }
        let running = NewFile::create(&path, false).unwrap();
        assert!(!killed.exists() && other.exists());
        NewFile::create(&path, false).unwrap().publish().unwrap();
        assert!(running.publish().is_err(), "another process has created it meanwhile");
        NewFile::create(&path, true).unwrap().publish().unwrap();
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "the file, and that of another name"
        );
    }
}
