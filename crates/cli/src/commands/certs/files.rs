//! The files of a certificate and its private key.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
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
pub fn write_file(path: &Path, content: &str, mode: u32) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&partial)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(partial, path)
}
