//! The client: the addresses of the nodes, the sessions, and the calls that need no guard.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{AlarmsBody, ClusterBody, JsonBody, SessionBody, session_path};
use holdfast_types::SessionName;

use crate::calls::access_token::AccessToken;
use crate::calls::call::Call;
use crate::calls::nodes::Nodes;
use crate::calls::send::{Calls, Download};
use crate::http::{ClientTls, HttpClient, HttpResponse, Scheme, base_url};
use crate::sessions::registry::{SessionNaming, Sessions};
use crate::sessions::session::{SessionHandle, SessionUse};
use crate::{EndpointError, Error, Hold, numbers};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle to a cluster, with one session that is renewed while a guard needs it. Clones share both.
///
/// Dropping the last clone and the last guard closes the session in the background.
#[derive(Clone)]
pub struct Client {
    calls: Calls,
    pub(crate) sessions: Arc<Sessions>,
}

/// The addresses of the nodes.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.calls.nodes).finish()
    }
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
    tls: Option<ClientTls>,
    access_token: Option<AccessToken>,
}

impl ClientBuilder {
    /// How long a dead client's locks stay held; 1 s to 24 h, by default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The prefix of generated session names, for readers of a queue; by default `sdk`.
    pub fn session_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.naming = SessionNaming::Prefix(prefix.into());
        self
    }

    /// Uses the session of this name, which other clients may share, and which outlives this client. The client never
    /// replaces it: once it has ended, calls return [`Error::Lost`]. Without [`ttl`](Self::ttl) an existing session
    /// keeps its own.
    pub fn named_session(mut self, name: impl Into<String>) -> Self {
        self.naming = SessionNaming::Named(name.into());
        self
    }

    /// A label of the session, visible to other callers.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The total time of a call, without the time that it waits for a lock; by default 10 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Calls the nodes with TLS: addresses without a scheme mean `https`.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sends an access token with every call.
    pub fn access_token(mut self, access_token: AccessToken) -> Self {
        self.access_token = Some(access_token);
        self
    }

    /// Creates the client. Sends nothing yet.
    ///
    /// # Errors
    /// [`EndpointError`] if there is no address or an invalid one, or if a certificate is not in PEM form.
    pub fn build(self) -> Result<Client, EndpointError> {
        let default = if self.tls.is_some() { Scheme::Https } else { Scheme::Http };
        let bases = self.endpoints.iter().map(|endpoint| base_url(endpoint, default));
        let bases: Vec<String> = bases.collect::<Result<_, _>>()?;
        if bases.is_empty() {
            return Err(EndpointError::None);
        }
        let needs_tls = bases.iter().any(|base| base.starts_with("https:"));
        let http = match &self.tls {
            Some(tls) => HttpClient::with_tls(CONNECT_TIMEOUT, tls)?,
            None if needs_tls => HttpClient::with_tls(CONNECT_TIMEOUT, &ClientTls::default())?,
            None => HttpClient::new(CONNECT_TIMEOUT),
        };
        let http = http.with_access_token(self.access_token);
        let nodes = Arc::new(Nodes::new(http, bases, numbers::jitter()));
        let calls = Calls { nodes, request_timeout: self.request_timeout };
        let sessions = Arc::new(Sessions::new(self.naming, self.ttl, self.labels));
        Ok(Client { calls, sessions })
    }
}

impl Client {
    /// Creates a client of the cluster with these HTTP addresses, of all nodes or some of them. Sends nothing yet.
    ///
    /// # Errors
    /// [`EndpointError`] if there is no address or an invalid one.
    pub fn new<T: AsRef<str>>(
        endpoints: impl IntoIterator<Item = T>,
    ) -> Result<Self, EndpointError> {
        Self::builder(endpoints).build()
    }

    /// Returns a builder with the default options.
    pub fn builder<T: AsRef<str>>(endpoints: impl IntoIterator<Item = T>) -> ClientBuilder {
        ClientBuilder {
            endpoints: endpoints.into_iter().map(|endpoint| endpoint.as_ref().to_owned()).collect(),
            naming: SessionNaming::Prefix("sdk".to_owned()),
            ttl: None,
            labels: BTreeMap::new(),
            request_timeout: REQUEST_TIMEOUT,
            tls: None,
            access_token: None,
        }
    }

    /// Returns this client with another [request timeout](ClientBuilder::request_timeout).
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

    /// Opens the client's session, and renews it while the handle lives.
    ///
    /// # Errors
    /// [`Error::Lost`] if the caller named the session and it has ended; otherwise see [`Error`].
    pub async fn session(&self) -> Result<SessionHandle, Error> {
        self.session_for(None).await.map(SessionHandle::new)
    }

    /// Closes the client, for all of its clones. Waiting calls on its sessions end with [`Error::Lost`], and its guards are
    /// lost. The generated sessions end, which releases everything they hold. A session that the caller named stays open
    /// with its locks until it expires, so release its guards first.
    ///
    /// # Errors
    /// See [`Error`] if no node confirms the end of a session. That session ends after its time-to-live.
    pub async fn close(&self) -> Result<(), Error> {
        self.sessions.close().await
    }

    /// Returns the view of a node that is in contact with the leader. If no node is, returns the view of the first node
    /// that answers: a removed or cut-off node has an old view.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cluster(&self) -> Result<ClusterBody, Error> {
        let call = Call::get("/v1/cluster");
        let first: ClusterBody = self.calls.json(&call).await?;
        if first.leader.is_some() {
            return Ok(first);
        }
        let has_leader = |body: &ClusterBody| body.leader.is_some();
        Ok(self.calls.nodes.find_at_others(&call, has_leader).await.unwrap_or(first))
    }

    /// Returns the alarms of the cluster.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn alarms(&self) -> Result<AlarmsBody, Error> {
        self.calls.get("/v1/alarms").await
    }

    /// Closes a session, which releases everything it holds; not one that another client opened after that of this client.
    ///
    /// # Errors
    /// [`Error::Lost`] if there is no session of the name; otherwise see [`Error`].
    pub async fn close_session(&self, session: &SessionName) -> Result<(), Error> {
        let incarnation = match self.sessions.used_incarnation(session).await {
            Some(used) => Some(used),
            None => match self.calls.get::<SessionBody>(session_path(session)).await {
                Ok(open) => Some(open.incarnation),
                // A read of an expired session returns no incarnation.
                Err(Error::Lost(_)) => None,
                Err(error) => return Err(error),
            },
        };
        let closed = self.calls.close(session, incarnation).await;
        if let (Some(incarnation), Ok(()) | Err(Error::Lost(_))) = (incarnation, &closed) {
            self.sessions.forget(session, incarnation).await;
        }
        closed
    }

    /// Sends a call for which this client has no method, and parses the answer as JSON.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call<T: JsonBody>(&self, call: &Call) -> Result<T, Error> {
        self.calls.json(call).await
    }

    /// Sends a call for which this client has no method.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_raw(&self, call: &Call) -> Result<HttpResponse, Error> {
        self.calls.answer(call).await.result.map(|answer| answer.body)
    }

    /// Sends a change that the cluster executes once, and parses the answer as JSON. A late copy of the call has no
    /// effect: it names the client's session and a new request number. The client does not repeat a call with
    /// [`Copies::Never`](crate::Copies::Never) after a lost answer, because a copy would not return its secret.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_once<T: JsonBody>(&self, call: Call) -> Result<T, Error> {
        let response = self.call_once_raw(call).await?;
        response.json().map_err(|error| Error::UnexpectedResponse(error.to_string()))
    }

    /// As [`Client::call_once`], with the answer as it is.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_once_raw(&self, call: Call) -> Result<HttpResponse, Error> {
        let session_use = self.session_for(None).await?;
        let session = session_use.session();
        let send = |request| {
            let call = call.clone().numbered(&session.name, request);
            async move { self.call_raw(&call).await }
        };
        session.numbered_calls.send(send).await
    }

    /// Begins a read with a large answer at the first node that accepts it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn download(&self, target: &str) -> Result<Download, Error> {
        Download::begin(&self.calls, target).await
    }

    /// Repeats a waiting call until a node answers it or `until` passes. `call` gets the wait of each copy, and must
    /// name the same request each time.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_until<T: JsonBody>(
        &self,
        until: Instant,
        call: impl Fn(Duration) -> Call,
    ) -> Result<T, Error> {
        self.calls.repeat_until(until, || true, call).await
    }

    /// Whether a node has accepted a call of this client. Then a rejected access token was valid before.
    pub fn was_accepted(&self) -> bool {
        self.calls.nodes.has_accepted()
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
    pub(crate) async fn open_session(&self) -> Arc<crate::sessions::session::Session> {
        self.session_for(None).await.expect("an open session").session().clone()
    }

    /// Makes calls start at this node.
    #[cfg(test)]
    pub(crate) fn prefer(&self, node: usize) {
        self.calls.nodes.prefer(node);
    }
}
