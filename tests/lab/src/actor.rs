//! One client: a session that takes, renews and gives up locks at any node, and writes down what it did and saw.
//!
//! Retries go to the next node, and only after an answer that allows it or after none at all; every attempt is an
//! operation of its own in the history. A client names what it means, as holdfast's own clients do: each acquire its attempt, each
//! release the attempt that it ends. While a node is stopped, a copy of each call is left in it ([`Unread`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_client::http::{Method, SendError};
use serde_json::Value;

use crate::history::{Answer, Call, History, What};
use crate::http::{Http, Reply, Request};
use crate::unread::Unread;

/// What a call may take beyond the time it asks the server to wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of the newest attempt of all clients.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
const PAUSE_BETWEEN_RETRIES: Duration = Duration::from_millis(50);

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It holds the lock, with this token.
    Granted(u64),
    /// It is done.
    Done,
    /// Somebody else holds the lock; waiting again is allowed.
    Busy,
    /// The session is over.
    Expired,
    /// Ask again: no leader, no answer, an overloaded or ending node.
    Retry(String),
    /// Refused for good, with this code.
    Refused(String),
}

/// A client with a session of its own.
#[derive(Clone)]
pub struct Actor {
    /// Its session.
    pub session: String,
    endpoints: Vec<Http>,
    endpoint: usize,
    ttl_ms: u64,
    history: History,
    /// The attempt of each lock that is not over.
    attempts: Arc<Mutex<BTreeMap<String, u64>>>,
    unread: Unread,
}

impl Actor {
    /// A client that starts at the first of `endpoints`.
    pub fn new(session: &str, endpoints: Vec<Http>, ttl: Duration, history: &History) -> Self {
        let ttl_ms = u64::try_from(ttl.as_millis()).expect("a ttl in milliseconds");
        let (session, history) = (session.to_owned(), history.clone());
        let (attempts, unread) = (Arc::default(), Unread::default());
        Self { session, endpoints, endpoint: 0, ttl_ms, history, attempts, unread }
    }

    /// The same client, which leaves copies of its calls in a node that is stopped.
    #[must_use]
    pub fn leaving(self, unread: &Unread) -> Self {
        Self { unread: unread.clone(), ..self }
    }

    /// The same client, starting at another node.
    #[must_use]
    pub fn at_endpoint(self, endpoint: usize) -> Self {
        Self { endpoint: endpoint % self.endpoints.len(), ..self }
    }

    /// Asks once for the lock, waiting in its queue for up to `wait`.
    pub async fn acquire(&self, lock: &str, wait: Duration) -> Attempt {
        let Self { session, ttl_ms, .. } = self;
        let wait_ms = wait.as_millis();
        let attempt = self.attempt_at(lock);
        let target = format!(
            "/v1/locks/{lock}?session={session}&attempt={attempt}&ttl={ttl_ms}ms&wait={wait_ms}ms"
        );
        let (lock, session, ttl_ms) = (lock.to_owned(), session.clone(), *ttl_ms);
        let call = Call::Acquire { lock: lock.clone(), session, ttl_ms };
        let ended = self.attempt(call, Method::PUT, &target, wait).await;
        match &ended {
            // A copy of the call may still wait: asking again is the same attempt.
            Attempt::Granted(_) | Attempt::Retry(_) | Attempt::Busy => {}
            Attempt::Done | Attempt::Expired | Attempt::Refused(_) => {
                self.forget_attempt(&lock);
            }
        }
        // What came before is over: this is another attempt.
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

    /// Asks until the lock is granted, the session is over, or it is refused for good.
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
                "{session} waited {deadline:?} in vain for {lock}"
            );
        }
    }

    /// Gives the lock up once.
    pub async fn release(&self, lock: &str) -> Attempt {
        let (session, attempt) = (&self.session, self.attempt_at(lock));
        let target = format!("/v1/locks/{lock}?session={session}&attempt={attempt}");
        let call = Call::Release { lock: lock.to_owned(), session: self.session.clone() };
        let ended = self.attempt(call, Method::DELETE, &target, Duration::ZERO).await;
        if !matches!(ended, Attempt::Retry(_)) {
            self.forget_attempt(lock);
        }
        ended
    }

    /// Gives the lock up, and asks until it knows.
    pub async fn give_up(&mut self, lock: &str, deadline: Duration) -> Attempt {
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

    /// Renews the session once.
    pub async fn keep_alive(&self) -> Attempt {
        let Self { session, ttl_ms, .. } = self;
        let target = format!("/v1/sessions/{session}/keepalive");
        let call = Call::KeepAlive { session: session.clone(), ttl_ms: *ttl_ms };
        self.attempt(call, Method::POST, &target, Duration::ZERO).await
    }

    /// Ends the session once.
    pub async fn close(&self) -> Attempt {
        let target = format!("/v1/sessions/{}", self.session);
        let call = Call::Close { session: self.session.clone() };
        self.attempt(call, Method::DELETE, &target, Duration::ZERO).await
    }

    /// Looks at a lock once, linearizably; the body if it was answered.
    pub async fn look(&self, lock: &str) -> Option<Value> {
        let target = format!("/v1/locks/{lock}");
        let op = self.history.invoke(Call::Read { lock: lock.to_owned() });
        let reply = self.send(Method::GET, &target, Duration::ZERO).await;
        let read = reply.as_ref().ok().filter(|reply| reply.status == 200).map(Reply::json);
        let what = match &read {
            Some(body) => What::Ok(shown(body)),
            None => What::Fail { code: format!("{reply:?}") },
        };
        self.history.complete(op, what);
        read
    }

    /// The next attempt goes to the next node.
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

    async fn attempt(&self, call: Call, method: Method, target: &str, wait: Duration) -> Attempt {
        self.unread.leave(&method, target).await;
        let op = self.history.invoke(call);
        let (attempt, what) = match self.send(method, target, wait).await {
            Ok(reply) => understood(&reply),
            Err(SendError { reason, may_be_done: false, .. }) => {
                (Attempt::Retry(reason), What::Fail { code: "not-sent".into() })
            }
            Err(SendError { reason, .. }) => {
                (Attempt::Retry(reason.clone()), What::Unknown { why: reason })
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

fn understood(reply: &Reply) -> (Attempt, What) {
    let code = reply.code();
    let fail = |code: String| What::Fail { code };
    match reply.status {
        200 if reply.json()["token"].is_u64() => {
            let token = reply.token();
            (Attempt::Granted(token), What::Ok(Answer::Granted { token }))
        }
        200..=299 => (Attempt::Done, What::Ok(Answer::Done)),
        423 => (Attempt::Busy, fail(code)),
        410 => (Attempt::Expired, fail(code)),
        429 => (Attempt::Retry(code.clone()), fail(code)),
        503 if code == "no-leader" => (Attempt::Retry(code.clone()), fail(code)),
        503 => (Attempt::Retry(code.clone()), What::Unknown { why: code }),
        _ => (Attempt::Refused(code.clone()), fail(format!("{code}: {reply}"))),
    }
}

/// The body of `GET /v1/locks/{name}` as an answer.
fn shown(body: &Value) -> Answer {
    let session = |of: &Value| of["session"].as_str().map(str::to_owned);
    let holder = &body["holders"][0];
    let holder = session(holder).zip(holder["token"].as_u64());
    let queue = body["queue"].as_array();
    let waiters = queue.map(|all| all.iter().filter_map(session).collect()).unwrap_or_default();
    Answer::Lock { holder, waiters }
}
