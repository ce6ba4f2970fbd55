//! Where a development cluster keeps its data: a directory that was named, or a temporary one that goes with it.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory that exists; removed on drop if it is temporary.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    temporary: bool,
}

impl DataDir {
    /// The directory named, made if need be; without a name, a new temporary one.
    ///
    /// # Errors
    /// Which directory could not be made, and why.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self, String> {
        let (path, temporary) = match named {
            Some(path) => (path.to_owned(), false),
            None => (fresh(), true),
        };
        let complaint = |error| {
            format!("cannot use {} for data: {error}; name another one with --data", path.display())
        };
        fs::create_dir_all(&path).map_err(complaint)?;
        let path = path.canonicalize().map_err(complaint)?;
        Ok(Self { path, temporary })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes with its owner.
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed now is the business of whoever cleans the temporary directory.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// A name that no live process uses: the process id, and a count within it.
fn fresh() -> PathBuf {
    let base = std::env::temp_dir();
    let pid = std::process::id();
    (0..=u16::MAX)
        .map(|count| base.join(format!("holdfast-dev-{pid}-{count}")))
        .find(|path| !path.exists())
        .unwrap_or(base)
}
