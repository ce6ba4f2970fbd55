//! Our lock by two plain HTTP calls at one node, as `curl` would make them.
//!
//! Owns the calls. The session is the client's; it is not renewed while a lock is held, so holds are shorter than it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lock::UsageCounter;
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, nonce};

/// Beside the waiting for the lock.
const CALL: Duration = Duration::from_secs(10);

/// A client of this lock.
#[derive(Debug)]
pub struct Http {
    calls: reqwest::Client,
    base: String,
    session: String,
    ttl: Duration,
    counter: Arc<UsageCounter>,
}

impl Http {
    /// What it is documented not to do.
    pub const LIMITATIONS: &[Limitation] = &[Limitation::ExpiresUnderHolder];

    /// A client of this node.
    ///
    /// # Errors
    /// [`LockError::Refused`] if there is no HTTP client to be had.
    pub fn new(node: SocketAddr, ttl: Duration) -> Result<Self, LockError> {
        let calls = reqwest::Client::builder().no_proxy().build().map_err(unreachable)?;
        let session = format!("client-{}", nonce()?);
        Ok(Self {
            calls,
            base: format!("http://{node}/v1/locks"),
            session,
            ttl,
            counter: Arc::default(),
        })
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        time: Duration,
    ) -> Result<Value, LockError> {
        self.counter.round_trip();
        let answer = request.timeout(time).send().await.map_err(unreachable)?;
        let done = answer.status().is_success();
        let body = answer.bytes().await.map_err(unreachable)?;
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        if done { Ok(said) } else { Err(problem(&said)) }
    }
}

fn unreachable(error: reqwest::Error) -> LockError {
    LockError::Unreachable(error.without_url().to_string())
}

/// By the problem's code.
fn problem(said: &Value) -> LockError {
    match said.get("code").and_then(Value::as_str) {
        Some("lock-busy" | "wait-timeout") => LockError::Busy,
        Some("session-expired" | "not-holder") => LockError::Lost(said.to_string()),
        Some("no-leader" | "outcome-unknown") => LockError::Unreachable(said.to_string()),
        Some(_) | None => LockError::Refused(said.to_string()),
    }
}

impl LockClient for Http {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let (base, session, ttl) = (&self.base, &self.session, self.ttl.as_millis());
            let mut target = format!("{base}/{lock}?session={session}&ttl={ttl}ms");
            if !patience.is_zero() {
                target = format!("{target}&wait={}ms", patience.as_millis().max(1));
            }
            let since = Instant::now();
            let said = self.send(self.calls.put(target), patience + CALL).await?;
            let token = said.get("token").and_then(Value::as_u64);
            let token = token.ok_or_else(|| LockError::Refused(format!("no token in {said}")))?;
            let millis = |field| said.get(field).and_then(Value::as_u64).map(Duration::from_millis);
            let (waited, left) = (millis("waited_ms"), millis("expires_in_ms"));
            // Counted from the sending: so the client gives up before the server does.
            let certain = waited.unwrap_or_default() + left.unwrap_or_default();
            Ok(Hold::new(lock, &*self.session).fenced(token).for_ttl(since, certain))
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let target = format!("{}/{}?session={}", self.base, hold.lock, hold.proof);
            self.send(self.calls.delete(target), CALL).await.map(drop)
        })
    }

    fn usage(&self) -> LockUsage {
        self.counter.usage()
    }
}
