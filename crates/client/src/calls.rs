//! The calls of the HTTP API that this client makes, one method each.
//!
//! Owns how long a call may take with one node and in all. Refuses to know what the answers mean for a session or a
//! guard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{
    AcquireAllParams, AcquireParams, CloseParams, GrantAllBody, GrantBody, HandedBody,
    KeepAliveParams, NewsBody, OpenParams, ReleaseAllParams, ReleaseParams, SessionBody,
    keepalive_path, lock_path, session_path,
};
use holdfast_types::{LockName, Revision, SessionId, SessionName};
use reqwest::Method;

use crate::Error;
use crate::clock::Moment;
use crate::exchange::{Answered, Call, Ended, Exchange};

/// Less time than this is not enough to ask another node.
const ASK_MIN: Duration = Duration::from_millis(100);
/// How long one node may keep a call that does not wait for a lock.
const EACH: Duration = Duration::from_secs(6);
/// How long a call that waits stays with one node: a node that lost its power sends no end of the connection.
const EACH_WAIT: Duration = Duration::from_secs(45);
/// Of what is left of a lease, one node may keep a renewal for this part, so that others can be asked in time.
const RENEWAL_PART: u32 = 4;
/// Of what is left of a lease, a node may answer a parked keepalive late by this part.
const PARKED_PART: u32 = 6;
/// Nodes that refuse a parked keepalive at once are passed over for this time.
const PARK_WITHIN: Duration = Duration::from_millis(50);

/// The nodes, and how long to look for one that answers.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) patience: Duration,
}

impl Calls {
    /// Opens a session, or renews it.
    pub(crate) async fn open(
        &self,
        session: &SessionName,
        params: &OpenParams,
    ) -> Result<Answered<SessionBody>, Error> {
        let target = format!("{}?{}", session_path(session), params.to_query());
        self.exchange.ask(self.call(Method::PUT, target)).await
    }

    /// Ends a session; with an incarnation that one alone, so that a late copy of the call ends no later one.
    pub(crate) async fn close(
        &self,
        session: &SessionName,
        incarnation: Option<SessionId>,
    ) -> Result<(), Error> {
        let query = CloseParams { incarnation, ..CloseParams::default() }.to_query();
        self.tell(Method::DELETE, format!("{}{query}", session_path(session))).await
    }

    /// Renews a session, giving up when so much time has passed.
    pub(crate) async fn keep_alive(
        &self,
        session: &SessionName,
        within: Duration,
    ) -> Result<Answered<SessionBody>, Error> {
        let (method, target) = (Method::POST, keepalive_path(session));
        let until = Instant::now() + within;
        let begin_until = until.checked_sub(ASK_MIN).unwrap_or(until);
        let each = (within / RENEWAL_PART).clamp(ASK_MIN, EACH);
        self.exchange
            .ask(Call { method, target, body: String::new(), each, begin_until, until })
            .await
    }

    /// Renews a session, and leaves the call at one node until something happens to the session's locks, or for `wait`. Fails
    /// soon if no node takes it; `left` is what is left of the lease.
    pub(crate) async fn listen(
        &self,
        session: &SessionName,
        since: Option<Revision>,
        wait: Duration,
        left: Duration,
    ) -> Result<Answered<NewsBody>, Error> {
        // Whole milliseconds, as the API wants them.
        let wait = Duration::from_millis(holdfast_types::millis(wait));
        let params = KeepAliveParams { wait: Some(wait), since, redirect: false };
        let target = format!("{}?{}", keepalive_path(session), params.to_query());
        let each = wait + (left / PARKED_PART).clamp(ASK_MIN, EACH);
        let (method, body, begin_until) =
            (Method::POST, String::new(), Instant::now() + PARK_WITHIN);
        let until = begin_until + each;
        self.exchange.ask(Call { method, target, body, each, begin_until, until }).await
    }

    /// Takes a lock: finds a node within the patience, and leaves the call there for the wait, or for [`EACH_WAIT`] if
    /// that is shorter. Then the result is [`Error::Unknown`], and asking again keeps the place.
    pub(crate) async fn acquire(
        &self,
        lock: &LockName,
        params: &AcquireParams,
    ) -> Ended<GrantBody> {
        let each = (params.wait + EACH.min(self.patience)).min(EACH_WAIT);
        let begin_until = Instant::now() + self.patience;
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        let until = begin_until + each;
        self.exchange
            .asked(Call {
                method: Method::PUT,
                target,
                body: String::new(),
                each,
                begin_until,
                until,
            })
            .await
    }

    /// Takes several locks, as [`Calls::acquire`] takes one.
    pub(crate) async fn acquire_all(&self, params: &AcquireAllParams) -> Ended<GrantAllBody> {
        let target = format!("/v1/locks?{}", params.to_query());
        self.ask_waiting(Method::POST, target, params.wait).await
    }

    /// Gives several places up.
    pub(crate) async fn release_all(&self, params: &ReleaseAllParams) -> Result<(), Error> {
        self.tell(Method::DELETE, format!("/v1/locks?{}", params.to_query())).await
    }

    /// Hands a hold to another session.
    pub(crate) async fn hand_over(
        &self,
        lock: &LockName,
        params: &ReleaseParams,
    ) -> Ended<HandedBody> {
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        self.exchange.asked(self.call(Method::DELETE, target)).await
    }

    /// Gives a place up.
    pub(crate) async fn release(
        &self,
        lock: &LockName,
        params: &ReleaseParams,
    ) -> Result<(), Error> {
        self.tell(Method::DELETE, format!("{}?{}", lock_path(lock), params.to_query())).await
    }

    /// Asks for JSON; sending the call again must be harmless.
    pub(crate) async fn ask_for<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        target: String,
    ) -> Result<T, Error> {
        let call = self.call(method, target);
        self.exchange.ask(call).await.map(|answered| answered.body)
    }

    /// Asks for JSON that a node may make wait for, as [`Calls::acquire`] does.
    pub(crate) async fn ask_waiting<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        target: String,
        wait: Duration,
    ) -> Ended<T> {
        let each = (wait + EACH).min(EACH_WAIT);
        let begin_until = Instant::now() + self.patience;
        let until = begin_until + each;
        self.exchange
            .asked(Call { method, target, body: String::new(), each, begin_until, until })
            .await
    }

    /// Asks for what can be read.
    pub(crate) async fn get<T: serde::de::DeserializeOwned>(
        &self,
        target: String,
    ) -> Result<T, Error> {
        let call = self.call(Method::GET, target);
        self.exchange.ask(call).await.map(|answered| answered.body)
    }

    pub(crate) async fn tell(&self, method: Method, target: String) -> Result<(), Error> {
        self.exchange.tell(self.call(method, target)).await
    }

    /// A call that does not wait, and carries nothing.
    pub(crate) fn call(&self, method: Method, target: String) -> Call {
        let begin_until = Instant::now() + self.patience.saturating_sub(ASK_MIN);
        Call {
            method,
            target,
            body: String::new(),
            each: EACH,
            begin_until,
            until: begin_until + ASK_MIN,
        }
    }
}

/// What is left until a moment, for a timer.
pub(crate) fn timer(until: Moment) -> tokio::time::Sleep {
    tokio::time::sleep(until.left(Moment::now()))
}
