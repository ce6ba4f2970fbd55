//! Writers that add one to the same value, again and again: a growing number of them under each system.
//!
//! An optimistic writer reads, and writes if no other writer was faster; otherwise it repeats both. A writer under a lock
//! waits for its turn, and then reads and writes a row in PostgreSQL.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::adapters::sql::{Database, OptimisticRow, SqlConnection, create_tables};
use crate::catalogue::System;
use crate::lock::{
    Connector, HeldLock, LoadUsage, LockClient, LockError, LockFuture, LockSettings, nonce,
};
use crate::progress::Progress;
use crate::record::{RunSize, Writers};
use crate::servers::{LazyGroup, ServerKind, url};
use crate::statistics::quantile;
use crate::workload::kinds;
use crate::{Records, Row, Settings};

/// The longest wait for a turn.
const WAIT: Duration = Duration::from_mins(1);
/// The time before each window, not counted.
const WARM_UP: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritersPlan {
    writers: Vec<u32>,
    window: Duration,
}

impl WritersPlan {
    pub fn of(settings: &Settings) -> Self {
        let (writers, window_ms) = match settings.size {
            RunSize::Full => (vec![1, 2, 4, 8, 16, 32, 64], 2_000),
            RunSize::Quick => (vec![1, 4, 16, 64], 1_000),
            RunSize::Tiny => (vec![1, 4], 200),
        };
        let writers = if settings.clients.is_empty() { writers } else { settings.clients.clone() };
        let window = settings.seconds.map(Duration::from_secs_f64);
        Self { writers, window: window.unwrap_or(Duration::from_millis(window_ms)) }
    }

    /// Describes the plan for the report, as names and values.
    pub fn describe(&self) -> Vec<(String, String)> {
        let writers: Vec<String> = self.writers.iter().map(u32::to_string).collect();
        let window = format!("{} s", self.window.as_secs_f64());
        vec![("writers".to_owned(), writers.join(", ")), ("window".to_owned(), window)]
    }
}

/// Measures and records every system; returns the rows.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<Vec<Row>, String> {
    let plan = WritersPlan::of(settings);
    let cases = plan.writers.len() * settings.systems.len();
    progress.add_steps(u64::try_from(cases).unwrap_or(0));
    let (mut rows, mut measured) = (LazyGroup::new(ServerKind::Postgres), Vec::new());
    for kind in kinds(&settings.systems, 1) {
        let mut servers = LazyGroup::new(kind).with_redis(&settings.redis);
        for system in settings.systems.iter().filter(|system| system.kind == kind) {
            for writers in plan.writers.iter().copied() {
                progress.step(&format!("writers: {}, {writers}", system.name));
                let row = row(&mut servers, &mut rows, system, (writers, plan.window), settings);
                let row = row.await;
                progress.note_failure(system.name, row.failure.as_deref());
                let row = Row::Writers(row);
                records.append(&row).map_err(|error| error.to_string())?;
                measured.push(row);
                progress.done();
            }
        }
    }
    Ok(measured)
}

async fn row(
    servers: &mut LazyGroup,
    rows: &mut LazyGroup,
    system: &System,
    (writers, window): (u32, Duration),
    settings: &Settings,
) -> Writers {
    let measured = async {
        let group = servers.get(&settings.directory).await?;
        let connector = group.connector(system, LockSettings::default()).await?;
        let connector = match system.kind {
            _ if system.is_optimistic() => connector,
            ServerKind::Postgres => with_row(connector, &group.addresses.nodes).await?,
            ServerKind::Redis
            | ServerKind::RedisSynced
            | ServerKind::MariaDb
            | ServerKind::ZooKeeper
            | ServerKind::Etcd
            | ServerKind::Holdfast => {
                let group = rows.get(&settings.directory).await?;
                with_row(connector, &group.addresses.nodes).await?
            }
        };
        measure(&connector, writers, window).await
    };
    let measured = measured.await;
    let crashed = servers.crashed().or_else(|| rows.crashed());
    let row =
        measured.unwrap_or_else(|error| Writers { failure: Some(error), ..Writers::default() });
    let failure = crashed.or(row.failure);
    Writers { system: system.name.to_owned(), writers, failure, ..row }
}

/// Opens clients of a lock that change a row of this PostgreSQL while they hold the lock.
async fn with_row(lock: Connector, nodes: &[std::net::SocketAddr]) -> Result<Connector, String> {
    let node = nodes.first().ok_or("there is no PostgreSQL")?;
    let url = url(ServerKind::Postgres, *node);
    create_tables(Database::Postgres, &url).await.map_err(text)?;
    let name = format!("writers-{}", nonce());
    Ok(Connector::new(move |_| {
        let (lock, url, name) = (lock.clone(), url.clone(), name.clone());
        Box::pin(async move {
            let connection = SqlConnection::open(Database::Postgres, &url).await?;
            let row = OptimisticRow::open(connection, &name).await?;
            let lock = lock.client().await?;
            Ok(Box::new(LockedWriter { lock, row }) as Box<dyn LockClient>)
        })
    }))
}

/// A writer that changes a row while it holds a lock.
struct LockedWriter {
    lock: Box<dyn LockClient>,
    row: OptimisticRow,
}

impl LockedWriter {
    /// Changes the row once, and releases the lock also without a change.
    async fn change(&mut self, held: HeldLock) -> Result<(), LockError> {
        let read = self.row.read().await?;
        let is_written = self.row.write_if_version(read, read.value + 1).await?;
        self.lock.release(held).await?;
        let lost = || LockError::Lost("another writer has changed the row".to_owned());
        is_written.then_some(()).ok_or_else(lost)
    }
}

impl LockClient for LockedWriter {
    fn acquire<'a>(&'a mut self, lock: &'a str, timeout: Duration) -> LockFuture<'a, HeldLock> {
        self.lock.acquire(lock, timeout)
    }

    fn release(&mut self, held: HeldLock) -> LockFuture<'_, ()> {
        Box::pin(self.change(held))
    }

    fn usage(&self) -> LoadUsage {
        self.lock.usage()
    }
}

/// The attempts of one writer that ended in the window.
#[derive(Default)]
struct WriterCounts {
    /// The time of each change, milliseconds.
    times_ms: Vec<f64>,
    in_vain: u64,
}

/// Lets so many writers change one value; the row has no name yet.
pub async fn measure(
    connector: &Connector,
    writers: u32,
    window: Duration,
) -> Result<Writers, String> {
    let mut clients = Vec::new();
    for _ in 0..writers {
        clients.push(connector.client().await.map_err(text)?);
    }
    let name = format!("compare-{}", nonce());
    let from = Instant::now() + WARM_UP;
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn(write(client, name.clone(), from, from + window));
    }
    let mut all = WriterCounts::default();
    while let Some(counts) = running.join_next().await {
        let counts = counts.map_err(text)?.map_err(text)?;
        all.times_ms.extend(counts.times_ms);
        all.in_vain += counts.in_vain;
    }
    Ok(Writers {
        seconds: window.as_secs_f64(),
        changes: u64::try_from(all.times_ms.len()).unwrap_or(u64::MAX),
        in_vain: all.in_vain,
        p50_ms: quantile(&all.times_ms, 0.5),
        p99_ms: quantile(&all.times_ms, 0.99),
        ..Writers::default()
    })
}

async fn write(
    mut client: Box<dyn LockClient>,
    value: String,
    from: Instant,
    until: Instant,
) -> Result<WriterCounts, LockError> {
    let (mut counts, mut began) = (WriterCounts::default(), Instant::now());
    while Instant::now() < until {
        let held = client.acquire(&value, WAIT).await?;
        let is_changed = match client.release(held).await {
            Ok(()) => true,
            Err(LockError::Lost(_)) => false,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let counts_now = (from..until).contains(&now);
        if is_changed {
            if counts_now {
                counts.times_ms.push((now - began).as_secs_f64() * 1_000.0);
            }
            began = now;
        } else {
            counts.in_vain += u64::from(counts_now);
        }
    }
    Ok(counts)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
