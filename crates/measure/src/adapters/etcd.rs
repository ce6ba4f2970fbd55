//! etcd's lock service, over the HTTP gateway of a node.
//!
//! Each client has a lease, renewed by one task, and uses `lock` and `unlock`. The token is the store's revision at
//! the grant, which only grows. etcd's documents use the lease's number, which is not ordered. The gateway adds JSON
//! and HTTP to each call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::limitation::Limitation::{ExpiresUnderHolder, OutlivesItsWork};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockClient, LockError, LockKind, UsageCounter};

pub const LOCK: LockKind = LockKind {
    name: "etcd-lock",
    limitations: &[ExpiresUnderHolder, OutlivesItsWork],
    connect: |target| {
        Box::pin(async move {
            let client = EtcdLock::open(target.node()?, target.settings.ttl).await?;
            Ok(Box::new(client) as Box<dyn LockClient>)
        })
    },
};

/// The timeout of all calls except `lock`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum timeout of `lock`: etcd has no attempt without a wait.
const LOCK_TIMEOUT_MIN: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
struct Gateway {
    http: reqwest::Client,
    url: String,
    counter: Arc<UsageCounter>,
}

impl Gateway {
    async fn call(&self, path: &str, body: &Value, timeout: Duration) -> Result<Value, LockError> {
        self.counter.round_trip();
        let request = self.http.post(format!("{}{path}", self.url)).json(body).timeout(timeout);
        let response = request.send().await?;
        let is_success = response.status().is_success();
        let reply: Value = response.json().await?;
        let error = || reply.get("error").unwrap_or(&reply).to_string();
        if is_success { Ok(reply) } else { Err(LockError::Rejected(error())) }
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<EtcdLease, LockError> {
        let body = json!({ "TTL": ttl.as_secs().max(1) });
        let id = text(&self.call("/v3/lease/grant", &body, TIMEOUT).await?, "ID")?;
        let (gateway, lease) = (self.clone(), id.clone());
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ttl / 3).await;
                // The task repeats a renewal without a reply; the lease expires by itself.
                drop(gateway.call("/v3/lease/keepalive", &json!({ "ID": lease }), TIMEOUT).await);
            }
        });
        Ok(EtcdLease { id, renewal: task.abort_handle() })
    }
}

#[derive(Debug)]
struct EtcdLease {
    id: String,
    renewal: AbortHandle,
}

impl Drop for EtcdLease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

#[derive(Debug)]
pub struct EtcdLock {
    gateway: Gateway,
    lease: EtcdLease,
    ttl: Duration,
}

impl EtcdLock {
    /// Opens a client; `ttl` is rounded down to whole seconds.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if the node does not reply.
    pub async fn open(node: SocketAddr, ttl: Duration) -> Result<Self, LockError> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        let gateway = Gateway { http, url: format!("http://{node}"), counter: Arc::default() };
        let lease = gateway.grant_lease(ttl).await?;
        Ok(Self { gateway, lease, ttl })
    }

    /// Stops the renewals and keeps the lock, like a paused process.
    pub fn freeze(&self) {
        self.lease.renewal.abort();
    }

    /// Revokes the lease, and with it the queue position, and grants a new lease.
    async fn replace_lease(&mut self) -> Result<(), LockError> {
        let body = json!({ "ID": self.lease.id });
        self.gateway.call("/v3/lease/revoke", &body, TIMEOUT).await?;
        self.lease = self.gateway.grant_lease(self.ttl).await?;
        Ok(())
    }
}

impl Adapter for EtcdLock {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let body = json!({ "name": STANDARD.encode(lock), "lease": self.lease.id });
        let timeout = timeout.max(LOCK_TIMEOUT_MIN);
        let reply = match self.gateway.call("/v3/lock/lock", &body, timeout).await {
            Ok(reply) => reply,
            Err(error) => {
                self.replace_lease().await?;
                let timed_out = matches!(error, LockError::Unreachable(_));
                return Err(if timed_out { LockError::Busy } else { error });
            }
        };
        let revision = reply.get("header").map(|header| text(header, "revision"));
        let token = revision.and_then(Result::ok).and_then(|revision| revision.parse().ok());
        Ok(HeldLock { token, ..HeldLock::new(lock, text(&reply, "key")?) })
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let body = json!({ "key": held.owner });
        self.gateway.call("/v3/lock/unlock", &body, TIMEOUT).await.map(drop)
    }

    fn usage(&self) -> LoadUsage {
        self.gateway.counter.usage()
    }
}

fn text(reply: &Value, field: &str) -> Result<String, LockError> {
    let found = reply.get(field).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| LockError::Rejected(format!("a reply without {field}: {reply}")))
}
