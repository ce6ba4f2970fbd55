//! The client: where the nodes are, and how its sessions look.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    AskParams, AskedBody, BreakParams, BrokenBody, ClusterBody, HandedBody, ListParams, LockBody,
    LocksBody, PolicyBody, PolicyParams, ReleaseParams, SessionBody, lock_path, session_path,
};
use holdfast_types::{LockName, ReleaseTarget, SessionName};

use crate::calls::Calls;
use crate::endpoint::base_url;
use crate::exchange::Exchange;
use crate::session::{SessionHandle, Use};
use crate::sessions::{Naming, Sessions};
use crate::{EndpointError, Error, Hold, Lock};

/// How long a call may take in all, unless [`Client::patience`] says otherwise. Waiting for a lock comes on top.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one node may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);

/// A handle to a cluster, and one session there that is renewed as long as a guard needs it. Clones share both.
///
/// When the last clone and the last guard are gone, the session is closed in the background.
#[derive(Clone, Debug)]
pub struct Client {
    calls: Calls,
    sessions: Arc<Sessions>,
}

/// How a [`Client`] is made.
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `build`"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    naming: Naming,
    ttl: Option<Duration>,
    labels: BTreeMap<String, String>,
    patience: Duration,
}

impl ClientBuilder {
    /// How long what it holds outlives a client that died; 1 s to 24 h, 30 s if not said.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Begins the names of its sessions with this, for people who look at the queue. What nobody else has is added.
    pub fn session_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.naming = Naming::Prefix(prefix.into());
        self
    }

    /// Uses the session of exactly this name, which others may use too, and which outlives the client. It is never
    /// silently replaced: once it has ended, calls answer [`Error::Lost`]. Without [`ttl`](Self::ttl) it keeps what
    /// it has.
    pub fn named_session(mut self, name: impl Into<String>) -> Self {
        self.naming = Naming::Exactly(name.into());
        self
    }

    /// Shown to those who wait for what it holds.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// How long a call may take in all; waiting for a lock comes on top. 10 s if not said.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Makes the client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] if no node is named, or one is no address.
    pub fn build(self) -> Result<Client, EndpointError> {
        let bases = self.endpoints.iter().map(|endpoint| base_url(endpoint));
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
        let exchange = Arc::new(Exchange::new(http, bases));
        let sessions = Arc::new(Sessions::new(self.naming, self.ttl, self.labels));
        Ok(Client { calls: Calls { exchange, patience: self.patience }, sessions })
    }
}

impl Client {
    /// A client of the cluster whose nodes, or some of them, have these HTTP addresses. Nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] if none is given, or one is no address.
    pub fn new<T: AsRef<str>>(
        endpoints: impl IntoIterator<Item = T>,
    ) -> Result<Self, EndpointError> {
        Self::builder(endpoints).build()
    }

    /// The same with more to say.
    pub fn builder<T: AsRef<str>>(endpoints: impl IntoIterator<Item = T>) -> ClientBuilder {
        ClientBuilder {
            endpoints: endpoints.into_iter().map(|endpoint| endpoint.as_ref().to_owned()).collect(),
            naming: Naming::Prefix("sdk".to_owned()),
            ttl: None,
            labels: BTreeMap::new(),
            patience: PATIENCE,
        }
    }

    /// The same client with another bound on how long a call may take in all; waiting for a lock comes on top.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.calls.patience = patience;
        self
    }

    /// Begins to take a lock.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), name.into())
    }

    /// Takes a lock, does the work, gives the lock back; see [`Lock::with_lock`].
    ///
    /// # Errors
    /// As [`Lock::with_lock`].
    pub async fn with_lock<T, F>(
        &self,
        name: impl Into<String>,
        work: impl FnOnce(Hold) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = T>,
    {
        self.lock(name).with_lock(work).await
    }

    /// Opens the client's session, and keeps it alive as long as the handle lives.
    ///
    /// # Errors
    /// [`Error::Lost`] if the caller named it and it has ended; otherwise see [`Error`].
    pub async fn session(&self) -> Result<SessionHandle, Error> {
        self.session_for(None).await.map(SessionHandle::new)
    }

    /// Ends the client's sessions for certain, and with them everything they hold. A session that the caller named stays
    /// open: then this waits until every guard of it is given back, so drop them before.
    ///
    /// # Errors
    /// See [`Error`]; whatever it is, they end after their time-to-live.
    pub async fn close(&self) -> Result<(), Error> {
        self.sessions.close().await
    }

    /// Gives back a lock that a session holds as such, or leaves its queue. Done again, it is done still.
    ///
    /// # Errors
    /// [`Error::Refused`] names the holder if that is another session; otherwise see [`Error`].
    pub async fn release(&self, lock: &LockName, session: &SessionName) -> Result<(), Error> {
        let (session, target) = (session.clone(), self.hold_of(lock, session).await?);
        let params = ReleaseParams { session, owner: None, target, to: None, redirect: false };
        self.calls.release(lock, &params).await
    }

    /// What a session holds as such, by its token: a late copy of a call about it changes nothing that came after.
    async fn hold_of(
        &self,
        lock: &LockName,
        session: &SessionName,
    ) -> Result<ReleaseTarget, Error> {
        let body = self.look(lock).await?;
        let mut holders = body.holders.iter();
        let hold = holders.find(|holder| holder.session == *session && holder.owner.is_none());
        Ok(hold.map(|hold| ReleaseTarget::Hold(hold.token)).unwrap_or_default())
    }

    /// Hands a lock that a session holds as such to another open session, which holds it at once; see
    /// [`Guard::hand_over`](crate::Guard::hand_over) for a guard of this program.
    ///
    /// # Errors
    /// [`Error::Refused`] if the session does not hold it; [`Error::Lost`] if one of the sessions is not open; otherwise see
    /// [`Error`]: after [`Error::Unknown`] look who holds it.
    pub async fn hand_over(
        &self,
        lock: &LockName,
        from: &SessionName,
        to: &SessionName,
    ) -> Result<HandedBody, Error> {
        let params = ReleaseParams {
            session: from.clone(),
            owner: None,
            target: self.hold_of(lock, from).await?,
            to: Some((to.clone(), None)),
            redirect: false,
        };
        self.calls.hand_over(lock, &params).await.result.map(|answered| answered.body)
    }

    /// Who holds a lock, and who waits for it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self, lock: &LockName) -> Result<LockBody, Error> {
        self.calls.get(lock_path(lock)).await
    }

    /// Takes a lock from those who hold it. With a token the call may be sent again: it takes nothing from who came after.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn break_lock(
        &self,
        lock: &LockName,
        params: &BreakParams,
    ) -> Result<BrokenBody, Error> {
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        self.calls.ask_for(reqwest::Method::DELETE, target).await
    }

    /// Asks those who hold a lock to give it back.
    ///
    /// # Errors
    /// [`Error::Refused`] if a session is named that does not hold it; otherwise see [`Error`].
    pub async fn ask_for_release(
        &self,
        lock: &LockName,
        params: &AskParams,
    ) -> Result<AskedBody, Error> {
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        self.calls.ask_for(reqwest::Method::POST, target).await
    }

    /// Changes the rules of a lock, for everybody and at once; answers with all of them. What is none stays as it is.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is to become a semaphore, or a lock, while it is used; otherwise see [`Error`].
    pub async fn set_rules(
        &self,
        lock: &LockName,
        rules: &PolicyParams,
    ) -> Result<PolicyBody, Error> {
        let target = format!("{}?{}", lock_path(lock), rules.to_query());
        self.calls.ask_for(reqwest::Method::PATCH, target).await
    }

    /// One page of locks.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn locks(&self, params: &ListParams) -> Result<LocksBody, Error> {
        self.calls.get(format!("/v1/locks?{}", params.to_query())).await
    }

    /// The cluster as the node that answers sees it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cluster(&self) -> Result<ClusterBody, Error> {
        self.calls.get("/v1/cluster".to_owned()).await
    }

    /// Ends a session: everything it holds is given back.
    ///
    /// # Errors
    /// [`Error::Lost`] if it had expired before; otherwise see [`Error`].
    pub async fn close_session(&self, session: &SessionName) -> Result<(), Error> {
        let open = self.calls.get::<SessionBody>(session_path(session)).await;
        let incarnation = open.map(|open| open.incarnation).ok();
        self.calls.close(session, incarnation).await
    }

    pub(crate) async fn session_for(&self, ttl: Option<Duration>) -> Result<Use, Error> {
        self.sessions.session_for(&self.calls, ttl).await
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn labels(&self) -> &BTreeMap<String, String> {
        &self.sessions.labels
    }

    pub(crate) fn call_patience(&self) -> Duration {
        self.calls.patience
    }

    /// The session that is open, for tests.
    #[cfg(test)]
    pub(crate) async fn sessions_open(&self) -> Arc<crate::session::Session> {
        self.session_for(None).await.expect("an open session").session().clone()
    }

    /// Asks this node first, for tests.
    #[cfg(test)]
    pub(crate) fn prefer(&self, node: usize) {
        self.calls.exchange.prefer(node);
    }
}
