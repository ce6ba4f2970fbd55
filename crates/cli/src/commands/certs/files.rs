//! The files of a certificate and its private key.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::CommandFailure;

/// A certificate and its private key, in PEM form.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

pub(super) fn read(path: &Path) -> Result<String, CommandFailure> {
    fs::read_to_string(path).map_err(|error| {
        let hint = if path.ends_with("ca.pem") { ": run holdfast certs init first" } else { "" };
        CommandFailure::failed(format!("cannot read {}: {error}{hint}", path.display()))
    })
}

/// Writes `NAME.pem` and `NAME.key`, each complete or not at all. Only the owner can read the key.
pub(super) fn write_pair(
    dir: &Path,
    name: &str,
    pair: &Pair,
    replace: bool,
) -> Result<(PathBuf, PathBuf), CommandFailure> {
    let (certificate, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    for path in [&certificate, &key] {
        if !replace && path.exists() {
            return Err(CommandFailure::failed(format!(
                "{} exists: give another name or --replace",
                path.display()
            )));
        }
    }
    fs::create_dir_all(dir)
        .and_then(|()| write_file(&key, &pair.key, 0o600))
        .and_then(|()| write_file(&certificate, &pair.certificate, 0o644))
        .map_err(|error| CommandFailure::failed(format!("{}: {error}", dir.display())))?;
    Ok((certificate, key))
}

/// Writes a file, complete or not at all, with these access rights.
pub fn write_file(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let random = getrandom::u32()?;
    let partial = path.with_added_extension(format!("{random:08x}.partial"));
    // A file that exists would keep its access rights, and other users could read the key.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&partial)?;
    let written = file
        .write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        fs::remove_file(&partial).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

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
        let taken = dir.path().join("node.key");
        fs::create_dir(&taken).unwrap();
        assert!(write_file(&taken, "secret", 0o600).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
