//! The client: the addresses of the nodes, the sessions, and the calls that need no guard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{
    AskParams, AskedBody, BreakParams, BrokenBody, ClusterBody, HandedBody, ListParams, LockBody,
    LocksBody, PolicyBody, PolicyParams, ReleaseParams, SessionBody, lock_path, session_path,
};
use holdfast_types::{LockName, ReleaseTarget, SessionName};
use serde::de::DeserializeOwned;

use crate::calls::Calls;
use crate::http::{HttpClient, HttpResponse, Method, base_url};
use crate::retry::{Call, Nodes};
use crate::session::{SessionHandle, SessionUse};
use crate::sessions::{SessionNaming, Sessions};
use crate::{EndpointError, Error, Hold};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle to a cluster, with one session that is renewed while a guard needs it. Clones share both.
///
/// When the last clone and the last guard are gone, the session is closed in the background.
#[derive(Clone, Debug)]
pub struct Client {
    calls: Calls,
    sessions: Arc<Sessions>,
}

/// Options of a [`Client`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `build`"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    naming: SessionNaming,
    ttl: Option<Duration>,
    labels: BTreeMap<String, String>,
    request_timeout: Duration,
}

impl ClientBuilder {
    /// How long the locks survive a client that died; 1 s to 24 h, by default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The prefix of generated session names, for people who look at a queue; by default `sdk`.
    pub fn session_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.naming = SessionNaming::Prefix(prefix.into());
        self
    }

    /// Uses the session of this name, which others may use too, and which outlives the client. It is never replaced: once
    /// it has ended, calls return [`Error::Lost`]. Without [`ttl`](Self::ttl) an existing session keeps its own.
    pub fn named_session(mut self, name: impl Into<String>) -> Self {
        self.naming = SessionNaming::Named(name.into());
        self
    }

    /// A label of the session that other callers see.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// How long a call may take in all, without the time it waits for a lock; by default 10 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Creates the client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] if there is no address or an invalid one.
    pub fn build(self) -> Result<Client, EndpointError> {
        let bases = self.endpoints.iter().map(|endpoint| base_url(endpoint));
        let bases: Vec<String> = bases.collect::<Result<_, _>>()?;
        if bases.is_empty() {
            return Err(EndpointError::None);
        }
        let nodes = Arc::new(Nodes::new(HttpClient::new(CONNECT_TIMEOUT)?, bases));
        let calls = Calls { nodes, request_timeout: self.request_timeout };
        let sessions = Arc::new(Sessions::new(self.naming, self.ttl, self.labels));
        Ok(Client { calls, sessions })
    }
}

impl Client {
    /// A client of the cluster with these HTTP addresses, of all nodes or some of them. Nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] if there is no address or an invalid one.
    pub fn new<T: AsRef<str>>(
        endpoints: impl IntoIterator<Item = T>,
    ) -> Result<Self, EndpointError> {
        Self::builder(endpoints).build()
    }

    /// A client with options.
    pub fn builder<T: AsRef<str>>(endpoints: impl IntoIterator<Item = T>) -> ClientBuilder {
        ClientBuilder {
            endpoints: endpoints.into_iter().map(|endpoint| endpoint.as_ref().to_owned()).collect(),
            naming: SessionNaming::Prefix("sdk".to_owned()),
            ttl: None,
            labels: BTreeMap::new(),
            request_timeout: REQUEST_TIMEOUT,
        }
    }

    /// The same client with another [request timeout](ClientBuilder::request_timeout).
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.calls.request_timeout = timeout;
        self
    }

    /// Acquires a lock, runs `work` and releases the lock; see [`Lock::with_lock`](crate::Lock::with_lock).
    ///
    /// # Errors
    /// As [`Lock::with_lock`](crate::Lock::with_lock).
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

    /// Opens the client's session, and renews it as long as the handle lives.
    ///
    /// # Errors
    /// [`Error::Lost`] if the caller named the session and it has ended; otherwise see [`Error`].
    pub async fn session(&self) -> Result<SessionHandle, Error> {
        self.session_for(None).await.map(SessionHandle::new)
    }

    /// Closes the client's sessions, and with them everything they hold. A session that the caller named stays open: then
    /// this waits until every guard of it is released, so drop the guards first.
    ///
    /// # Errors
    /// See [`Error`]; in any case the sessions end after their time-to-live.
    pub async fn close(&self) -> Result<(), Error> {
        self.sessions.close().await
    }

    /// Releases a lock that a session holds by itself, or leaves its queue. A repeated call has no further effect.
    ///
    /// # Errors
    /// [`Error::Refused`] with the holder, if another session holds the lock; otherwise see [`Error`].
    pub async fn release(&self, lock: &LockName, session: &SessionName) -> Result<(), Error> {
        let params = self.release_params(lock, session).await?;
        self.calls.release(lock, &params).await
    }

    /// Hands a lock that a session holds by itself to another open session, which holds it at once; see
    /// [`Guard::hand_over`](crate::Guard::hand_over) for a guard of this program.
    ///
    /// # Errors
    /// [`Error::Refused`] if the session does not hold it; [`Error::Lost`] if one of the sessions is not open; otherwise
    /// see [`Error`]: after [`Error::Unknown`] read who holds it.
    pub async fn hand_over(
        &self,
        lock: &LockName,
        from: &SessionName,
        to: &SessionName,
    ) -> Result<HandedBody, Error> {
        let params = self.release_params(lock, from).await?;
        let params = ReleaseParams { to: Some((to.clone(), None)), ..params };
        self.calls.hand_over(lock, &params).await.result.map(|answer| answer.body)
    }

    /// The release of the session's own hold by its token, so that a late copy of the call affects no later hold.
    async fn release_params(
        &self,
        lock: &LockName,
        session: &SessionName,
    ) -> Result<ReleaseParams, Error> {
        let body = self.look(lock).await?;
        let mut holders = body.holders.iter();
        let hold = holders.find(|holder| holder.session == *session && holder.owner.is_none());
        let target = hold.map(|hold| ReleaseTarget::Hold(hold.token)).unwrap_or_default();
        let session = session.clone();
        Ok(ReleaseParams { session, owner: None, target, to: None, redirect: false })
    }

    /// The holders and the queue of a lock.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self, lock: &LockName) -> Result<LockBody, Error> {
        self.calls.get(lock_path(lock)).await
    }

    /// Breaks a lock: takes it from its holders. With a token the call may be repeated: it affects no later holder.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn break_lock(
        &self,
        lock: &LockName,
        params: &BreakParams,
    ) -> Result<BrokenBody, Error> {
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        self.calls.json(&Call::new(Method::DELETE, target)).await
    }

    /// Asks the holders of a lock to release it.
    ///
    /// # Errors
    /// [`Error::Refused`] if the named session does not hold it; otherwise see [`Error`].
    pub async fn ask_for_release(
        &self,
        lock: &LockName,
        params: &AskParams,
    ) -> Result<AskedBody, Error> {
        let target = format!("{}?{}", lock_path(lock), params.to_query());
        self.calls.json(&Call::new(Method::POST, target)).await
    }

    /// Changes the policy of a lock for all callers and at once. A value of `None` stays as it is. Returns the policy.
    ///
    /// # Errors
    /// [`Error::Refused`] if a lock in use would become a semaphore, or the reverse; otherwise see [`Error`].
    pub async fn set_policy(
        &self,
        lock: &LockName,
        policy: &PolicyParams,
    ) -> Result<PolicyBody, Error> {
        let target = format!("{}?{}", lock_path(lock), policy.to_query());
        self.calls.json(&Call::new(Method::PATCH, target)).await
    }

    /// One page of locks.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn locks(&self, params: &ListParams) -> Result<LocksBody, Error> {
        self.calls.get(format!("/v1/locks?{}", params.to_query())).await
    }

    /// The cluster as the answering node sees it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cluster(&self) -> Result<ClusterBody, Error> {
        self.calls.get("/v1/cluster").await
    }

    /// Closes a session and releases everything it holds.
    ///
    /// # Errors
    /// [`Error::Lost`] if it had expired before; otherwise see [`Error`].
    pub async fn close_session(&self, session: &SessionName) -> Result<(), Error> {
        let open = self.calls.get::<SessionBody>(session_path(session)).await;
        let incarnation = open.map(|open| open.incarnation).ok();
        self.calls.close(session, incarnation).await
    }

    /// Sends a call for which this client has no method, and reads the answer as JSON.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.calls.json(call).await
    }

    /// Sends a call for which this client has no method.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_raw(&self, call: &Call) -> Result<HttpResponse, Error> {
        self.calls.deliver(call).await.result.map(|answer| answer.body)
    }

    /// Repeats a call that waits until a node answers it or `until` passes. `call` gets the wait of each copy, and must
    /// name the same request each time.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_until<T: DeserializeOwned>(
        &self,
        until: Instant,
        call: impl Fn(Duration) -> Call,
    ) -> Result<T, Error> {
        self.calls.repeat_until(until, || true, call).await
    }

    pub(crate) async fn session_for(&self, ttl: Option<Duration>) -> Result<SessionUse, Error> {
        self.sessions.session_for(&self.calls, ttl).await
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn labels(&self) -> &BTreeMap<String, String> {
        &self.sessions.labels
    }

    #[cfg(test)]
    pub(crate) async fn open_session(&self) -> Arc<crate::session::Session> {
        self.session_for(None).await.expect("an open session").session().clone()
    }

    /// Asks this node first.
    #[cfg(test)]
    pub(crate) fn prefer(&self, node: usize) {
        self.calls.nodes.prefer(node);
    }
}
