//! etcd's own lock service, by the HTTP gateway that each node has.
//!
//! Owns the calls: a lease for each client, kept alive by a task, `lock` and `unlock`. The answer to `lock` carries the store's
//! revision at the grant, which only grows: that is the fence. What etcd's own documents use instead, the lease's number, is not
//! ordered. Through the gateway a call costs JSON and HTTP; that is said in reports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::lock::UsageCounter;
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, System};

/// How long any call but `lock` may take.
const CALL: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(30);

/// The lock service on these nodes.
#[derive(Debug)]
pub struct EtcdSystem {
    nodes: Vec<SocketAddr>,
    ttl: Duration,
    next: AtomicUsize,
}

impl EtcdSystem {
    /// On these nodes, with leases of 30 s.
    pub fn new(nodes: Vec<SocketAddr>) -> Self {
        Self { nodes, ttl: TTL, next: AtomicUsize::new(0) }
    }

    /// With leases of another length, whole seconds.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// A client at the next node.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if it does not answer.
    pub async fn open(&self) -> Result<Etcd, LockError> {
        let at = self.next.fetch_add(1, Relaxed) % self.nodes.len().max(1);
        let node = self.nodes.get(at).ok_or_else(|| LockError::Refused("no nodes".to_owned()))?;
        Etcd::open(*node, self.ttl).await
    }
}

impl System for EtcdSystem {
    fn name(&self) -> &'static str {
        "etcd-lock"
    }

    fn limitations(&self) -> &'static [Limitation] {
        Etcd::LIMITATIONS
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async move { Ok(Box::new(self.open().await?) as Box<dyn LockClient>) })
    }
}

#[derive(Clone, Debug)]
struct Gateway {
    http: reqwest::Client,
    base: String,
    counter: Arc<UsageCounter>,
}

impl Gateway {
    /// One call; `None` of time is as long as it takes.
    async fn call(&self, path: &str, body: &Value, time: Duration) -> Result<Value, LockError> {
        self.counter.round_trip();
        let request = self.http.post(format!("{}{path}", self.base)).json(body).timeout(time);
        let answer = request.send().await.map_err(trouble)?;
        let done = answer.status().is_success();
        let said: Value = answer.json().await.map_err(trouble)?;
        if done { Ok(said) } else { Err(refusal(&said)) }
    }
}

/// A client of the lock service.
#[derive(Debug)]
pub struct Etcd {
    gateway: Gateway,
    lease: String,
    ttl: Duration,
    alive: AbortHandle,
}

impl Etcd {
    /// What it is documented not to do.
    pub const LIMITATIONS: &[Limitation] =
        &[Limitation::ExpiresUnderHolder, Limitation::OutlivesItsWork];

    async fn open(node: SocketAddr, ttl: Duration) -> Result<Self, LockError> {
        let http = reqwest::Client::builder().no_proxy().build().map_err(trouble)?;
        let gateway = Gateway { http, base: format!("http://{node}"), counter: Arc::default() };
        let lease = grant(&gateway, ttl).await?;
        let alive = keep_alive(gateway.clone(), lease.clone(), ttl);
        Ok(Self { gateway, lease, ttl, alive })
    }

    /// Stops the keep-alive while the hold stays, as a process does that stands still.
    pub fn freeze(&self) {
        self.alive.abort();
    }

    /// A lease that waited in vain is given up, and its place in the queue with it.
    async fn renew(&mut self) -> Result<(), LockError> {
        self.alive.abort();
        self.gateway.call("/v3/lease/revoke", &json!({ "ID": self.lease }), CALL).await?;
        self.lease = grant(&self.gateway, self.ttl).await?;
        self.alive = keep_alive(self.gateway.clone(), self.lease.clone(), self.ttl);
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.alive.abort();
    }
}

async fn grant(gateway: &Gateway, ttl: Duration) -> Result<String, LockError> {
    let said =
        gateway.call("/v3/lease/grant", &json!({ "TTL": ttl.as_secs().max(1) }), CALL).await?;
    text(&said, "ID")
}

fn keep_alive(gateway: Gateway, lease: String, ttl: Duration) -> AbortHandle {
    let task = tokio::spawn(async move {
        loop {
            tokio::time::sleep(ttl / 3).await;
            // Without an answer it is tried again; the lease ends by itself.
            drop(gateway.call("/v3/lease/keepalive", &json!({ "ID": lease }), CALL).await);
        }
    });
    task.abort_handle()
}

impl LockClient for Etcd {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let body = json!({ "name": STANDARD.encode(lock), "lease": self.lease });
            // Some time for the call itself: etcd has no attempt that does not wait.
            let time = patience.max(Duration::from_millis(500));
            let said = match self.gateway.call("/v3/lock/lock", &body, time).await {
                Ok(said) => said,
                Err(trouble) => {
                    self.renew().await?;
                    let in_vain = matches!(trouble, LockError::Unreachable(_));
                    return Err(if in_vain { LockError::Busy } else { trouble });
                }
            };
            let revision = said.get("header").map(|header| text(header, "revision"));
            let fence = revision.and_then(Result::ok).and_then(|revision| revision.parse().ok());
            Ok(Hold { fence, ..Hold::new(lock, text(&said, "key")?) })
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let body = json!({ "key": hold.proof });
            self.gateway.call("/v3/lock/unlock", &body, CALL).await.map(drop)
        })
    }

    fn usage(&self) -> LockUsage {
        self.gateway.counter.usage()
    }
}

fn text(said: &Value, field: &str) -> Result<String, LockError> {
    let found = said.get(field).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| LockError::Refused(format!("an answer without {field}: {said}")))
}

fn trouble(error: reqwest::Error) -> LockError {
    LockError::Unreachable(error.without_url().to_string())
}

fn refusal(said: &Value) -> LockError {
    LockError::Refused(said.get("error").map_or_else(|| said.to_string(), ToString::to_string))
}
