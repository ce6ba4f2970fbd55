//! The actors of the plays: HTTP callers of holdfast, clients of other locks, and the servers of both.
//!
//! A caller logs each call with its outcome. Its name is its session.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use redis::cmd;
use reqwest::Method;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::{PlayLog, StepKind, directory};
use crate::adapters::redis::RedisConnection;
use crate::adapters::sql::{Database, OptimisticRow, SqlConnection, create_tables};
use crate::lock::{HeldLock, LockClient, LockError};
use crate::safety::{FaultCluster, Participant, SaleDatabase};
use crate::servers::{ServerKind, tied_to_parent, url};
use crate::wait::poll_until;

/// The maximum time for a reply, in addition to its wait for a lock.
const TIMEOUT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);
/// The lock of most plays.
pub(super) const LOCK: &str = "orders";

/// Starts the servers of a lock, waits until each has granted one, and sets the log's time to zero.
pub(super) async fn servers(log: &PlayLog, lock: &str) -> Result<FaultCluster, String> {
    servers_with_ttl(log, lock, Duration::from_secs(30)).await
}

pub(super) async fn servers_with_ttl(
    log: &PlayLog,
    lock: &str,
    ttl: Duration,
) -> Result<FaultCluster, String> {
    let participant = Participant::named(lock).ok_or_else(|| format!("no lock {lock}"))?;
    let cluster = FaultCluster::start(participant, &directory(), ttl).await?;
    log.begin();
    Ok(cluster)
}

/// Starts three nodes of holdfast.
pub(super) async fn holdfast(log: &PlayLog) -> Result<FaultCluster, String> {
    servers(log, "holdfast-http").await
}

/// Opens a client of the lock of these servers.
pub(super) async fn client(
    log: &PlayLog,
    cluster: &FaultCluster,
    name: &'static str,
) -> Result<PlayClient, String> {
    let client = cluster.client().await.map_err(|error| format!("{name}: {error}"))?;
    Ok(PlayClient { log: log.clone(), name, client })
}

/// A client of any lock of the catalogue.
pub(super) struct PlayClient {
    log: PlayLog,
    name: &'static str,
    client: Box<dyn LockClient>,
}

impl PlayClient {
    /// Acquires [`LOCK`]; `None` if another client still holds it after `wait`.
    pub(super) async fn acquire(&mut self, wait: Duration) -> Result<Option<HeldLock>, String> {
        self.acquire_named(LOCK, wait).await
    }

    pub(super) async fn acquire_named(
        &mut self,
        lock: &str,
        wait: Duration,
    ) -> Result<Option<HeldLock>, String> {
        match self.client.acquire(lock, wait).await {
            Ok(held) => {
                self.log.holds(self.name, held.token, format!("acquires {lock}"));
                Ok(Some(held))
            }
            Err(LockError::Busy) => {
                let text = format!("acquires {lock}: another client holds it");
                self.log.outcome(self.name, false, text);
                Ok(None)
            }
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// Releases a hold; returns `false` if the server replies that it was lost.
    pub(super) async fn release(&mut self, held: HeldLock) -> Result<bool, String> {
        let lock = held.lock.clone();
        match self.client.release(held).await {
            Ok(()) => {
                self.log.ends(self.name, format!("releases {lock}"));
                Ok(true)
            }
            Err(LockError::Lost(why)) => {
                self.log.outcome(self.name, false, format!("releases {lock}: {why}"));
                self.log.ends(self.name, "learns that it does not hold the lock");
                Ok(false)
            }
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }
}

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

/// Opens a connection to the first Redis.
pub(super) async fn redis(cluster: &FaultCluster) -> Result<RedisConnection, String> {
    let node = cluster.addresses().nodes.first().copied().ok_or("there is no server")?;
    let opened = RedisConnection::open(&url(ServerKind::Redis, node)).await;
    opened.map_err(|error| error.to_string())
}

/// Returns `true` if a client still believes, by its own clock, that it holds its lock.
pub(super) fn is_assumed(held: Option<&HeldLock>) -> bool {
    held.is_some_and(HeldLock::is_presumed_held)
}

/// Starts a PostgreSQL for optimistic rows, and sets the log's time to zero.
pub(super) async fn row_database(log: &PlayLog) -> Result<SaleDatabase, String> {
    let database = SaleDatabase::start(&directory()).await?;
    let created = create_tables(Database::Postgres, &database.url()).await;
    created.map_err(|error| error.to_string())?;
    log.begin();
    Ok(database)
}

/// Opens a row on a connection of its own.
pub(super) async fn row(database: &SaleDatabase, name: &str) -> Result<OptimisticRow, String> {
    let failed = |error: LockError| error.to_string();
    let opened = SqlConnection::open(Database::Postgres, &database.url()).await;
    OptimisticRow::open(opened.map_err(failed)?, name).await.map_err(failed)
}

/// Waits until so many clients stand in the list of Redisson's fair lock.
pub(super) async fn until_queued(cluster: &FaultCluster, count: usize) -> Result<(), String> {
    let connection = redis(cluster).await?;
    let key = crate::adapters::redis::redisson::fair::queue(LOCK);
    let is_count = poll_until(TIMEOUT, STEP, async || {
        connection.query::<usize>(cmd("LLEN").arg(&key)).await == Ok(count)
    });
    if is_count.await { Ok(()) } else { Err("a client does not get into the queue".to_owned()) }
}

/// Acquires a lock over this URL, and ends with the reply: a process that a play can kill.
pub async fn acquire_once(url: &str) -> Result<(), String> {
    let client =
        reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())?;
    client.put(url).send().await.map(drop).map_err(|error| error.to_string())
}

/// Opens a client at a node that may still elect a leader.
pub(super) async fn reconnected(
    log: &PlayLog,
    cluster: &FaultCluster,
    name: &'static str,
    node: usize,
) -> Result<PlayClient, String> {
    let mut opened = None;
    poll_until(TIMEOUT, STEP, async || {
        opened = cluster.client_at(node).await.ok();
        opened.is_some()
    })
    .await;
    let client = opened.ok_or_else(|| format!("{name} does not get a connection"))?;
    Ok(PlayClient { log: log.clone(), name, client })
}
