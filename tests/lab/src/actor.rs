//! A test client: one session that acquires, renews and releases locks at any node, and records every call and reply.
//!
//! The client retries at the next node, and only after a retryable reply or no reply. Every try is a separate operation
//! in the history. Each acquire carries its attempt number; each release carries the attempt that it ends. While a node
//! is stopped, the client also sends a copy of each call to that node ([`LateCopies`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_client::http::{Method, SendError};
use serde_json::Value;

use crate::history::{CallReply, ClientCall, History, HistoryEventKind};
use crate::http::{Http, Reply, Request};
use crate::unread::LateCopies;

/// Timeout of a call, in addition to the requested wait time.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Newest attempt number across all clients.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
const PAUSE_BETWEEN_RETRIES: Duration = Duration::from_millis(50);

/// The result of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The client holds the lock, with this token.
    Granted(u64),
    /// The release, renewal or close succeeded.
    Done,
    /// Another session holds the lock; waiting again is allowed.
    Busy,
    /// The session expired.
    Expired,
    /// Retryable: no leader, no reply, or an overloaded or stopping node.
    Retry(String),
    /// Rejected permanently, with this error code.
    Refused(String),
}

/// A client with its own session.
#[derive(Clone)]
pub struct Actor {
    /// The session id.
    pub session: String,
    endpoints: Vec<Http>,
    endpoint: usize,
    ttl_ms: u64,
    history: History,
    /// The open attempt of each lock.
    attempts: Arc<Mutex<BTreeMap<String, u64>>>,
    unread: LateCopies,
}

impl Actor {
    /// Returns a client that calls the first of `endpoints` first.
    pub fn new(session: &str, endpoints: Vec<Http>, ttl: Duration, history: &History) -> Self {
        let ttl_ms = u64::try_from(ttl.as_millis()).expect("a ttl in milliseconds");
        let (session, history) = (session.to_owned(), history.clone());
        let (attempts, unread) = (Arc::default(), LateCopies::default());
        Self { session, endpoints, endpoint: 0, ttl_ms, history, attempts, unread }
    }

    /// Makes the client send copies of its calls to the stopped node of `unread`.
    #[must_use]
    pub fn leaving(self, unread: &LateCopies) -> Self {
        Self { unread: unread.clone(), ..self }
    }

    /// Sets the endpoint of the next call, modulo the number of endpoints.
    #[must_use]
    pub fn at_endpoint(self, endpoint: usize) -> Self {
        Self { endpoint: endpoint % self.endpoints.len(), ..self }
    }

    /// Sends one acquire that waits in the queue for up to `wait`.
    pub async fn acquire(&self, lock: &str, wait: Duration) -> Attempt {
        let Self { session, ttl_ms, .. } = self;
        let wait_ms = wait.as_millis();
        let attempt = self.attempt_at(lock);
        let target = format!(
            "/v1/locks/{lock}?session={session}&attempt={attempt}&ttl={ttl_ms}ms&wait={wait_ms}ms"
        );
        let (lock, session, ttl_ms) = (lock.to_owned(), session.clone(), *ttl_ms);
        let call = ClientCall::Acquire { lock: lock.clone(), session, ttl_ms, attempt };
        let ended = self.attempt(call, Method::PUT, &target, wait).await;
        match &ended {
            // A copy of the call may still wait in the queue: a retry keeps the attempt number.
            Attempt::Granted(_) | Attempt::Retry(_) | Attempt::Busy => {}
            Attempt::Done | Attempt::Expired | Attempt::Refused(_) => {
                self.forget_attempt(&lock);
            }
        }
        // The previous attempt is over: the next acquire starts a new one.
        if ended == Attempt::Refused("attempt-over".to_owned()) { Attempt::Busy } else { ended }
    }

    fn attempt_at(&self, lock: &str) -> u64 {
        let mut attempts = self.attempts.lock().expect("the attempts");
        let next = || ATTEMPTS.fetch_add(1, Ordering::SeqCst) + 1;
        *attempts.entry(lock.to_owned()).or_insert_with(next)
    }

    fn forget_attempt(&self, lock: &str) {
        self.attempts.lock().expect("the attempts").remove(lock);
    }

    /// Retries the acquire until it is granted or rejected permanently, or the session expires.
    pub async fn take(&mut self, lock: &str, wait: Duration, deadline: Duration) -> Attempt {
        let started = Instant::now();
        loop {
            let attempt = self.acquire(lock, wait).await;
            if !self.goes_on(&attempt).await {
                return attempt;
            }
            let session = &self.session;
            assert!(
                started.elapsed() < deadline,
                "{session}: {lock} was not granted within {deadline:?}"
            );
        }
    }

    /// Sends one release.
    pub async fn release(&self, lock: &str) -> Attempt {
        let (session, attempt) = (&self.session, self.attempt_at(lock));
        let target = format!("/v1/locks/{lock}?session={session}&attempt={attempt}");
        let call = ClientCall::Release { lock: lock.to_owned(), session: self.session.clone() };
        let ended = self.attempt(call, Method::DELETE, &target, Duration::ZERO).await;
        if !matches!(ended, Attempt::Retry(_)) {
            self.forget_attempt(lock);
        }
        ended
    }

    /// Retries the release until the outcome is known.
    pub async fn release_until_known(&mut self, lock: &str, deadline: Duration) -> Attempt {
        let started = Instant::now();
        loop {
            let attempt = self.release(lock).await;
            if !self.goes_on(&attempt).await {
                return attempt;
            }
            let session = &self.session;
            assert!(
                started.elapsed() < deadline,
                "{session} could not release {lock}: {attempt:?}"
            );
        }
    }

    /// Sends one session renewal.
    pub async fn keep_alive(&self) -> Attempt {
        let Self { session, ttl_ms, .. } = self;
        let target = format!("/v1/sessions/{session}/keepalive");
        let call = ClientCall::KeepAlive { session: session.clone(), ttl_ms: *ttl_ms };
        self.attempt(call, Method::POST, &target, Duration::ZERO).await
    }

    /// Sends one session close.
    pub async fn close(&self) -> Attempt {
        let target = format!("/v1/sessions/{}", self.session);
        let call = ClientCall::Close { session: self.session.clone() };
        self.attempt(call, Method::DELETE, &target, Duration::ZERO).await
    }

    /// Sends one linearizable read of a lock; returns the body of a 200 reply.
    pub async fn look(&self, lock: &str) -> Option<Value> {
        let target = format!("/v1/locks/{lock}");
        let op = self.history.invoke(ClientCall::Read { lock: lock.to_owned() });
        let reply = self.send(Method::GET, &target, Duration::ZERO).await;
        let read = reply.as_ref().ok().filter(|reply| reply.status == 200).map(Reply::json);
        let what = match &read {
            Some(body) => HistoryEventKind::Ok(shown(body)),
            None => HistoryEventKind::Fail { code: format!("{reply:?}") },
        };
        self.history.complete(op, what);
        read
    }

    /// Sends the next call to the next node.
    pub fn next_endpoint(&mut self) {
        self.endpoint = (self.endpoint + 1) % self.endpoints.len();
    }

    async fn goes_on(&mut self, attempt: &Attempt) -> bool {
        match attempt {
            Attempt::Retry(_) => {
                self.next_endpoint();
                tokio::time::sleep(PAUSE_BETWEEN_RETRIES).await;
                true
            }
            Attempt::Busy => true,
            Attempt::Granted(_) | Attempt::Done | Attempt::Expired | Attempt::Refused(_) => false,
        }
    }

    async fn attempt(
        &self,
        call: ClientCall,
        method: Method,
        target: &str,
        wait: Duration,
    ) -> Attempt {
        self.unread.leave(&method, target).await;
        let op = self.history.invoke(call);
        let (attempt, what) = match self.send(method, target, wait).await {
            Ok(reply) => understood(&reply),
            Err(SendError { reason, may_be_done: false, .. }) => {
                (Attempt::Retry(reason), HistoryEventKind::Fail { code: "not-sent".into() })
            }
            Err(SendError { reason, .. }) => {
                (Attempt::Retry(reason.clone()), HistoryEventKind::Unknown { why: reason })
            }
        };
        self.history.complete(op, what);
        attempt
    }

    async fn send(&self, method: Method, target: &str, wait: Duration) -> Result<Reply, SendError> {
        let request = Request::new(method, target).within(wait + CALL_TIMEOUT);
        self.endpoints[self.endpoint].send(request).await
    }
}

fn understood(reply: &Reply) -> (Attempt, HistoryEventKind) {
    let code = reply.code();
    let fail = |code: String| HistoryEventKind::Fail { code };
    match reply.status {
        200 if reply.json()["token"].is_u64() => {
            let token = reply.token();
            let ticket = reply.json()["ticket"].as_u64().expect("a grant has a ticket");
            (Attempt::Granted(token), HistoryEventKind::Ok(CallReply::Granted { token, ticket }))
        }
        200..=299 => (Attempt::Done, HistoryEventKind::Ok(CallReply::Done)),
        423 => (Attempt::Busy, fail(code)),
        410 => (Attempt::Expired, fail(code)),
        429 => (Attempt::Retry(code.clone()), fail(code)),
        503 if code == "no-leader" => (Attempt::Retry(code.clone()), fail(code)),
        503 => (Attempt::Retry(code.clone()), HistoryEventKind::Unknown { why: code }),
        _ => (Attempt::Refused(code.clone()), fail(format!("{code}: {reply}"))),
    }
}

/// Converts the body of `GET /v1/locks/{name}`.
fn shown(body: &Value) -> CallReply {
    let session = |of: &Value| of["session"].as_str().map(str::to_owned);
    let holder = &body["holders"][0];
    let holder = session(holder).zip(holder["token"].as_u64());
    let queue = body["queue"].as_array().expect("a lock has a queue");
    let ticket = |waiter: &Value| waiter["ticket"].as_u64().expect("a waiter has a ticket");
    CallReply::Lock { holder, waiters: queue.iter().map(ticket).collect() }
}
