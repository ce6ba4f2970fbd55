//! The actors of the plays: the servers, callers of holdfast, and clients of other locks, which log what they do.

use std::time::Duration;

use redis::cmd;

pub(super) use super::caller::{CallReply, HttpCaller, granted, until_ok};
use super::{PlayLog, directory};
use crate::adapters::redis::RedisConnection;
use crate::adapters::redis::redisson::fair;
use crate::adapters::sql::{Database, OptimisticRow, SqlConnection, create_tables};
use crate::lock::{HeldLock, LockClient, LockError};
use crate::safety::{FaultCluster, Participant, SaleDatabase};
use crate::servers::{ServerKind, url};
use crate::wait::poll_until;

/// The maximum time for a change that a play waits for.
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
    Ok(PlayClient::of(log, name, client))
}

/// A client of any lock of the catalogue.
pub(super) struct PlayClient {
    log: PlayLog,
    name: &'static str,
    client: Box<dyn LockClient>,
}

impl PlayClient {
    pub(super) fn of(log: &PlayLog, name: &'static str, client: Box<dyn LockClient>) -> Self {
        Self { log: log.clone(), name, client }
    }

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

/// Waits until the list of Redisson's fair lock has this many clients.
pub(super) async fn until_queued(cluster: &FaultCluster, count: usize) -> Result<(), String> {
    let connection = redis(cluster).await?;
    let key = fair::queue(LOCK);
    let is_count = poll_until(TIMEOUT, STEP, async || {
        connection.query::<usize>(cmd("LLEN").arg(&key)).await == Ok(count)
    });
    if is_count.await { Ok(()) } else { Err("a client does not get into the queue".to_owned()) }
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
    Ok(PlayClient::of(log, name, client))
}
