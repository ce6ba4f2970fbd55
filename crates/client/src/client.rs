//! The calls, one method each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{
    AcquireParams, ClusterBody, GrantBody, ListParams, LockBody, LocksBody, ReleaseParams,
    SessionBody, keepalive_path, lock_path, session_path,
};
use holdfast_types::{LockName, SessionName};
use reqwest::Method;

use crate::endpoint::base_url;
use crate::exchange::{Answered, Call, Exchange};
use crate::{Acquire, EndpointError, Error};

/// How long a call may take in all, unless [`Client::patience`] says otherwise. Waiting for a lock comes on top.
const PATIENCE: Duration = Duration::from_secs(10);
/// Less time than this is not enough to ask another node.
const ASK_MIN: Duration = Duration::from_millis(100);
/// How long one node may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// How long one node may keep a call that does not wait for a lock.
const EACH: Duration = Duration::from_secs(6);
/// How long a call that waits stays with one node: a node that lost its power sends no end of the connection.
pub(crate) const EACH_WAIT: Duration = Duration::from_secs(45);

/// A handle to a cluster. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    exchange: Arc<Exchange>,
    patience: Duration,
}

impl Client {
    /// A client of the cluster whose nodes, or some of them, have these HTTP addresses. Nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] if none is given, or one is no address.
    pub fn new<T: AsRef<str>>(
        endpoints: impl IntoIterator<Item = T>,
    ) -> Result<Self, EndpointError> {
        let bases = endpoints.into_iter().map(|endpoint| base_url(endpoint.as_ref()));
        let bases: Vec<String> = bases.collect::<Result<_, _>>()?;
        if bases.is_empty() {
            return Err(EndpointError::None);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // A lock is no web page: a proxy between would only hide which node is gone.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| EndpointError::Setup(error.to_string()))?;
        Ok(Self { exchange: Arc::new(Exchange::new(http, bases)), patience: PATIENCE })
    }

    /// The same client with another bound on how long a call may take in all; waiting for a lock comes on top.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Begins to take a lock.
    pub fn lock(&self, name: impl Into<String>) -> Acquire {
        Acquire::new(self.clone(), name.into())
    }

    /// Gives a lock back, or leaves its queue. Done again, it is done still.
    ///
    /// # Errors
    /// [`Error::Bad`] names the holder if that is another session; otherwise see [`Error`].
    pub async fn release(&self, lock: &LockName, session: &SessionName) -> Result<(), Error> {
        let params =
            ReleaseParams { session: session.clone(), owner: None, entry: None, redirect: false };
        self.tell(Method::DELETE, format!("{}?{}", lock_path(lock), params.to_query())).await
    }

    /// Who holds a lock, and who waits for it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self, lock: &LockName) -> Result<LockBody, Error> {
        self.get(lock_path(lock)).await
    }

    /// One page of locks.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn locks(&self, params: &ListParams) -> Result<LocksBody, Error> {
        self.get(format!("/v1/locks?{}", params.to_query())).await
    }

    /// The cluster as the node that answers sees it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cluster(&self) -> Result<ClusterBody, Error> {
        self.get("/v1/cluster".to_owned()).await
    }

    /// Ends a session: everything it holds is given back.
    ///
    /// # Errors
    /// [`Error::Lost`] if it had expired before; otherwise see [`Error`].
    pub async fn close_session(&self, session: &SessionName) -> Result<(), Error> {
        self.tell(Method::DELETE, session_path(session)).await
    }

    /// Renews a session, giving up at `until`.
    pub(crate) async fn keep_alive(
        &self,
        session: &SessionName,
        until: Instant,
    ) -> Result<Answered<SessionBody>, Error> {
        let (method, target) = (Method::POST, keepalive_path(session));
        let begin_until = until.checked_sub(ASK_MIN).unwrap_or(until);
        self.exchange.ask(Call { method, target, each: EACH, begin_until, until }).await
    }

    /// Takes a lock: finds a node within the client's patience, and leaves the call there for the wait, or for
    /// [`EACH_WAIT`] if that is shorter. Then the result is [`Error::Unknown`], and asking again keeps the place.
    pub(crate) async fn acquire(
        &self,
        lock: &LockName,
        params: &AcquireParams,
    ) -> Result<Answered<GrantBody>, Error> {
        let each = (params.wait + EACH).min(EACH_WAIT);
        let begin_until = Instant::now() + self.patience;
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        let call =
            Call { method: Method::PUT, target, each, begin_until, until: begin_until + each };
        self.exchange.ask(call).await
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, target: String) -> Result<T, Error> {
        let call = self.call(Method::GET, target);
        self.exchange.ask(call).await.map(|answered| answered.body)
    }

    async fn tell(&self, method: Method, target: String) -> Result<(), Error> {
        self.exchange.tell(self.call(method, target)).await
    }

    fn call(&self, method: Method, target: String) -> Call {
        let begin_until = Instant::now() + self.patience.saturating_sub(ASK_MIN);
        Call { method, target, each: EACH, begin_until, until: begin_until + ASK_MIN }
    }
}
