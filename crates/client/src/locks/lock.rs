//! The builder of every acquire: of a lock, a multi-lock, or permits of a semaphore.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use holdfast_types::{Labels, LockName, Mode, Owner, PolicyChange};

use crate::clock::Moment;
use crate::error::argument;
use crate::locks::held_locks::HeldLocks;
use crate::locks::lock_request::{ClientLockRequest, HoldOptions, WaitLimit};
use crate::locks::queue_entry::generated_owner;
use crate::{Client, Error, Guard, Hold, Loss, MultiGuard, numbers};

/// Attempts of one [`Lock::try_acquire`] that may fail because the idle session has ended.
const FRESH_SESSIONS_MAX: u32 = 3;

/// Marks a [`Lock`] of one name.
#[derive(Clone, Copy, Debug)]
pub enum One {}

/// Marks a [`Lock`] of multiple names that are granted together.
#[derive(Clone, Copy, Debug)]
pub enum Many {}

/// A builder for the acquire of a multi-lock: all locks or none; see [`Client::lock_many`].
pub type MultiLock = Lock<Many>;

#[derive(Clone, Debug)]
enum OwnerChoice {
    /// Each guard gets its own owner.
    Generated,
    Named(String),
    Session,
}

/// A builder for the acquire of a lock. [`Lock::acquire`], [`Lock::try_acquire`] or [`Lock::with_lock`] sends the first
/// call.
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// use std::time::Duration;
/// let guard = client.lock("orders/eu").ttl(Duration::from_secs(10)).timeout(Duration::from_secs(5)).acquire().await?;
/// println!("token {}, certain for {:?}", guard.token(), guard.remaining());
/// guard.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct Lock<T = One> {
    pub(crate) client: Client,
    pub(crate) names: Vec<String>,
    owner: OwnerChoice,
    pub(crate) ttl: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    labels: BTreeMap<String, String>,
    progress_timeout: Option<Duration>,
    mode: Option<Mode>,
    options: HoldOptions,
    ends_with_session: bool,
    count: PhantomData<T>,
}

impl Client {
    /// Prepares the acquire of a lock.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), vec![name.into()])
    }

    /// Prepares a multi-lock acquire: all locks or none. Multi-lock acquires never deadlock with each other, in
    /// any order of the names.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let both = client.lock_many(["account/7", "account/9"]).acquire().await?;
    /// for hold in both.holds() {
    ///     println!("write {} with token {}", hold.lock(), hold.token());
    /// }
    /// both.ensure()?;
    /// both.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_many<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> MultiLock {
        Lock::new(self.clone(), names.into_iter().map(Into::into).collect())
    }

    /// Prepares the acquire of a permit of a semaphore, which is a lock with a limit. The first acquire creates it.
    /// Later acquires must name the same limit, which [`Lock::set_limit`] changes.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
    /// let guard = client.semaphore("shop/workers", 8).permits(2).acquire().await?;
    /// for resource in guard.fence_resources() {
    ///     println!("write {resource} with token {}", guard.token());
    /// }
    /// guard.release().await
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl Into<String>, limit: u32) -> Lock {
        self.lock(name).limit(limit)
    }
}

impl<T> Lock<T> {
    fn new(client: Client, names: Vec<String>) -> Self {
        Self {
            client,
            names,
            owner: OwnerChoice::Generated,
            ttl: None,
            timeout: None,
            labels: BTreeMap::new(),
            progress_timeout: None,
            mode: None,
            options: HoldOptions::default(),
            ends_with_session: false,
            count: PhantomData,
        }
    }

    /// How long a dead holder's lock stays held; 1 s to 24 h, by default the client's time-to-live. A client has one
    /// session for each time-to-live that its locks name.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Bounds the wait in the queue: after `timeout`, [`Lock::acquire`] fails with [`Error::Busy`]. Without a timeout it
    /// waits without bound. The search for a node that answers has its own bound,
    /// [`request_timeout`](crate::ClientBuilder::request_timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A label that other callers see. Labels belong to the session: the last acquire sets them.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Holds the lock for this owner, which may acquire it again. Each guard counts, and the lock is free after the
    /// last release. By default every guard has its own owner, so guards of one client exclude each other. If one guard of
    /// the owner gets a stronger mode, the token is new, and the other guards report a loss.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = OwnerChoice::Named(owner.into());
        self
    }

    /// Holds the lock for the session itself. Every caller that knows the session's name can then release it:
    /// `DELETE /v1/locks/NAME?session=…`. The session may acquire it again, like an [owner](Lock::owner).
    pub fn owned_by_session(mut self) -> Self {
        self.owner = OwnerChoice::Session;
        self
    }

    /// Fails with [`Error::Busy`] instead of queueing when the queue already has `max` waiters or more. At least 1.
    pub fn queue_max(mut self, max: u32) -> Self {
        self.options.queue_max = Some(max);
        self
    }

    /// Ends the hold after `max`, regardless of renewals. The guard ends first, the hold in the cluster shortly after.
    /// From 1 ms to 30 days.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// Acquires in shared mode, which is compatible with shared holders and one upgradable holder.
    pub fn shared(mut self) -> Self {
        self.mode = Some(Mode::Shared);
        self
    }

    /// Ends the wait with [`Error::Lost`] if another caller ends the session. By default an acquire in a generated session
    /// queues again in a new one.
    pub fn end_with_session(mut self) -> Self {
        self.ends_with_session = true;
        self
    }

    #[tracing::instrument(
        level = "debug", name = "acquire", skip_all, err(level = "debug"),
        fields(lock = %self.names.join(","), session = tracing::field::Empty, attempt = tracing::field::Empty)
    )]
    async fn acquire_within(self, limit: WaitLimit) -> Result<HeldLocks, Error> {
        let request = self.request()?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let session = self.client.session_for(self.ttl).await?;
            let used = session.session().clone();
            used.record_in_span();
            // The lease of an expired session was not renewed: `SessionEnded` means that another caller closed it.
            let was_closed = || used.deadline_or_loss(Moment::now()) == Err(Loss::SessionEnded);
            match request.clone().acquire(session, limit).await {
                // The session ended while it was idle, or while the entry was queued. The caller held nothing.
                Err(Error::Lost(_))
                    if used.is_own
                        && !(self.ends_with_session && was_closed())
                        && !self.client.sessions.is_closed()
                        && (attempts < FRESH_SESSIONS_MAX || !limit.is_over()) => {}
                // Only the queue entry is lost: the client reached no node in time.
                Err(Error::Lost(Loss::NotRenewed { reason })) => {
                    return Err(Error::Unavailable(reason));
                }
                result => return result,
            }
        }
    }

    pub(crate) fn wait_limit(&self) -> WaitLimit {
        self.timeout.map_or(WaitLimit::ENDLESS, WaitLimit::new)
    }

    pub(crate) fn names_an_owner(&self) -> bool {
        matches!(self.owner, OwnerChoice::Named(_))
    }

    /// Checks names, labels and owner, and builds the request.
    pub(crate) fn request(&self) -> Result<ClientLockRequest, Error> {
        let owner = match &self.owner {
            OwnerChoice::Generated => Some(generated_owner(numbers::bits()?)),
            OwnerChoice::Named(owner) => Some(owner.clone()),
            OwnerChoice::Session => None,
        };
        if self.names.is_empty() {
            return Err(Error::InvalidArgument("no lock is named: name at least one".to_owned()));
        }
        let locks: Result<Vec<LockName>, _> = self.names.iter().map(LockName::new).collect();
        let mut labels = BTreeMap::new();
        if !self.labels.is_empty() {
            labels.clone_from(self.client.labels());
            labels.extend(self.labels.clone());
        }
        Ok(ClientLockRequest {
            locks: locks.map_err(argument)?,
            owner: owner.map(Owner::new).transpose().map_err(argument)?,
            transferred: None,
            labels: Labels::new(labels).map_err(argument)?,
            progress_timeout: self.progress_timeout,
            mode: self.mode,
            options: self.options.clone(),
            request_timeout: self.client.calls().request_timeout,
        })
    }
}

impl Lock {
    /// The maximum time between two calls of [`Hold::report_progress`]; after it, the client releases the lock with
    /// [`Loss::Stalled`]. A renewal shows that the process is alive, a report shows that the work makes progress.
    pub fn progress_timeout(mut self, timeout: Duration) -> Self {
        self.progress_timeout = Some(timeout);
        self
    }

    /// Blocks other holders for `min` after the grant, even if the lock is released earlier. For a job that must not
    /// run twice in that time. From 1 ms to 30 days.
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.options.min_hold = Some(min);
        self
    }

    /// Acquires in upgradable mode: compatible with shared holders, with the right to become exclusive by
    /// [`Guard::upgrade`]. A lock has at most one upgradable holder.
    pub fn upgradable(mut self) -> Self {
        self.mode = Some(Mode::Upgradable);
        self
    }

    /// The limit of a semaphore; the first acquire with a limit creates it. See [`Client::semaphore`].
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Acquires this many permits of a semaphore, all or none; by default one.
    pub fn permits(mut self, permits: u32) -> Self {
        self.options.permits = Some(permits);
        self
    }

    /// Acquires one of `count` shards of a sharded lock, each of which is a separate lock. The cluster selects the
    /// shard that the owner already holds, otherwise a free one, otherwise the one with the shortest queue. The first
    /// acquire sets the count; later ones must name the same count. [`Hold::shard`] returns the shard number.
    pub fn shards(mut self, count: u32) -> Self {
        self.options.shards = Some(count);
        self
    }

    /// Acquires this shard, counted from 0. Without [`shards`](Lock::shards), the existing shard count applies.
    pub fn shard(mut self, shard: u32) -> Self {
        self.options.shard = Some(shard);
        self
    }

    /// The priority in the queue, from 0 to 9. A level counts as ten seconds of waiting unless the lock's policy sets
    /// another value. Lower priorities therefore do not starve.
    pub fn priority(mut self, priority: u8) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Enters the hold that the [owner](Lock::owner) has in a semaphore, with the same token, instead of acquiring permits
    /// of its own. An acquire always enters the lock that its owner holds.
    pub fn entering(mut self) -> Self {
        self.options.enters = true;
        self
    }

    /// Rejects the acquire if the [owner](Lock::owner) already holds the lock, instead of re-entering it.
    pub fn not_reentrant(mut self) -> Self {
        self.options.not_reentrant = true;
        self
    }

    /// A text in the queue entry that other callers see, e.g. an address or a job number. At most 4 KiB.
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.options.value = Some(value.into());
        self
    }

    /// Changes the limit of a semaphore immediately and for all callers. A limit below the permits in use revokes none:
    /// the semaphore grants nothing until the permits fit.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a lock in use that is not a semaphore; otherwise see [`Error`].
    pub async fn set_limit(&self, limit: u32) -> Result<(), Error> {
        let policy = PolicyChange { limit: Some(Some(limit)), ..PolicyChange::default() };
        for name in &self.names {
            self.client.set_policy(&LockName::new(name).map_err(argument)?, &policy).await?;
        }
        Ok(())
    }

    /// Acquires the lock and keeps it until the guard is released, dropped or lost. Dropping the future leaves the
    /// queue.
    ///
    /// # Errors
    /// [`Error::Busy`] if the wait ended before the grant; [`Error::InvalidArgument`] for an invalid name, ttl or label;
    /// [`Error::Lost`] if a session that the caller named has ended; otherwise see [`Error`].
    pub async fn acquire(self) -> Result<Guard, Error> {
        let limit = self.wait_limit();
        self.acquire_within(limit).await.and_then(Guard::new)
    }

    /// Acquires the lock if it is free, and does not queue.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is not free; otherwise as [`Lock::acquire`].
    pub async fn try_acquire(self) -> Result<Guard, Error> {
        self.acquire_within(WaitLimit::none()).await.and_then(Guard::new)
    }

    /// Acquires the lock, runs `work` and releases the lock. If the lock is lost before the work is done, the client
    /// drops the work's future and returns the loss. The work may then be half done.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
    /// let written = client.lock("orders").with_lock(async |hold| format!("fence = {}", hold.token())).await?;
    /// # drop(written); Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lock::acquire`], and [`Error::Lost`].
    pub async fn with_lock<T, F>(self, work: impl FnOnce(Hold) -> F) -> Result<T, Error>
    where
        F: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let hold = guard.hold();
        let done = tokio::select! {
            biased;
            loss = hold.lost() => return Err(Error::Lost(loss)),
            done = work(guard.hold()) => done,
        };
        match guard.release().await {
            Err(Error::Lost(loss)) => Err(Error::Lost(loss)),
            // The work was done under the lock, so its result counts. The release continues, unless the cluster rejected it.
            Ok(()) | Err(_) => Ok(done),
        }
    }
}

impl MultiLock {
    /// Acquires all locks. Dropping the future leaves every queue.
    ///
    /// # Errors
    /// [`Error::Busy`] if the wait ended before all locks were free together. [`Error::Rejected`] for a repeated name,
    /// more than 16 names, or an existing queue entry of the owner. Otherwise as [`Lock::acquire`].
    pub async fn acquire(self) -> Result<MultiGuard, Error> {
        let limit = self.wait_limit();
        self.acquire_within(limit).await.map(MultiGuard)
    }

    /// Acquires all locks if all are free, and does not queue.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    pub async fn try_acquire(self) -> Result<MultiGuard, Error> {
        self.acquire_within(WaitLimit::none()).await.map(MultiGuard)
    }
}
