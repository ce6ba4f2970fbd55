//! Programs that call holdfast over HTTP, as `curl` does. A caller logs each call with its outcome.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::{PlayLog, StepKind};
use crate::safety::FaultCluster;
use crate::servers::tied_to_parent;
use crate::wait::poll_until;

/// The maximum time for a reply, in addition to its wait for a lock, and for a change that a caller waits for.
const TIMEOUT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// A program that calls holdfast over HTTP, as `curl` does. Clones are the same program on several connections.
#[derive(Clone, Debug)]
pub(super) struct HttpCaller {
    log: PlayLog,
    http: reqwest::Client,
    pub(super) name: String,
    node: SocketAddr,
}

/// The reply to a call.
#[derive(Clone, Debug)]
pub(super) struct CallReply {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl CallReply {
    pub(super) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.body.get(field).and_then(Value::as_u64)
    }

    pub(super) fn token(&self) -> Option<u64> {
        self.number("token")
    }

    /// A text field; empty without the field.
    pub(super) fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// The code of an error; empty without an error.
    pub(super) fn code(&self) -> &str {
        self.text("code")
    }

    /// The sessions of a list of holders or waiters.
    pub(super) fn sessions(&self, list: &str) -> Vec<String> {
        let entries = self.body.get(list).and_then(Value::as_array).into_iter().flatten();
        let session = |entry: &Value| Some(entry.get("session")?.as_str()?.to_owned());
        entries.filter_map(session).collect()
    }
}

impl HttpCaller {
    /// Creates a caller that uses this node (from 0).
    pub(super) fn new(
        log: &PlayLog,
        cluster: &FaultCluster,
        name: &str,
        node: usize,
    ) -> Result<Self, String> {
        let node = cluster.addresses().nodes.get(node).copied().ok_or("there is no such node")?;
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|error| error.to_string())?;
        Ok(Self { log: log.clone(), http, name: name.to_owned(), node })
    }

    /// Returns the same program with another node.
    pub(super) fn at(&self, cluster: &FaultCluster, node: usize) -> Result<Self, String> {
        Self::new(&self.log, cluster, &self.name, node)
    }

    /// Returns another program at the same node.
    pub(super) fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// Calls without a line in the log.
    pub(super) async fn call(&self, method: Method, path: &str) -> Result<CallReply, String> {
        self.send(self.http.request(method, self.url(path))).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v1/{path}", self.node)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<CallReply, String> {
        let sent = request.timeout(TIMEOUT).send().await;
        let failed = |error: reqwest::Error| format!("{}: {}", self.name, error.without_url());
        let response = sent.map_err(failed)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(failed)?;
        Ok(CallReply { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }

    /// Acquires a lock. `query` has the parameters except the session.
    pub(super) async fn acquire(&self, lock: &str, query: &str) -> Result<CallReply, String> {
        let path = format!("locks/{lock}?session={}&{query}", self.name);
        let reply = self.call(Method::PUT, &path).await?;
        let call = format!("PUT {lock} {}", query.replace('&', " "));
        if reply.is_ok() {
            self.log.holds(&self.name, reply.token(), call);
        } else {
            self.rejected(&call, &reply);
        }
        Ok(reply)
    }

    /// Acquires a lock in the background, and returns when the caller waits in its queue.
    pub(super) async fn queue(&self, lock: &str, query: &str) -> Result<WaitingCall, String> {
        let (caller, owned, call) = (self.clone(), lock.to_owned(), query.to_owned());
        let waiting = tokio::spawn(async move { caller.acquire(&owned, &call).await });
        let is_queued = poll_until(TIMEOUT, STEP, async || {
            let seen = self.read(lock).await;
            seen.is_ok_and(|lock| lock.sessions("queue").contains(&self.name))
        });
        if !is_queued.await {
            return Err(format!("{} does not get into the queue", self.name));
        }
        self.log.waits(&self.name, format!("PUT {lock} {}: waits", query.replace('&', " ")));
        Ok(waiting)
    }

    /// Releases a lock, or leaves its queue. `query` has the parameters except the session.
    pub(super) async fn release(&self, lock: &str, query: &str) -> Result<CallReply, String> {
        // The next holder's grant may arrive before the reply.
        self.log.ends(&self.name, format!("DELETE {lock} {query}"));
        self.delete(lock, query).await
    }

    /// Releases one of several attempts: the caller still holds the lock.
    pub(super) async fn release_attempt(
        &self,
        lock: &str,
        query: &str,
    ) -> Result<CallReply, String> {
        self.log.note(&self.name, format!("DELETE {lock} {query}: one attempt is left"));
        self.delete(lock, query).await
    }

    async fn delete(&self, lock: &str, query: &str) -> Result<CallReply, String> {
        let path = format!("locks/{lock}?session={}&{query}", self.name);
        let reply = self.call(Method::DELETE, &path).await?;
        if !reply.is_ok() {
            self.rejected(&format!("DELETE {lock} {query}"), &reply);
        }
        Ok(reply)
    }

    /// Starts a process that waits in a lock's queue, and returns when it does.
    pub(super) async fn queued_process(
        &self,
        lock: &str,
        name: &str,
        query: &str,
    ) -> Result<Child, String> {
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let before = self.read(lock).await?.number("waiters").unwrap_or(0);
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::from(tied_to_parent(&program, Signal::SIGKILL));
        command.args(["acquire", &format!("http://{}/v1/locks/{lock}?{query}", self.node)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.kill_on_drop(true).spawn().map_err(failed)?;
        self.until_waiters(lock, before + 1).await?;
        self.log.waits(name, format!("PUT {lock} {}: waits", query.replace('&', " ")));
        Ok(process)
    }

    /// Waits until so many callers wait for a lock; returns `true` if they do.
    pub(super) async fn until_waiters(&self, lock: &str, count: u64) -> Result<bool, String> {
        let is_count = poll_until(TIMEOUT, STEP, async || {
            let seen = self.read(lock).await;
            seen.is_ok_and(|lock| lock.number("waiters") == Some(count))
        });
        Ok(is_count.await)
    }

    /// Replaces the data of a znode, only if it has this version.
    pub(super) async fn write(
        &self,
        path: &str,
        version: Option<u64>,
        data: &str,
    ) -> Result<CallReply, String> {
        let request = self.http.put(self.url(path)).body(data.to_owned());
        let request = match version {
            Some(version) => request.header("If-Match", format!("\"{version}\"")),
            None => request,
        };
        self.send(request).await
    }

    /// Reads a lock, without a line in the log.
    pub(super) async fn read(&self, lock: &str) -> Result<CallReply, String> {
        self.call(Method::GET, &format!("locks/{lock}")).await
    }

    fn rejected(&self, call: &str, reply: &CallReply) {
        let text = format!("{call}: {} {}", reply.status, reply.code());
        self.log.step(StepKind::Rejected, &self.name, None, text);
    }
}

pub(super) type WaitingCall = JoinHandle<Result<CallReply, String>>;

/// Returns the reply of a call that waited.
pub(super) async fn granted(waiting: WaitingCall) -> Result<CallReply, String> {
    waiting.await.map_err(|error| error.to_string())?
}

/// Repeats an acquire until a node grants it, as after a failover.
pub(super) async fn until_ok(
    caller: &HttpCaller,
    lock: &str,
    query: &str,
) -> Result<CallReply, String> {
    let path = format!("locks/{lock}?session={}&{query}", caller.name);
    poll_until(TIMEOUT, STEP, async || {
        caller.call(Method::PUT, &path).await.is_ok_and(|reply| reply.is_ok())
    })
    .await;
    caller.acquire(lock, query).await
}

/// Acquires a lock over this URL, and ends with the reply: a process that a play can kill.
pub async fn acquire_once(url: &str) -> Result<(), String> {
    let client =
        reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())?;
    client.put(url).send().await.map(drop).map_err(|error| error.to_string())
}
