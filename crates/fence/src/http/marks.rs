//! The stores of the marks of an HTTP service: memory for tests, and files.
//!
//! Bounds: each store has at most `resources_max` marks and rejects further resources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_types::FencingToken;

use crate::{Claim, FenceError, files};

/// The default of the number of marks in a store.
const RESOURCES_MAX: usize = 65_536;
/// The escaped name of a resource with its extension must fit into 255 bytes.
const FILE_NAME_LEN_MAX: usize = 200;

/// A store of marks, which must be as durable as the data that they protect.
pub trait Marks: Send + Sync + 'static {
    /// Compares the claim with the mark and raises the mark atomically. Returns the mark when it is durable.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the token is below the mark; another error if the mark cannot be compared.
    fn raise(
        &self,
        resource: &str,
        claim: Claim,
    ) -> impl Future<Output = Result<FencingToken, FenceError>> + Send;
}

/// Marks in memory: for tests, and for data that is also lost at a restart.
#[derive(Debug)]
pub struct MemoryMarks {
    marks: Mutex<BTreeMap<String, FencingToken>>,
    resources_max: usize,
}

impl Default for MemoryMarks {
    fn default() -> Self {
        Self { marks: Mutex::default(), resources_max: RESOURCES_MAX }
    }
}

impl Marks for MemoryMarks {
    async fn raise(&self, resource: &str, claim: Claim) -> Result<FencingToken, FenceError> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = marks.get(resource).copied();
        if known.is_none() && marks.len() >= self.resources_max {
            return Err(full(self.resources_max));
        }
        let risen = claim.judge(resource, known)?;
        marks.insert(resource.to_owned(), risen);
        Ok(risen)
    }
}

/// Marks in files of one directory, fsynced before a call is admitted. Several processes of one machine may share the
/// directory, but their calls do not wait for each other.
#[derive(Clone, Debug)]
pub struct FileMarks {
    directory: PathBuf,
    count: Arc<AtomicUsize>,
    resources_max: usize,
}

impl FileMarks {
    /// Opens or creates the directory.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn open(directory: impl AsRef<Path>) -> io::Result<Self> {
        let directory = directory.as_ref();
        fs::create_dir_all(directory)?;
        let directory = fs::canonicalize(directory)?;
        let is_mark = |name: PathBuf| name.extension().is_some_and(|ending| ending == "fence");
        let marks = fs::read_dir(&directory)?.flatten().filter(|entry| is_mark(entry.path()));
        let count = Arc::new(AtomicUsize::new(marks.count()));
        Ok(Self { directory, count, resources_max: RESOURCES_MAX })
    }

    /// Blocks the thread.
    fn raise_now(&self, resource: &str, claim: Claim) -> Result<FencingToken, FenceError> {
        let path = self.directory.join(file_name(resource)?);
        let is_new = !files::has_mark(&path);
        if is_new && self.count.load(Ordering::Relaxed) >= self.resources_max {
            return Err(full(self.resources_max));
        }
        let mark =
            files::raise_mark(&path, claim).map_err(|error| with_resource(error, resource))?;
        if is_new {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(mark)
    }
}

impl Marks for FileMarks {
    async fn raise(&self, resource: &str, claim: Claim) -> Result<FencingToken, FenceError> {
        let (marks, resource) = (self.clone(), resource.to_owned());
        let raising = tokio::task::spawn_blocking(move || marks.raise_now(&resource, claim));
        raising.await.map_err(|error| FenceError::Store(Box::new(error)))?
    }
}

impl<M: Marks> Marks for Arc<M> {
    async fn raise(&self, resource: &str, claim: Claim) -> Result<FencingToken, FenceError> {
        M::raise(self, resource, claim).await
    }
}

/// Escapes every byte except letters, digits, `-` and `_` as `%XX`, so that different names stay different.
fn file_name(resource: &str) -> Result<String, FenceError> {
    let mut name = String::new();
    for byte in resource.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() || name.len() > FILE_NAME_LEN_MAX {
        let reason = "the name of the resource is empty, or too long for a file name".to_owned();
        return Err(FenceError::MissingToken { reason });
    }
    Ok(name)
}

/// The error with the name of the resource in place of the file.
fn with_resource(error: FenceError, name: &str) -> FenceError {
    match error {
        FenceError::Stale { token, newest, holder, .. } => {
            FenceError::Stale { resource: name.to_owned(), token, newest, holder }
        }
        other @ (FenceError::MissingToken { .. }
        | FenceError::UnsafeSnapshot { .. }
        | FenceError::Conflict { .. }
        | FenceError::Store(_)) => other,
    }
}

fn full(resources_max: usize) -> FenceError {
    let what = format!("{resources_max} resources have marks: the store is full");
    FenceError::Store(Box::new(io::Error::other(what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_resources_have_different_files() {
        let names = ["a/b", "a%2Fb", "a", "A", "pool#0", "..", "ü"];
        let files: std::collections::BTreeSet<String> =
            names.iter().map(|name| file_name(name).unwrap()).collect();
        assert_eq!(files.len(), names.len());
        assert!(files.iter().all(|file| !file.contains('/') && !file.contains('.')), "{files:?}");
        assert!(file_name("").is_err() && file_name(&"/".repeat(100)).is_err());
    }

    #[test]
    fn a_full_store_rejects_new_resources() {
        let directory = tempfile::tempdir().unwrap();
        let marks = FileMarks { resources_max: 2, ..FileMarks::open(directory.path()).unwrap() };
        let raise = |name: &str| marks.raise_now(name, FencingToken(1).into());
        assert!(raise("a").is_ok() && raise("b").is_ok() && raise("a").is_ok());
        assert!(matches!(raise("c"), Err(FenceError::Store(_))));
        let again = FileMarks { resources_max: 2, ..FileMarks::open(directory.path()).unwrap() };
        assert!(matches!(again.raise_now("c", FencingToken(1).into()), Err(FenceError::Store(_))));
    }
}
