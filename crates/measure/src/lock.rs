//! The interface of a lock in the comparison: a client that acquires and releases it, and the connector that opens
//! clients.
//!
//! Re-entry, shared modes and permits are methods of the adapters that support them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub use crate::load::LoadUsage;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Limitation;
use crate::servers::{ServerKind, url};
use crate::wait::{Pause, random};

pub type LockFuture<'a, T> = BoxFuture<'a, Result<T, LockError>>;

/// The reason for a failed acquire or release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// The timeout passed. The client has left the queue.
    #[error("another client holds the lock")]
    Busy,
    /// At the release the client no longer held the lock, e.g. because its TTL had expired.
    #[error("the lock was lost before its release: {0}")]
    Lost(String),
    /// No reply arrived in time: the request may or may not have been executed.
    #[error("no reply: {0}")]
    Unreachable(String),
    #[error("rejected: {0}")]
    Rejected(String),
}

impl LockError {
    /// A one-word name for a table of errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Lost(_) => "lost",
            Self::Unreachable(_) => "unreachable",
            Self::Rejected(_) => "rejected",
        }
    }
}

/// A lock that the client assumes to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a held lock has to be released"]
pub struct HeldLock {
    pub lock: String,
    /// The fencing token, if the lock has one; a [`Limitation`] marks a token that is not monotonic.
    pub token: Option<u64>,
    /// The identity of the holder: a random value, a path or a key; empty if the lock has none.
    pub owner: String,
    /// The end of the hold by the client's clock; `None` if only the server can detect it.
    pub until: Option<Instant>,
}

impl HeldLock {
    /// Creates a hold without a token that lasts until the server ends it.
    pub fn new(lock: &str, owner: impl Into<String>) -> Self {
        Self { lock: lock.to_owned(), token: None, owner: owner.into(), until: None }
    }

    /// Limits the hold to `ttl`; `since` is the time before the request was sent.
    pub fn for_ttl(self, since: Instant, ttl: Duration) -> Self {
        Self { until: Some(since + ttl), ..self }
    }

    pub fn with_token(self, token: u64) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Returns `true` if the client, by its own clock, still assumes to hold the lock.
    pub fn is_presumed_held(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Counts a [`LoadUsage`], also in the tasks of a client.
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

    pub(crate) fn usage(&self) -> LoadUsage {
        LoadUsage {
            round_trips: self.round_trips.load(Relaxed),
            polls: self.polls.load(Relaxed),
            wakeups: self.wakeups.load(Relaxed),
        }
    }
}

/// One client with its own connection; it holds at most one lock.
pub trait LockClient: Send {
    /// Acquires the lock, waiting for at most `timeout`. Zero is one attempt.
    ///
    /// # Errors
    /// [`LockError::Busy`] if the lock was not free in time.
    fn acquire<'a>(&'a mut self, lock: &'a str, timeout: Duration) -> LockFuture<'a, HeldLock>;

    /// # Errors
    /// [`LockError::Lost`] if the client no longer held the lock, if the server can detect this.
    fn release(&mut self, held: HeldLock) -> LockFuture<'_, ()>;

    fn usage(&self) -> LoadUsage;
}

/// [`LockClient`] with `async` functions, for the adapters.
pub(crate) trait Adapter: Send {
    fn acquire(
        &mut self,
        lock: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<HeldLock, LockError>> + Send;

    fn release(&mut self, held: HeldLock) -> impl Future<Output = Result<(), LockError>> + Send;

    fn usage(&self) -> LoadUsage;
}

impl<A: Adapter> LockClient for A {
    fn acquire<'a>(&'a mut self, lock: &'a str, timeout: Duration) -> LockFuture<'a, HeldLock> {
        Box::pin(Adapter::acquire(self, lock, timeout))
    }

    fn release(&mut self, held: HeldLock) -> LockFuture<'_, ()> {
        Box::pin(Adapter::release(self, held))
    }

    fn usage(&self) -> LoadUsage {
        Adapter::usage(self)
    }
}

/// The settings of the clients of a lock, as far as its adapter supports them.
#[derive(Clone, Copy, Debug)]
pub struct LockSettings {
    /// The time for which a lock outlives a dead holder.
    pub ttl: Duration,
    /// The pause between two attempts.
    pub pause: Pause,
    /// The offset of the client's wall clock, milliseconds; positive if ahead.
    pub clock_offset_ms: i64,
}

impl LockSettings {
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, pause: Pause::default(), clock_offset_ms: 0 }
    }

    /// The TTL in milliseconds, at least 1: Redis would delete a key with a TTL of zero.
    pub(crate) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// The client's wall clock, milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
        now.saturating_add(self.clock_offset_ms)
    }
}

impl Default for LockSettings {
    /// A TTL of 30 s.
    fn default() -> Self {
        Self::new(Duration::from_secs(30))
    }
}

/// The addresses of the servers of one kind. Serialised for the worker processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerAddresses {
    pub nodes: Vec<SocketAddr>,
    /// The ZooKeeper ports of holdfast's nodes.
    pub zookeeper: Vec<SocketAddr>,
    /// The Redis servers and groups that somebody else runs, instead of `nodes`.
    pub redis: Vec<String>,
}

impl ServerAddresses {
    pub fn of(nodes: Vec<SocketAddr>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Returns the same addresses with another node first.
    #[must_use]
    pub fn starting_at(mut self, node: usize) -> Self {
        for addresses in [&mut self.nodes, &mut self.zookeeper] {
            let by = node % addresses.len().max(1);
            addresses.rotate_left(by);
        }
        let by = node % self.redis.len().max(1);
        self.redis.rotate_left(by);
        self
    }

    /// Keeps only the first server.
    #[must_use]
    pub(crate) fn only_first(mut self) -> Self {
        for addresses in [&mut self.nodes, &mut self.zookeeper] {
            addresses.truncate(1);
        }
        self.redis.truncate(1);
        self
    }
}

/// The target of a client. The client uses the first node, or all of them.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: ServerKind,
    pub addresses: ServerAddresses,
    pub settings: LockSettings,
}

impl Target {
    /// # Errors
    /// [`LockError::Rejected`] if there are no servers.
    pub(crate) fn node(&self) -> Result<SocketAddr, LockError> {
        first(&self.addresses.nodes)
    }

    /// Returns the URLs of the Redis servers.
    ///
    /// # Errors
    /// [`LockError::Rejected`] if there are no servers.
    pub(crate) fn redis_urls(&self) -> Result<Vec<String>, LockError> {
        if !self.addresses.redis.is_empty() {
            return Ok(self.addresses.redis.clone());
        }
        self.node()?;
        Ok(self.addresses.nodes.iter().map(|node| url(self.kind, *node)).collect())
    }
}

/// # Errors
/// [`LockError::Rejected`] if there are none.
pub(crate) fn first(nodes: &[SocketAddr]) -> Result<SocketAddr, LockError> {
    nodes.first().copied().ok_or_else(|| LockError::Rejected("there are no servers".to_owned()))
}

/// Opens one client.
pub(crate) type Connect = fn(Target) -> LockFuture<'static, Box<dyn LockClient>>;

/// A lock of the comparison: the connection of its clients, and its known limitations.
#[derive(Clone, Copy, Debug)]
pub struct LockKind {
    pub name: &'static str,
    pub limitations: &'static [Limitation],
    pub(crate) connect: Connect,
}

type OpenClient = dyn Fn(usize) -> LockFuture<'static, Box<dyn LockClient>> + Send + Sync;

/// Opens clients of one lock on running servers, each client at the next node.
#[derive(Clone)]
pub struct Connector {
    open: Arc<OpenClient>,
    next: Arc<AtomicUsize>,
}

impl Connector {
    /// Creates a connector; `open` gets the number of the client.
    pub fn new(
        open: impl Fn(usize) -> LockFuture<'static, Box<dyn LockClient>> + Send + Sync + 'static,
    ) -> Self {
        Self { open: Arc::new(open), next: Arc::default() }
    }

    pub fn of(lock: LockKind, target: Target) -> Self {
        Self::new(move |number| {
            let mut target = target.clone();
            target.addresses = target.addresses.starting_at(number);
            (lock.connect)(target)
        })
    }

    /// # Errors
    /// [`LockError::Unreachable`] if no server replies.
    pub async fn client(&self) -> Result<Box<dyn LockClient>, LockError> {
        (self.open)(self.next.fetch_add(1, Relaxed)).await
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// Sixteen random hexadecimal digits.
pub fn nonce() -> String {
    format!("{:016x}", random())
}
