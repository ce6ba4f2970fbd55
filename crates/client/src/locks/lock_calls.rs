//! Calls about a lock that need no guard: read, release, hand over, force-release, request a release, set the policy, list; and
//! durable holds, which have neither a session nor a renewal and last until a release with their token.

use std::time::Duration;

use holdfast_api::parameters::lock::{
    AGEING, ASKED_TOKEN, COOLDOWN, DEADLINE, DETECT_DEADLOCKS, DURABLE_REASON, ENDED_TOKEN,
    FORCE_REASON, HELD, HOLD, HOLD_ALARM, LIST_SESSION, LOCK_DELAY, ORDER, POLICY_LIMIT,
    POLICY_SHARDS, PREFIX, RELEASED_HOLD, REQUEST_REASON, REQUESTED_OWNER, REQUESTED_SESSION,
    REVOKE, WAIT_ALARM, WAITING,
};
use holdfast_api::parameters::{ATTEMPT, LIMIT, OWNER, PAGE_TOKEN, RELEASED_TOKEN, STALE, WAIT};
use holdfast_api::{
    CountOrNone, ForceReleasedBody, GrantBody, HandedOverBody, LIST_LIMIT_MAX, LockBody, LocksBody,
    PolicyBody, Query, ReleaseRequestedBody, force_release_path, lock_path, named_owner,
    policy_path, release_request_path,
};
use holdfast_types::{
    Attempt, FencingToken, HoldName, LockName, Owner, PolicyChange, Reason, ReleaseTarget,
    RequestRelease, Revision, SessionName,
};

use crate::calls::call::{Call, Copies};
use crate::http::Method;
use crate::locks::lock_request::LOCKS_PATH;
use crate::locks::queue_entry::{release_permits_call, release_query};
use crate::locks::transfer::transfer_call;
use crate::numbers::{with_attempt, with_request_number};
use crate::{Client, Error};

/// Which locks to list, for [`Client::locks`]. By default all of them, in pages of the largest size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockQuery {
    /// Only locks whose names begin with this text.
    pub prefix: Option<String>,
    /// Only locks that this session holds or waits for.
    pub session: Option<SessionName>,
    /// Only locks with a holder.
    pub held: bool,
    /// Only locks with a queued waiter.
    pub waiting: bool,
    /// Read the state of one node, which needs no majority and may be old.
    pub stale: bool,
    /// Locks on one page, 1 to 1,000.
    pub limit: Option<usize>,
    /// The `next_page_token` of the previous page.
    pub page_token: Option<String>,
}

impl LockQuery {
    /// Builds the call that reads one page.
    pub fn call(&self) -> Call {
        let Self { prefix, session, held, waiting, stale, limit, page_token } = self;
        let query = Query::default()
            .with_some(&PREFIX, prefix.as_ref().filter(|prefix| !prefix.is_empty()))
            .with_some(&LIST_SESSION, session.as_ref())
            .with_flag(&HELD, *held)
            .with_flag(&WAITING, *waiting)
            .with_flag(&STALE, *stale)
            .with(&LIMIT, &limit.unwrap_or(LIST_LIMIT_MAX))
            .with_some(&PAGE_TOKEN, page_token.as_ref());
        Call::get(query.target(LOCKS_PATH))
    }
}

impl Client {
    /// Releases a lock that the session itself holds, or leaves its queue. A repeated call has no further effect.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the holder, if another session holds the lock; otherwise see [`Error`].
    pub async fn release(&self, lock: &LockName, session: &SessionName) -> Result<(), Error> {
        let query = self.release_of_hold(lock, session).await?;
        self.calls().send(&Call::new(Method::DELETE, query.target(&lock_path(lock)))).await
    }

    /// Transfers a lock that a session itself holds to another open session, which holds it immediately. A guard of this
    /// program has [`Guard::transfer`](crate::Guard::transfer).
    ///
    /// # Errors
    /// [`Error::Rejected`] if the session does not hold the lock; [`Error::Lost`] if one of the sessions is not open;
    /// otherwise see [`Error`]. After [`Error::OutcomeUnknown`], read the lock to find its holder.
    pub async fn transfer(
        &self,
        lock: &LockName,
        from: &SessionName,
        to: &SessionName,
    ) -> Result<HandedOverBody, Error> {
        let release = self.release_of_hold(lock, from).await?;
        self.calls().json(&transfer_call(lock, release, to, None)).await
    }

    /// Builds the release of the session's own hold by its token, so that a late copy of the call affects no later
    /// hold.
    async fn release_of_hold(
        &self,
        lock: &LockName,
        session: &SessionName,
    ) -> Result<Query, Error> {
        let target = self.own_hold(lock, session).await?.map(ReleaseTarget::Hold);
        Ok(release_query(Query::default(), session, None, target.unwrap_or_default()))
    }

    /// The token of the first hold that the session itself has.
    async fn own_hold(
        &self,
        lock: &LockName,
        session: &SessionName,
    ) -> Result<Option<FencingToken>, Error> {
        let body = self.lock_state(lock).await?;
        let mut holders = body.holders.iter();
        let hold = holders.find(|holder| holder.session == *session && holder.owner.is_none());
        Ok(hold.map(|hold| hold.token))
    }

    /// Gives back permits of the hold that a session has in a semaphore, once. The last permit ends the hold. The
    /// session's first hold without an owner counts.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release_permits(
        &self,
        lock: &LockName,
        session: &SessionName,
        permits: u32,
    ) -> Result<(), Error> {
        let name = self.own_hold(lock, session).await?.map_or(HoldName::Unnamed, HoldName::Token);
        with_request_number(async |request| {
            let of = (lock, session, None);
            self.calls().send(&release_permits_call(of, (name, permits), request)).await
        })
        .await
    }

    /// Returns the holders and the queue of a lock.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn lock_state(&self, lock: &LockName) -> Result<LockBody, Error> {
        self.calls().get(lock_path(lock)).await
    }

    /// Ends every hold of a lock, or the hold of a token, as an operator. Without a token a copy of the call could end a
    /// later hold, so the call is not repeated after a lost answer.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn force_release(
        &self,
        lock: &LockName,
        token: Option<FencingToken>,
        reason: &Reason,
    ) -> Result<ForceReleasedBody, Error> {
        let query =
            Query::default().with(&FORCE_REASON, reason).with_some(&ENDED_TOKEN, token.as_ref());
        let call = Call::new(Method::POST, query.target(&force_release_path(lock)));
        self.calls().json(&call.copies(copies_of_hold(token.as_ref()))).await
    }

    /// Requests the holders of a lock to release it. Without a token a copy of the call could reach a later holder, so the
    /// call is not repeated after a lost answer.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the named session does not hold the lock; otherwise see [`Error`].
    pub async fn request_release(
        &self,
        request: &RequestRelease,
    ) -> Result<ReleaseRequestedBody, Error> {
        let RequestRelease { lock, holder, token, reason, deadline_ms, revoke } = request;
        let (session, owner) = holder.clone().unzip();
        let query = Query::default()
            .with_some(&REQUESTED_SESSION, session.as_ref())
            .with_some(&REQUESTED_OWNER, owner.and_then(named_owner).as_ref())
            .with_some(&ASKED_TOKEN, token.as_ref())
            .with_some(&REQUEST_REASON, reason.as_ref())
            .with(&DEADLINE, &Duration::from_millis(*deadline_ms))
            .with_flag(&REVOKE, *revoke);
        let call = Call::new(Method::POST, query.target(&release_request_path(lock)));
        self.calls().json(&call.copies(copies_of_hold(token.as_ref()))).await
    }

    /// Changes the policy of a lock immediately and for all callers. `None` keeps a value. Returns the policy.
    ///
    /// # Errors
    /// [`Error::Rejected`] if a lock in use would become a semaphore, or the reverse; otherwise see [`Error`].
    pub async fn set_policy(
        &self,
        lock: &LockName,
        change: &PolicyChange,
    ) -> Result<PolicyBody, Error> {
        let duration = |ms: Option<u64>| ms.map(Duration::from_millis);
        let mut query = Query::default()
            .with_some(&POLICY_LIMIT, change.limit.map(CountOrNone).as_ref())
            .with_some(&ORDER, change.order.as_ref())
            .with_some(&AGEING, duration(change.ageing_ms).as_ref())
            .with_some(&LOCK_DELAY, duration(change.lock_delay_ms).as_ref())
            .with_some(&COOLDOWN, duration(change.cooldown_ms).as_ref())
            .with_some(&WAIT_ALARM, duration(change.wait_alarm_ms).as_ref())
            .with_some(&HOLD_ALARM, duration(change.hold_alarm_ms).as_ref())
            .with_some(&POLICY_SHARDS, change.shards.map(CountOrNone).as_ref());
        if let Some(detect) = change.detect_deadlocks {
            query = query.with_flag(&DETECT_DEADLOCKS, detect);
        }
        self.call_once(Call::new(Method::PATCH, query.target(&policy_path(lock)))).await
    }

    /// Returns one page of locks.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn locks(&self, query: &LockQuery) -> Result<LocksBody, Error> {
        self.calls().json(&query.call()).await
    }

    /// Visits every lock of a query, page by page, starting at the query's page. Returns the revision of the last page.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn for_each_lock(
        &self,
        mut query: LockQuery,
        mut visit: impl FnMut(LockBody),
    ) -> Result<Revision, Error> {
        loop {
            let page = self.locks(&query).await?;
            page.locks.into_iter().for_each(&mut visit);
            query.page_token = page.next_page_token;
            if query.page_token.is_none() {
                return Ok(page.revision);
            }
        }
    }
}

/// A call that names no hold may concern a later one if it arrives late.
fn copies_of_hold(token: Option<&FencingToken>) -> Copies {
    if token.is_some() { Copies::Repeatable } else { Copies::Never }
}

impl Client {
    /// Acquires a lock with a durable hold, or returns the hold that the owner has. It outlasts this program: store the
    /// token, which alone releases it. A copy of the call that arrives after the release acquires nothing.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the holder if the lock is held for the whole `wait`; otherwise see [`Error`].
    pub async fn hold_durably(
        &self,
        lock: &LockName,
        owner: &Owner,
        reason: &Reason,
        wait: Duration,
    ) -> Result<GrantBody, Error> {
        let until = crate::clock::end_of(wait);
        // No node holds a waiting call for ever. A copy with the same attempt keeps the queue entry.
        let send = async |attempt| {
            let call = |wait: Duration| {
                let query = Query::default()
                    .with(&HOLD, &"durable")
                    .with(&OWNER, owner)
                    .with(&ATTEMPT, &attempt)
                    .with(&DURABLE_REASON, reason)
                    .with_some(&WAIT, Some(&wait).filter(|wait| !wait.is_zero()));
                Call::new(Method::PUT, query.target(&lock_path(lock)))
            };
            self.calls().repeat_until(until, || true, call).await
        };
        with_attempt(Attempt::UNNAMED, send).await
    }

    /// Releases the durable hold that has this token. A repeated call has no further effect.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release_durable(
        &self,
        lock: &LockName,
        owner: &Owner,
        token: FencingToken,
    ) -> Result<(), Error> {
        let query = Query::default()
            .with(&RELEASED_HOLD, &"durable")
            .with(&OWNER, owner)
            .with(&RELEASED_TOKEN, &token);
        self.calls().send(&Call::new(Method::DELETE, query.target(&lock_path(lock)))).await
    }
}
