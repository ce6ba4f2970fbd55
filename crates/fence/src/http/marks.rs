//! The marks of an HTTP service: their stores, and the order of the calls that raise them.
//!
//! A call with a newer token waits until the calls with older tokens have ended. From then on older tokens are rejected. A call
//! arrives, raises the mark, waits for older calls, and enters. Without the wait, a call that entered and was paused would write
//! after its successor. Without the arrival, the entry with the successor's mark could be removed while an older call waits for
//! its own mark. The older call would then enter.
//!
//! Bounds: each store has at most `resources_max` marks and rejects further resources. The order has one entry for each resource
//! with calls in flight; the wait for older calls has a timeout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

use holdfast_types::FencingToken;
use tokio::sync::Notify;

use super::FenceRejection;
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
        let mut marks = lock(&self.marks);
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

/// The calls of one process, by resource.
#[derive(Debug, Default)]
pub(super) struct CallOrder {
    /// With the number of calls in flight; the last call removes the entry.
    resources: Mutex<BTreeMap<String, (Arc<ResourceCalls>, usize)>>,
}

/// The calls on one resource.
#[derive(Debug, Default)]
struct ResourceCalls {
    state: Mutex<CallState>,
    /// Notified when a call has ended or the mark has risen.
    changed: Notify,
}

#[derive(Debug, Default)]
struct CallState {
    /// The highest mark of a call in flight.
    mark: FencingToken,
    /// The number of running calls with each token.
    running: BTreeMap<FencingToken, usize>,
}

/// A running call, until this is dropped.
#[derive(Debug)]
pub(super) struct RunningCall {
    arrival: CallArrival,
    token: FencingToken,
}

/// A call in flight. It keeps the entry of the resource with the highest mark.
#[derive(Debug)]
struct CallArrival {
    order: Arc<CallOrder>,
    resource: String,
    calls: Arc<ResourceCalls>,
}

impl CallOrder {
    /// Raises the mark by `raise`, and returns when no call with a token below the mark is running. Rejects the claim
    /// if a newer call has raised the mark since the arrival, even if that call has ended.
    pub(super) async fn enter(
        self: &Arc<Self>,
        resource: &str,
        claim: Claim,
        raise: impl Future<Output = Result<FencingToken, FenceError>>,
        drain_timeout: Duration,
    ) -> Result<RunningCall, FenceRejection> {
        let arrival = self.arrive(resource);
        let mark = raise.await.map_err(FenceRejection::Marks)?;
        arrival.calls.raise(mark);
        let entering = arrival.calls.enter(resource, claim.token());
        match tokio::time::timeout(drain_timeout, entering).await {
            Ok(entered) => entered.map_err(FenceRejection::Marks)?,
            Err(_) => return Err(FenceRejection::Busy),
        }
        Ok(RunningCall { arrival, token: claim.token() })
    }

    fn arrive(self: &Arc<Self>, resource: &str) -> CallArrival {
        let mut resources = lock(&self.resources);
        let (calls, count) = resources.entry(resource.to_owned()).or_default();
        *count += 1;
        CallArrival {
            order: Arc::clone(self),
            resource: resource.to_owned(),
            calls: Arc::clone(calls),
        }
    }

    fn leave(&self, resource: &str) {
        let mut resources = lock(&self.resources);
        if let Some((_, count)) = resources.get_mut(resource) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                resources.remove(resource);
            }
        }
    }
}

impl ResourceCalls {
    fn raise(&self, mark: FencingToken) {
        let mut state = lock(&self.state);
        if mark > state.mark {
            state.mark = mark;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    async fn enter(&self, resource: &str, token: FencingToken) -> Result<(), FenceError> {
        loop {
            let changed = self.changed.notified();
            if self.step(resource, token)? {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Enters unless an older call is running. Returns whether the call has entered.
    fn step(&self, resource: &str, token: FencingToken) -> Result<bool, FenceError> {
        let mut state = lock(&self.state);
        // A newer call may have arrived during the wait.
        Claim::exclusive(token).judge(resource, Some(state.mark))?;
        let older = state.running.keys().next().is_some_and(|oldest| *oldest < state.mark);
        if !older {
            *state.running.entry(token).or_default() += 1;
        }
        Ok(!older)
    }

    fn end(&self, token: FencingToken) {
        let mut state = lock(&self.state);
        if let Some(count) = state.running.get_mut(&token) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.running.remove(&token);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.arrival.calls.end(self.token);
    }
}

impl Drop for CallArrival {
    fn drop(&mut self) {
        self.order.leave(&self.resource);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
