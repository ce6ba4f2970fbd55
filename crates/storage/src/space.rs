//! The free space of a disk.

use std::io;
use std::path::Path;

/// The number of bytes that an unprivileged process can still write on the file system of `dir`.
///
/// # Errors
/// The error of `statvfs`, for example for a missing `dir`.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(dir).map_err(io::Error::from)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_an_error_and_an_existing_one_has_room() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/no/such/place")).is_err());
    }
}
