//! Small files that are complete or absent, e.g. the identity of a node.
//!
//! A replacement has four steps: write a new file, sync it, rename it, sync the directory. A reader sees the whole old
//! or the whole new content. The content is in memory, so its size is limited.
//!
//! ```text
//! 0..4   magic "HFFL"
//! 4      version 1
//! 5..9   length of the content, little endian
//! 9..13  CRC-32C of bytes 0..9 and the content, little endian
//! 13..   content
//! ```

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::{At, StoreError, check_len};

const MAGIC: [u8; 4] = *b"HFFL";
const VERSION: u8 = 1;
const HEADER_LEN: usize = 13;
/// The longest content, bytes.
const CONTENT_BYTES_MAX: usize = 1 << 20;
const FIX: &str = "if it can be restored from a backup of this very node, do that; otherwise replace \
    the node: holdfast member replace";

/// Replaces the file at `path` by `content` (at most 1 MiB). A power cut leaves the old or the new content, after `Ok`
/// the new. The directory must exist.
///
/// # Errors
/// [`StoreError::TooLarge`]; [`StoreError::Full`] or [`StoreError::Io`], after which the file has the old or the new
/// content.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    check_len("a small file", content, CONTENT_BYTES_MAX)?;
    replace(path, &[&header(content), content]).map(drop)
}

/// Replaces the file at `path` durably by these bytes, and returns it open for reading and writing. A crash leaves the
/// old or the new file.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> Result<File, StoreError> {
    let partial = partial_path(path);
    let mut file =
        new_file().create(true).truncate(true).open(&partial).at("creating", &partial)?;
    for part in parts {
        file.write_all(part).at("writing", &partial)?;
    }
    file.sync_all().at("syncing", &partial)?;
    fs::rename(&partial, path).at("renaming", &partial)?;
    sync_dir(parent(path))?;
    Ok(file)
}

/// The options of a new file. The files of a data directory have secrets of sessions and members.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600).read(true).write(true);
    options
}

/// Reads a file of [`write_file`]; `None` if it does not exist. The returned content is durable, even if the writing
/// process was killed before its sync.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes differ from the written bytes, [`StoreError::UnknownFormat`], [`StoreError::Io`].
pub fn read_file(path: &Path) -> Result<Option<Bytes>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("reading", path),
    };
    sync_dir(parent(path))?;
    let damaged = || StoreError::Corrupt {
        detail: format!("{} fails its checksum", path.display()),
        fix: FIX.to_owned(),
    };
    if let Some(later) = later_version(&bytes, &MAGIC, VERSION) {
        let detail = format!("{} has format version {later}", path.display());
        return Err(StoreError::newer_format(detail));
    }
    let (head, content) = bytes.split_at_checked(HEADER_LEN).ok_or_else(damaged)?;
    if head != header(content) {
        return Err(damaged());
    }
    Ok(Some(Bytes::from(bytes).slice(HEADER_LEN..)))
}

/// The version after a magic number if it is later than the known one.
pub(crate) fn later_version(bytes: &[u8], magic: &[u8], known: u8) -> Option<u8> {
    bytes.strip_prefix(magic)?.first().copied().filter(|version| *version > known)
}

/// Makes creations, renames and removals inside `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("syncing", dir)
}

/// Creates `dir` and its missing parents durably, for their owner only.
///
/// # Errors
/// [`StoreError::Full`] or [`StoreError::Io`].
pub fn create_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = parent(dir);
    create_dir(above)?;
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
    .at("creating", dir)?;
    sync_dir(above)
}

/// Returns the directory of a path; the current directory for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}

fn header(content: &[u8]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = VERSION;
    let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
    header[5..9].copy_from_slice(&len.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..9]), content);
    header[9..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Makes the next reads of the file read the disk instead of memory. Bytes that are not yet on the disk stay in memory.
/// Only advice: if the system ignores it, reads return the same bytes.
pub(crate) fn drop_cached_pages(file: &File) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    if let Err(error) = posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED) {
        tracing::debug!(%error, "cannot drop the cached pages of a file");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn written_content_is_read_and_a_missing_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        assert_eq!(read_file(&path).unwrap(), None);
        for content in [&b"first"[..], b"", b"a longer second one"] {
            write_file(&path, content).unwrap();
            assert_eq!(read_file(&path).unwrap().as_deref(), Some(content));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn every_flipped_or_missing_byte_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        write_file(&path, b"node 3 of 5").unwrap();
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            let refused = read_file(&path).unwrap_err();
            let is_later = matches!(refused, StoreError::UnknownFormat { .. });
            assert_eq!(is_later, at == 4, "byte {at}: {refused}");
            assert!(is_later || matches!(refused, StoreError::Corrupt { .. }), "byte {at}");
            fs::write(&path, &good[..at]).unwrap();
            assert!(matches!(read_file(&path), Err(StoreError::Corrupt { .. })), "cut at {at}");
        }
    }

    #[test]
    fn content_over_the_limit_is_rejected_before_any_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        let refused = write_file(&path, &vec![0; CONTENT_BYTES_MAX + 1]);
        assert!(matches!(refused, Err(StoreError::TooLarge { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn missing_directories_are_created_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        create_dir(&deep).unwrap();
        create_dir(&deep).unwrap();
        assert_eq!(deep.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_bytes_of_format_version_1_are_stable() {
        let mut bytes = header(b"holdfast").to_vec();
        bytes.extend_from_slice(b"holdfast");
        let golden = b"HFFL\x01\x08\0\0\0\x30\x16\x65\xf3holdfast";
        assert_eq!(bytes, golden);
    }
}
