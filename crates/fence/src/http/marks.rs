//! Where an HTTP service keeps its marks.
//!
//! Owns the trait and two stores: in memory for tests, and files for one process that must remember. Refuses to know
//! HTTP. Bounds: each holds at most `resources_max` marks and refuses a resource beyond it.

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

/// Marks a store holds unless it is told otherwise.
const RESOURCES_MAX: usize = 65_536;
/// A resource's name as a file's, with the endings beside it, has to fit into 255 bytes.
const FILE_NAME_LEN_MAX: usize = 200;

/// A memory for marks, as durable as the data that they protect.
pub trait Marks: Send + Sync + 'static {
    /// Compares the claim with the mark and raises it, in one step; answers when that is durable. Answers the mark.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the token is below the mark; anything else if the mark cannot be told.
    fn raise(
        &self,
        resource: &str,
        claim: Claim,
    ) -> impl Future<Output = Result<FencingToken, FenceError>> + Send;
}

/// Marks that a restart forgets: for tests, and for data that a restart forgets, too.
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

/// Marks in files of one directory, one each, fsynced before a call goes through. Several processes of one machine may
/// share them; the calls in flight of one are not known to the other.
#[derive(Clone, Debug)]
pub struct FileMarks {
    directory: PathBuf,
    count: Arc<AtomicUsize>,
    resources_max: usize,
}

impl FileMarks {
    /// Opens the directory, or makes it.
    ///
    /// # Errors
    /// It is no directory that can be written.
    pub fn open(directory: impl AsRef<Path>) -> io::Result<Self> {
        let directory = directory.as_ref();
        fs::create_dir_all(directory)?;
        let directory = fs::canonicalize(directory)?;
        let count = Arc::new(AtomicUsize::new(fs::read_dir(&directory)?.count() / 2));
        Ok(Self { directory, count, resources_max: RESOURCES_MAX })
    }

    /// Compares and raises on the caller's thread.
    fn raise_now(&self, resource: &str, claim: Claim) -> Result<FencingToken, FenceError> {
        let path = self.directory.join(file_name(resource)?);
        let is_new = !files::has_mark(&path);
        if is_new && self.count.load(Ordering::Relaxed) >= self.resources_max {
            return Err(full(self.resources_max));
        }
        let mark = files::raise_mark(&path, claim).map_err(|error| named(error, resource))?;
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

/// Letters, digits, `-` and `_` stay; every other byte becomes `%XX`. Different names stay different.
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
        let reason = "the resource's name is empty, or too long for a file's name".to_owned();
        return Err(FenceError::MissingToken { reason });
    }
    Ok(name)
}

/// A refusal that names the resource, not the file.
fn named(error: FenceError, name: &str) -> FenceError {
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
    let what = format!("{resources_max} resources have marks: no more are taken");
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
    fn no_more_resources_than_the_bound() {
        let directory = tempfile::tempdir().unwrap();
        let marks = FileMarks { resources_max: 2, ..FileMarks::open(directory.path()).unwrap() };
        let raise = |name: &str| marks.raise_now(name, FencingToken(1).into());
        assert!(raise("a").is_ok() && raise("b").is_ok() && raise("a").is_ok());
        assert!(matches!(raise("c"), Err(FenceError::Store(_))));
        let again = FileMarks { resources_max: 2, ..FileMarks::open(directory.path()).unwrap() };
        assert!(matches!(again.raise_now("c", FencingToken(1).into()), Err(FenceError::Store(_))));
    }
}
