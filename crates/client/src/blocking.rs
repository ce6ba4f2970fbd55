//! The same client for programs without an async runtime: every call waits for its answer.
//!
//! Owns one thread with a runtime of its own, on which renewals go on while the caller works. Must not be used inside
//! an async runtime. Bounds: as the async client's.

mod election;
mod groups;
mod recipes;
mod semaphore;
mod together;

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::FencingToken;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::argument;
use crate::{Error, Hold, Loss, Mode, ReleaseRequest, SessionHandle};

pub use election::{Election, Leadership, Observer};
pub use groups::{Group, Membership, Subtree};
pub use recipes::{Barrier, Counter, DoubleBarrier, Inside, Latch};
pub use semaphore::{Permit, Semaphore};
pub use together::{GuardAll, LockAll, NotHandedOver};

/// What was dropped is given this time to be given back before the runtime ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// The client's half that ends last.
#[derive(Debug)]
struct Engine {
    client: crate::Client,
    /// Only none while it is dropped.
    runtime: Option<Runtime>,
}

impl Engine {
    fn run<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let runtime = self.runtime.as_ref().ok_or_else(|| argument("the client has ended"))?;
        if Handle::try_current().is_ok() {
            return Err(argument("inside an async runtime use holdfast_client::Client instead"));
        }
        runtime.block_on(work)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if Handle::try_current().is_err() {
            let closed = async { tokio::time::timeout(FAREWELL, self.client.close()).await };
            // Whatever is not given back in time is free after its time-to-live.
            drop(runtime.block_on(closed));
        }
        runtime.shutdown_background();
    }
}

/// A handle to a cluster, and one session there; see [`crate::Client`].
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// let client = holdfast_client::blocking::Client::new(["127.0.0.1:7400"])?;
/// let guard = client.lock("orders").wait(Duration::from_secs(10)).acquire()?;
/// guard.ensure()?;
/// println!("write with token {}", guard.token());
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Engine>);

impl Client {
    /// A client of the cluster whose nodes, or some of them, have these HTTP addresses. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Argument`] if none is given, one is no address, or no thread could be started.
    pub fn new<T: AsRef<str>>(endpoints: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        Self::of(crate::Client::builder(endpoints))
    }

    /// The same with more to say.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn of(builder: crate::ClientBuilder) -> Result<Self, Error> {
        let client = builder.build().map_err(argument)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("holdfast-client")
            .enable_all()
            .build()
            .map_err(argument)?;
        Ok(Self(Arc::new(Engine { client, runtime: Some(runtime) })))
    }

    /// Begins to take a lock.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock { engine: self.0.clone(), lock: self.0.client.lock(name) }
    }

    /// Opens the client's session, and keeps it alive as long as the handle lives; see [`crate::Client::session`].
    ///
    /// # Errors
    /// As there.
    pub fn session(&self) -> Result<SessionHandle, Error> {
        self.0.run(self.0.client.session())
    }
}

/// A lock about to be taken; see [`crate::Lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct Lock {
    engine: Arc<Engine>,
    lock: crate::Lock,
}

impl Lock {
    /// Says more of what is asked for: `.with(|lock| lock.owner("importer").max_hold(limit))`.
    pub fn with(mut self, more: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        self.lock = more(self.lock);
        self
    }

    /// Holds beside others who share it; see [`crate::Lock::shared`].
    pub fn shared(self) -> Self {
        self.with(crate::Lock::shared)
    }

    /// Shares it with the right to become exclusive; see [`crate::Lock::upgradable`].
    pub fn upgradable(self) -> Self {
        self.with(crate::Lock::upgradable)
    }

    /// Takes one of so many segments of it; see [`crate::Lock::segments`].
    pub fn segments(self, count: u32) -> Self {
        self.with(|lock| lock.segments(count))
    }

    /// Takes this segment; see [`crate::Lock::segment`].
    pub fn segment(self, segment: u32) -> Self {
        self.with(|lock| lock.segment(segment))
    }

    /// How long the lock outlives a holder that died.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// Queues for so long, instead of as long as it takes.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Takes the lock; see [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(self) -> Result<Guard, Error> {
        let guard = self.engine.run(self.lock.acquire())?;
        Ok(Guard { guard, engine: self.engine })
    }

    /// Takes the lock if it is free; see [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(self) -> Result<Guard, Error> {
        let guard = self.engine.run(self.lock.try_acquire())?;
        Ok(Guard { guard, engine: self.engine })
    }

    /// A guard of a lock that was handed to this client's session; see [`crate::Lock::receive`].
    ///
    /// # Errors
    /// As there.
    pub fn receive(self) -> Result<Option<Guard>, Error> {
        let guard = self.engine.run(self.lock.receive())?;
        Ok(guard.map(|guard| Guard { guard, engine: self.engine }))
    }

    /// Takes the lock, does the work, gives the lock back. A thread cannot be cancelled: the work has to look
    /// ([`Hold::ensure`]) before each write, and its result is only given if the lock was held to the end.
    ///
    /// # Errors
    /// As [`Lock::acquire`], and [`Error::Lost`].
    pub fn with_lock<T>(self, work: impl FnOnce(&Hold) -> T) -> Result<T, Error> {
        let guard = self.acquire()?;
        let done = work(&guard);
        guard.ensure()?;
        match guard.release() {
            Err(Error::Lost(loss)) => Err(Error::Lost(loss)),
            Ok(()) | Err(_) => Ok(done),
        }
    }
}

/// A lock that is held; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "dropping the guard gives the lock back"]
pub struct Guard {
    guard: crate::Guard,
    /// Last, so that the runtime outlives the guard.
    engine: Arc<Engine>,
}

impl std::ops::Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.guard
    }
}

impl Guard {
    /// Becomes exclusive; see [`crate::Guard::upgrade`].
    ///
    /// # Errors
    /// As there.
    pub fn upgrade(&mut self, wait: Duration) -> Result<FencingToken, Error> {
        self.engine.run(self.guard.upgrade(wait))
    }

    /// Lets others in who share the lock; see [`crate::Guard::downgrade`].
    ///
    /// # Errors
    /// As there.
    pub fn downgrade(&mut self, to: Mode) -> Result<(), Error> {
        self.engine.run(self.guard.downgrade(to))
    }

    /// Waits up to `patience` for the lock to be lost; none if it is still held then.
    pub fn lost_within(&self, patience: Duration) -> Option<Loss> {
        let lost = async {
            let waited = tokio::time::timeout(patience, self.guard.lost()).await;
            Ok(waited.ok())
        };
        self.engine.run(lost).unwrap_or_else(|_| self.guard.ensure().err())
    }

    /// Waits up to `patience` for somebody to ask for the release of the lock; none if nobody has; see
    /// [`Hold::release_requested`].
    pub fn release_requested_within(&self, patience: Duration) -> Option<ReleaseRequest> {
        let requested = self.guard.release_requested();
        self.engine.run(async { Ok(tokio::time::timeout(patience, requested).await.ok()) }).ok()?
    }

    /// Gives the lock back and waits until that is certain; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        let Self { guard, engine } = self;
        engine.run(guard.release())
    }
}
