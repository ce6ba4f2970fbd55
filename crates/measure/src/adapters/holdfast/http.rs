//! holdfast's lock over two plain HTTP calls at one node, like calls of `curl`.
//!
//! The client does not renew its session, so it must hold a lock for less than the TTL.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::limitation::Limitation::ExpiresUnderHolder;
use crate::lock::{
    Adapter, HeldLock, LoadUsage, LockClient, LockError, LockKind, UsageCounter, nonce,
};

pub const LOCK: LockKind = LockKind {
    name: "holdfast-http",
    limitations: &[ExpiresUnderHolder],
    connect: |target| {
        Box::pin(async move {
            let client = HoldfastHttp::new(target.node()?, target.settings.ttl)?;
            Ok(Box::new(client) as Box<dyn LockClient>)
        })
    },
};

/// The timeout of a call, in addition to its wait for the lock.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct HoldfastHttp {
    http: reqwest::Client,
    locks_url: String,
    session: String,
    ttl: Duration,
    counter: UsageCounter,
}

impl HoldfastHttp {
    /// # Errors
    /// [`LockError::Unreachable`] if the HTTP client cannot be built.
    pub fn new(node: SocketAddr, ttl: Duration) -> Result<Self, LockError> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        let session = format!("comparison-{}", nonce());
        let locks_url = format!("http://{node}/v1/locks");
        Ok(Self { http, locks_url, session, ttl, counter: UsageCounter::default() })
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        timeout: Duration,
    ) -> Result<Value, LockError> {
        self.counter.round_trip();
        let response = request.timeout(timeout).send().await?;
        let is_success = response.status().is_success();
        let body: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_default();
        if is_success { Ok(body) } else { Err(problem(&body)) }
    }
}

fn problem(body: &Value) -> LockError {
    match body.get("code").and_then(Value::as_str) {
        Some("lock-busy" | "wait-timeout") => LockError::Busy,
        Some("session-expired" | "not-holder") => LockError::Lost(body.to_string()),
        Some("no-leader" | "outcome-unknown") => LockError::Unreachable(body.to_string()),
        Some(_) | None => LockError::Rejected(body.to_string()),
    }
}

impl From<reqwest::Error> for LockError {
    fn from(error: reqwest::Error) -> Self {
        Self::Unreachable(error.without_url().to_string())
    }
}

impl Adapter for HoldfastHttp {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let (session, ttl_ms) = (&self.session, self.ttl.as_millis());
        let mut url = format!("{}/{lock}?session={session}&ttl={ttl_ms}ms", self.locks_url);
        if !timeout.is_zero() {
            url = format!("{url}&wait={}ms", timeout.as_millis().max(1));
        }
        let since = Instant::now();
        let body = self.send(self.http.put(url), timeout + TIMEOUT).await?;
        let token = body.get("token").and_then(Value::as_u64);
        let token = token.ok_or_else(|| LockError::Rejected(format!("no token in {body}")))?;
        let millis = |field| body.get(field).and_then(Value::as_u64).map(Duration::from_millis);
        let (waited, expires_in) = (millis("waited_ms"), millis("expires_in_ms"));
        // The time counts from the sending, so the client stops before the server grants the lock to another client.
        let certain = waited.unwrap_or_default() + expires_in.unwrap_or_default();
        Ok(HeldLock::new(lock, &*self.session).with_token(token).for_ttl(since, certain))
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let url = format!("{}/{}?session={}", self.locks_url, held.lock, held.owner);
        self.send(self.http.delete(url), TIMEOUT).await.map(drop)
    }

    fn usage(&self) -> LoadUsage {
        self.counter.usage()
    }
}
