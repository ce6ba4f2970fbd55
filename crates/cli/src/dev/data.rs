//! The data directory of a development cluster: a given directory, or a temporary one.

use std::fs;
use std::path::{Path, PathBuf};

/// An existing directory. Drop removes a temporary directory.
#[derive(Debug)]
pub struct DevDataDir {
    path: PathBuf,
    temporary: bool,
}

impl DevDataDir {
    /// Opens or creates a given directory, or creates a temporary one.
    ///
    /// # Errors
    /// The directory and the reason.
    pub fn open(given: Option<&Path>) -> Result<Self, String> {
        let (path, temporary) = match given {
            Some(path) => (path.to_owned(), false),
            None => (unused_path(), true),
        };
        let failed = |error| {
            format!("cannot use {} for data: {error}; use another one with --data", path.display())
        };
        fs::create_dir_all(&path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, temporary })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_temporary(&self) -> bool {
        self.temporary
    }
}

impl Drop for DevDataDir {
    fn drop(&mut self) {
        if self.temporary {
            // Files that `remove_dir_all` cannot remove stay in the temporary directory of the system.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Returns a path that no running process uses, from the process id and a counter.
fn unused_path() -> PathBuf {
    let base = std::env::temp_dir();
    let pid = std::process::id();
    (0..=u16::MAX)
        .map(|count| base.join(format!("holdfast-dev-{pid}-{count}")))
        .find(|path| !path.exists())
        .unwrap_or(base)
}
