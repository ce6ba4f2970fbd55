//! The client for programs without an async runtime: every call blocks until its answer.
//!
//! [`Blocking`] wraps a value of the async client. One thread with its own runtime renews sessions while the caller
//! works. The blocking client must not be used inside an async runtime. Bounds: those of the async client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    BarrierBody, ClusterBody, CounterBody, ElectionBody, ForceReleasedBody, GrantBody,
    HandedOverBody, LatchBody, LeaderBody, LockBody, LocksBody, PolicyBody, ReleaseRequestedBody,
    TrippedBody,
};
use holdfast_types::{
    FencingToken, LockName, Owner, PolicyChange, Reason, RequestRelease, SessionName,
};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::argument;
use crate::{
    ElectionChange, Error, Hold, LockQuery, Loss, Many, Mode, One, ReleaseRequest, SessionHandle,
    SubtreeChange, recipes,
};

/// The maximum time for releasing dropped guards before the runtime ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle to a cluster; see [`crate::Client`].
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// let client = holdfast_client::blocking::Client::new(["127.0.0.1:7400"])?;
/// let guard = client.lock("orders").timeout(Duration::from_secs(10)).acquire()?;
/// guard.ensure()?;
/// println!("write with token {}", guard.token());
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
pub type Client = Blocking<crate::Client>;
/// A failed transfer; see [`crate::TransferError`].
pub type TransferError = crate::TransferError<Guard>;
/// A builder for the acquire of a lock; see [`crate::Lock`].
pub type Lock<T = One> = Blocking<crate::Lock<T>>;
/// A builder for the acquire of a multi-lock; see [`crate::MultiLock`].
pub type MultiLock = Lock<Many>;
/// A held lock; see [`crate::Guard`].
pub type Guard = Blocking<crate::Guard>;
/// A held multi-lock; see [`crate::MultiGuard`].
pub type MultiGuard = Blocking<crate::MultiGuard>;
/// An election; see [`crate::Election`].
pub type Election = Blocking<crate::Election>;
/// The leadership of an election; see [`crate::Leadership`].
pub type Leadership = Blocking<crate::Leadership>;
/// A stream of the changes of an election; see [`crate::Observer`].
pub type Observer = Blocking<crate::Observer>;
/// A cached subtree; see [`crate::Subtree`].
pub type Subtree = Blocking<crate::Subtree>;
/// A latch; see [`recipes::Latch`].
pub type Latch = Blocking<recipes::Latch>;
/// A barrier; see [`recipes::Barrier`].
pub type Barrier = Blocking<recipes::Barrier>;
/// A double barrier; see [`recipes::DoubleBarrier`].
pub type DoubleBarrier = Blocking<recipes::DoubleBarrier>;
/// A party inside a double barrier; see [`recipes::DoubleBarrierGuard`].
pub type DoubleBarrierGuard = Blocking<recipes::DoubleBarrierGuard>;
/// A counter; see [`recipes::Counter`].
pub type Counter = Blocking<recipes::Counter>;
/// A group; see [`recipes::Group`].
pub type Group = Blocking<recipes::Group>;
/// A membership of a group; see [`recipes::Membership`].
pub type Membership = Blocking<recipes::Membership>;

/// A value of the async client whose calls block. Methods that send no call are those of the value itself.
/// [`Blocking::run`] blocks on any other async method.
#[derive(Clone)]
#[must_use = "the value ends when it is dropped"]
pub struct Blocking<T> {
    value: T,
    /// The last field, so that the runtime outlives the value.
    runtime: Arc<ClientRuntime>,
}

/// As the value.
impl<T: fmt::Debug> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> std::ops::Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Blocking<T> {
    /// Blocks on an async call of the value: `guard.run(async |guard| Ok(guard.at_risk().await))`.
    ///
    /// # Errors
    /// The error of the call; [`Error::InvalidArgument`] inside an async runtime.
    pub fn run<R>(&self, call: impl AsyncFnOnce(&T) -> Result<R, Error>) -> Result<R, Error> {
        self.runtime.block_on(call(&self.value))
    }

    /// Sets options of a value that is a builder: `.with(|election| election.with(|lock| lock.max_hold(limit)))`.
    pub fn with(self, options: impl FnOnce(T) -> T) -> Self {
        Self { value: options(self.value), runtime: self.runtime }
    }

    fn wrap<U>(&self, value: U) -> Blocking<U> {
        Blocking { value, runtime: self.runtime.clone() }
    }
}

/// The runtime of a client and of all values created from it. Dropping the last value shuts it down.
#[derive(Debug)]
struct ClientRuntime {
    client: crate::Client,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

impl ClientRuntime {
    /// Starts the thread that renews sessions.
    fn start(client: crate::Client) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("holdfast-client")
            .enable_all()
            .build()
            .map_err(argument)?;
        Ok(Self { client, runtime: Some(runtime) })
    }

    fn block_on<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let runtime = self.runtime.as_ref().ok_or_else(|| argument("the client is shut down"))?;
        if Handle::try_current().is_ok() {
            return Err(argument("inside an async runtime use holdfast_client::Client instead"));
        }
        runtime.block_on(work)
    }

    /// Returns the output of a future, or `None` after `timeout`.
    fn within<F: Future>(&self, timeout: Duration, future: F) -> Result<Option<F::Output>, Error> {
        self.block_on(async { Ok(tokio::time::timeout(timeout, future).await.ok()) })
    }
}

impl Drop for ClientRuntime {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if Handle::try_current().is_err() {
            let closed = async { tokio::time::timeout(CLOSE_TIMEOUT, self.client.close()).await };
            // The cluster releases the remaining locks when their time-to-live has passed.
            drop(runtime.block_on(closed));
        }
        runtime.shutdown_background();
    }
}

/// Defines methods with the names and parameters of the wrapped value's methods. `ref`, `mut` and `own` block on an
/// async method that takes the value by reference, mutably or by value. A result after `=>` is wrapped. `new` wraps the
/// result of a method that sends no call, and `set` is a builder method.
macro_rules! blocking {
    ($value:ty { $($methods:tt)* }) => {
        impl Blocking<$value> {
            blocking!(@ $($methods)*);
        }
    };
    (@) => {};
    (@ new $name:ident($($arg:ident: $type:ty),*) => $result:ty; $($rest:tt)*) => {
        /// The method of the async client; the calls of the returned value block.
        pub fn $name(&self, $($arg: $type),*) -> Blocking<$result> {
            self.wrap(self.value.$name($($arg),*))
        }
        blocking!(@ $($rest)*);
    };
    (@ set $name:ident($($arg:ident: $type:ty),*); $($rest:tt)*) => {
        /// Sets the option of the async client.
        pub fn $name(self, $($arg: $type),*) -> Self {
            self.with(|value| value.$name($($arg),*))
        }
        blocking!(@ $($rest)*);
    };
    (@ ref $name:ident($($arg:ident: $type:ty),*) -> $result:ty; $($rest:tt)*) => {
        /// Blocks on the async method of this name.
        ///
        /// # Errors
        /// As the async method.
        pub fn $name(&self, $($arg: $type),*) -> Result<$result, Error> {
            self.runtime.block_on(self.value.$name($($arg),*))
        }
        blocking!(@ $($rest)*);
    };
    (@ ref $name:ident($($arg:ident: $type:ty),*) => $result:ty; $($rest:tt)*) => {
        /// Blocks on the async method of this name.
        ///
        /// # Errors
        /// As the async method.
        pub fn $name(&self, $($arg: $type),*) -> Result<Blocking<$result>, Error> {
            self.runtime.block_on(self.value.$name($($arg),*)).map(|value| self.wrap(value))
        }
        blocking!(@ $($rest)*);
    };
    (@ mut $name:ident($($arg:ident: $type:ty),*) -> $result:ty; $($rest:tt)*) => {
        /// Blocks on the async method of this name.
        ///
        /// # Errors
        /// As the async method.
        pub fn $name(&mut self, $($arg: $type),*) -> Result<$result, Error> {
            self.runtime.block_on(self.value.$name($($arg),*))
        }
        blocking!(@ $($rest)*);
    };
    (@ own $name:ident($($arg:ident: $type:ty),*) -> $result:ty; $($rest:tt)*) => {
        /// Blocks on the async method of this name.
        ///
        /// # Errors
        /// As the async method.
        pub fn $name(self, $($arg: $type),*) -> Result<$result, Error> {
            let Self { value, runtime } = self;
            runtime.block_on(value.$name($($arg),*))
        }
        blocking!(@ $($rest)*);
    };
    (@ own $name:ident($($arg:ident: $type:ty),*) => $result:ty; $($rest:tt)*) => {
        /// Blocks on the async method of this name.
        ///
        /// # Errors
        /// As the async method.
        pub fn $name(self, $($arg: $type),*) -> Result<Blocking<$result>, Error> {
            let Self { value, runtime } = self;
            let value = runtime.block_on(value.$name($($arg),*))?;
            Ok(Blocking { value, runtime })
        }
        blocking!(@ $($rest)*);
    };
}

blocking!(crate::Client {
    ref session() -> SessionHandle;
    ref close() -> ();
    ref cluster() -> ClusterBody;
    ref close_session(session: &SessionName) -> ();
    ref lock_state(lock: &LockName) -> LockBody;
    ref locks(query: &LockQuery) -> LocksBody;
    ref release(lock: &LockName, session: &SessionName) -> ();
    ref transfer(lock: &LockName, from: &SessionName, to: &SessionName) -> HandedOverBody;
    ref hold_durably(lock: &LockName, owner: &Owner, reason: &Reason, wait: Duration) -> GrantBody;
    ref release_durable(lock: &LockName, owner: &Owner, token: FencingToken) -> ();
    ref force_release(lock: &LockName, token: Option<FencingToken>, reason: &Reason) -> ForceReleasedBody;
    ref request_release(request: &RequestRelease) -> ReleaseRequestedBody;
    ref set_policy(lock: &LockName, change: &PolicyChange) -> PolicyBody;
    ref subtree(path: impl AsRef<str>) => crate::Subtree;
    new lock(name: impl Into<String>) => crate::Lock;
    new semaphore(name: impl Into<String>, limit: u32) => crate::Lock;
    new election(name: impl Into<String>) => crate::Election;
    new latch(name: impl Into<String>) => recipes::Latch;
    new barrier(name: impl Into<String>, parties: u32) => recipes::Barrier;
    new double_barrier(name: impl Into<String>, parties: u32) => recipes::DoubleBarrier;
    new counter(name: impl Into<String>) => recipes::Counter;
    new group(name: impl Into<String>) => recipes::Group;
});
blocking!(crate::Lock {
    own acquire() => crate::Guard;
    own try_acquire() => crate::Guard;
    ref set_limit(limit: u32) -> ();
    set ttl(ttl: Duration);
    set timeout(timeout: Duration);
    set label(key: impl Into<String>, value: impl Into<String>);
    set owner(owner: impl Into<String>);
    set owned_by_session();
    set end_with_session();
    set shared();
    set upgradable();
    set limit(limit: u32);
    set permits(permits: u32);
    set shards(count: u32);
    set shard(shard: u32);
    set priority(priority: u8);
    set not_reentrant();
    set entering();
    set value(value: impl Into<String>);
    set queue_max(max: u32);
    set max_hold(max: Duration);
    set min_hold(min: Duration);
    set progress_timeout(timeout: Duration);
});
blocking!(crate::MultiLock {
    set ttl(ttl: Duration);
    set timeout(timeout: Duration);
    set label(key: impl Into<String>, value: impl Into<String>);
    set owner(owner: impl Into<String>);
    set owned_by_session();
    set end_with_session();
    set queue_max(max: u32);
    set max_hold(max: Duration);
    set shared();
    own acquire() => crate::MultiGuard;
    own try_acquire() => crate::MultiGuard;
});
blocking!(crate::Guard {
    ref reenter() => crate::Guard;
    mut upgrade(timeout: Duration) -> FencingToken;
    mut downgrade(to: Mode) -> ();
    mut release_permits(permits: u32) -> ();
    own release() -> ();
});
blocking!(crate::MultiGuard {
    mut release_one(lock: &str) -> ();
    own release() -> ();
});
blocking!(crate::Election {
    own campaign(value: impl Into<String>) => crate::Leadership;
    own try_campaign(value: impl Into<String>) => crate::Leadership;
    ref leader() -> Option<LeaderBody>;
    ref state() -> ElectionBody;
    set ttl(ttl: Duration);
    set timeout(timeout: Duration);
});
blocking!(crate::Leadership {
    mut proclaim(value: impl Into<String>) -> ();
    own resign() -> ();
});
blocking!(crate::Observer {
    mut next_change() -> ElectionChange;
});
blocking!(recipes::Latch {
    ref create(count: u32) -> LatchBody;
    ref count_down(key: impl AsRef<str>) -> u32;
    ref count_down_on_session_end(key: impl AsRef<str>) -> SessionHandle;
    ref wait(timeout: Duration) -> LatchBody;
    ref delete() -> ();
});
blocking!(recipes::Barrier {
    ref arrive(timeout: Duration) -> TrippedBody;
    ref state() -> BarrierBody;
});
blocking!(recipes::DoubleBarrier {
    ref enter(timeout: Duration) => recipes::DoubleBarrierGuard;
    ref state() -> BarrierBody;
});
blocking!(recipes::DoubleBarrierGuard {
    own leave(timeout: Duration) -> ();
});
blocking!(recipes::Counter {
    ref get() -> CounterBody;
    ref add(amount: i64) -> CounterBody;
    ref set(value: i64) -> CounterBody;
    ref set_if(value: i64, version: u64) -> CounterBody;
    ref delete() -> ();
});
blocking!(recipes::Group {
    ref join(value: impl Into<String>) => recipes::Membership;
    ref members() -> Vec<recipes::GroupMember>;
    ref watch() => crate::Subtree;
});
blocking!(recipes::Membership {
    ref set_value(value: impl Into<String>) -> ();
    own leave() -> ();
});

impl Client {
    /// Creates a client of the cluster with these HTTP addresses, of all nodes or some of them. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no address or an invalid one, or if no thread could be started.
    pub fn new<T: AsRef<str>>(endpoints: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        Self::builder(endpoints).build_blocking()
    }

    /// Returns a builder with the default options; [`build_blocking`](crate::ClientBuilder::build_blocking) creates the
    /// client.
    pub fn builder<T: AsRef<str>>(endpoints: impl IntoIterator<Item = T>) -> crate::ClientBuilder {
        crate::Client::builder(endpoints)
    }

    /// Acquires a lock, runs `work` and releases the lock; see [`Lock::with_lock`].
    ///
    /// # Errors
    /// As [`Lock::with_lock`].
    pub fn with_lock<T>(
        &self,
        name: impl Into<String>,
        work: impl FnOnce(&Hold) -> T,
    ) -> Result<T, Error> {
        self.lock(name).with_lock(work)
    }

    /// See [`crate::Client::lock_many`].
    pub fn lock_many<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> MultiLock {
        self.wrap(self.value.lock_many(names))
    }
}

impl crate::ClientBuilder {
    /// Creates a blocking client.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn build_blocking(self) -> Result<Client, Error> {
        let client = self.build().map_err(argument)?;
        let runtime = ClientRuntime::start(client.clone())?;
        Ok(Blocking { value: client, runtime: Arc::new(runtime) })
    }
}

impl Lock {
    /// Receives a lock that is transferred to this client's session; see [`crate::Lock::receive_transfer`].
    ///
    /// # Errors
    /// As the async method.
    pub fn receive_transfer(self) -> Result<Option<Guard>, Error> {
        let Self { value, runtime } = self;
        let guard = runtime.block_on(value.receive_transfer())?;
        Ok(guard.map(|value| Blocking { value, runtime }))
    }

    /// Acquires the lock, runs `work` and releases the lock. The client cannot cancel a thread, so the work must check
    /// [`Hold::ensure`] before each write. The call returns the result only if the lock was held to the end.
    ///
    /// # Errors
    /// As [`crate::Lock::acquire`], and [`Error::Lost`].
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

impl Guard {
    /// Waits up to `timeout` for the loss of the lock; `None` if it is still held.
    pub fn lost_within(&self, timeout: Duration) -> Option<Loss> {
        self.runtime.within(timeout, self.value.lost()).unwrap_or_else(|_| self.ensure().err())
    }

    /// Waits up to `timeout` for a release request; see [`Hold::release_requested`].
    pub fn release_requested_within(&self, timeout: Duration) -> Option<ReleaseRequest> {
        self.runtime.within(timeout, self.value.release_requested()).ok().flatten()
    }

    /// Transfers the lock to another session; see [`crate::Guard::transfer`].
    ///
    /// # Errors
    /// As the async method.
    pub fn transfer(
        self,
        to: &SessionName,
        owner: Option<&str>,
    ) -> Result<FencingToken, TransferError> {
        let Self { value, runtime } = self;
        let mut kept = None;
        let result = runtime.block_on(async {
            value.transfer(to, owner).await.map_err(|failure| {
                kept = failure.guard;
                failure.error
            })
        });
        result.map_err(|error| {
            let guard = kept.map(|value| Box::new(Blocking { value: *value, runtime }));
            TransferError { error, guard }
        })
    }
}

impl MultiGuard {
    /// Waits up to `timeout` for the loss of a lock; `None` if all are still held.
    pub fn lost_within(&self, timeout: Duration) -> Option<(LockName, Loss)> {
        let loss = |hold: &Hold| Some((hold.lock().clone(), hold.ensure().err()?));
        let waited = self.runtime.within(timeout, self.value.lost());
        waited.unwrap_or_else(|_| self.holds().find_map(loss))
    }

    /// Waits up to `timeout` for a release request of one of the locks.
    pub fn release_requested_within(
        &self,
        timeout: Duration,
    ) -> Option<(LockName, ReleaseRequest)> {
        self.runtime.within(timeout, self.value.release_requested()).ok().flatten()
    }
}

impl Election {
    /// See [`crate::Election::observe`].
    ///
    /// # Errors
    /// As the async method.
    pub fn observe(&self) -> Result<Observer, Error> {
        self.value.observe().map(|observer| self.wrap(observer))
    }
}

impl Leadership {
    /// Waits up to `timeout` for the loss of the leadership; `None` if this candidate still leads.
    pub fn lost_within(&self, timeout: Duration) -> Option<Loss> {
        self.runtime.within(timeout, self.value.lost()).unwrap_or_else(|_| self.ensure().err())
    }
}

impl Observer {
    /// Waits up to `timeout` for the next change; see [`crate::Observer::next_change`].
    ///
    /// # Errors
    /// As the async method.
    pub fn next_change_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<ElectionChange>, Error> {
        self.runtime.within(timeout, self.value.next_change())?.transpose()
    }
}

impl Subtree {
    /// Waits up to `timeout` for the next change and applies it; see [`crate::Subtree::next_change`].
    ///
    /// # Errors
    /// As the async method.
    pub fn next_change_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<SubtreeChange>, Error> {
        self.runtime.within(timeout, self.value.next_change())?.transpose()
    }
}
