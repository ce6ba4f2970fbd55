//! The one trait: a client that takes a lock and gives it back, and a system that makes clients.
//!
//! Owns what all of them have in common. Refuses re-entry, shared modes and permits here: an adapter that has more
//! offers it under its own names.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use crate::{Limitation, LockError};

/// An answer that is waited for.
pub type LockFuture<'a, T> = BoxFuture<'a, Result<T, LockError>>;

/// A lock as its client believes to hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a lock that is held has to be released"]
pub struct Hold {
    /// Which lock.
    pub lock: String,
    /// A number that is greater with every grant of this lock, if the system has one; a [`Limitation`] may say when not.
    pub fence: Option<u64>,
    /// What shows that the hold is ours: a random value, a path, a key. Empty if nothing does.
    pub proof: String,
    /// Until when the client believes it, on its own clock. None if it believes so until it is told otherwise.
    pub until: Option<Instant>,
}

impl Hold {
    /// A hold without a fence that its client believes in until it is told otherwise.
    pub fn new(lock: &str, proof: impl Into<String>) -> Self {
        Self { lock: lock.to_owned(), fence: None, proof: proof.into(), until: None }
    }

    /// The same, believed in for `ttl` from `since` on: the moment before the request was sent.
    pub fn for_ttl(self, since: Instant, ttl: Duration) -> Self {
        Self { until: Some(since + ttl), ..self }
    }

    /// The same, with a fencing token.
    pub fn fenced(self, fence: u64) -> Self {
        Self { fence: Some(fence), ..self }
    }

    /// Whether its client, looking at its own clock now, believes to hold it.
    pub fn is_believed(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// What a client has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockUsage {
    /// Requests that were answered by a server, each server counted.
    pub round_trips: u64,
    /// Attempts that found the lock taken, and will be made again.
    pub polls: u64,
    /// Times that a server woke it, with or without the lock.
    pub wakeups: u64,
}

/// Counts for a [`LockUsage`], also from the tasks of a client.
#[derive(Debug, Default)]
pub(crate) struct UsageCounter {
    round_trips: AtomicU64,
    polls: AtomicU64,
    wakeups: AtomicU64,
}

impl UsageCounter {
    pub(crate) fn round_trip(&self) {
        self.round_trips.fetch_add(1, Relaxed);
    }

    pub(crate) fn poll(&self) {
        self.polls.fetch_add(1, Relaxed);
    }

    pub(crate) fn wakeup(&self) {
        self.wakeups.fetch_add(1, Relaxed);
    }

    pub(crate) fn usage(&self) -> LockUsage {
        LockUsage {
            round_trips: self.round_trips.load(Relaxed),
            polls: self.polls.load(Relaxed),
            wakeups: self.wakeups.load(Relaxed),
        }
    }
}

/// One client of a lock, with a connection of its own and at most one lock at a time.
pub trait LockClient: Send {
    /// Takes the lock, or waits for it as long as `patience` allows. Zero is one attempt.
    ///
    /// # Errors
    /// [`LockError::Busy`] if it was not free in time.
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold>;

    /// Gives it back.
    ///
    /// # Errors
    /// [`LockError::Lost`] if it was not held any more, where the system can tell.
    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()>;

    /// What it has done so far.
    fn usage(&self) -> LockUsage;
}

/// A kind of lock on a kind of server, set up and running.
pub trait System: Send + Sync {
    /// Its name in reports, unique.
    fn name(&self) -> &'static str;

    /// What it is documented not to do; each is shown by a test.
    fn limitations(&self) -> &'static [Limitation];

    /// A new client with a connection of its own.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if no server answers.
    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>>;
}
