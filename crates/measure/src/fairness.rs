//! Compares the order of enqueue with the order of grant.
//!
//! In a round one client holds the lock, waiters enqueue one after the other, the holder releases, and each waiter
//! releases soon after its grant. Most systems do not expose their queues, so the interval between two enqueues is
//! long enough for a certain order. A round ends at its deadline.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::catalogue::System;
use crate::lock::{Connector, LockClient, LockError, LockSettings, nonce};
use crate::progress::Progress;
use crate::record::{Fairness, RunSize};
use crate::servers::LazyGroup;
use crate::statistics::inversions;
use crate::workload::kinds;
use crate::{Records, Row, Settings};

const ROUND_TIMEOUT: Duration = Duration::from_secs(20);
/// The time for which a waiter holds the lock.
const HOLD: Duration = Duration::from_millis(2);
/// The number of waiters, except in a tiny run.
const WAITERS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairnessPlan {
    pub waiters: u32,
    /// The interval between two enqueues.
    pub interval: Duration,
    pub rounds: u32,
}

impl FairnessPlan {
    fn of(settings: &Settings) -> Self {
        let (waiters, interval_ms, rounds) = match settings.size {
            RunSize::Full => (WAITERS, 50, 5),
            RunSize::Quick => (WAITERS, 50, 2),
            RunSize::Tiny => (4, 20, 1),
        };
        let rounds = settings.repetitions.unwrap_or(rounds);
        Self { waiters, interval: Duration::from_millis(interval_ms), rounds }
    }
}

/// Measures and records every system.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let plan = FairnessPlan::of(settings);
    progress.add_steps(u64::try_from(settings.systems.len()).unwrap_or(0));
    for kind in kinds(&settings.systems, 1) {
        let mut servers = LazyGroup::new(kind).with_redis(&settings.redis);
        for system in settings.systems.iter().filter(|system| system.kind == kind) {
            progress.step(&format!("fairness: {}", system.name));
            let row = row(&mut servers, system, plan, settings).await;
            progress.note_failure(system.name, row.failure.as_deref());
            records.append(&Row::Fairness(row)).map_err(|error| error.to_string())?;
            progress.done();
        }
    }
    Ok(())
}

async fn row(
    servers: &mut LazyGroup,
    system: &System,
    plan: FairnessPlan,
    settings: &Settings,
) -> Fairness {
    let connector = match servers.get(&settings.directory).await {
        Ok(group) => group.connector(system, LockSettings::default()).await,
        Err(failure) => Err(failure),
    };
    let mut row = match connector {
        Ok(connector) => measure(&connector, plan).await,
        Err(failure) => Fairness { failure: Some(failure), ..empty(plan) },
    };
    system.name.clone_into(&mut row.system);
    row.failure = servers.crashed().or(row.failure);
    row
}

fn empty(plan: FairnessPlan) -> Fairness {
    Fairness {
        system: String::new(),
        waiters: plan.waiters,
        interval_ms: holdfast_types::millis(plan.interval),
        orders: Vec::new(),
        inversions: Vec::new(),
        longest_wait_ms: Vec::new(),
        drained_ms: Vec::new(),
        errors: BTreeMap::new(),
        failure: None,
    }
}

/// Measures all rounds of one system; the row has no name yet.
pub async fn measure(connector: &Connector, plan: FairnessPlan) -> Fairness {
    let mut row = empty(plan);
    for number in 1..=plan.rounds {
        let deadline = Instant::now() + ROUND_TIMEOUT;
        let late = |_| Err(format!("not done within {} s", ROUND_TIMEOUT.as_secs()));
        let done = timeout_at(deadline.into(), round(connector, plan, deadline)).await;
        match done.unwrap_or_else(late) {
            Ok(round) => round.add_to(&mut row),
            Err(failure) => {
                row.failure = Some(format!("round {number}: {failure}"));
                break;
            }
        }
    }
    row
}

struct FairnessGrant {
    waiter: u32,
    waited: Duration,
    at: Instant,
}

struct FairnessRound {
    released: Instant,
    /// The grants in order.
    granted: Vec<FairnessGrant>,
    errors: Vec<LockError>,
}

impl FairnessRound {
    fn add_to(&self, row: &mut Fairness) {
        let order: Vec<u32> = self.granted.iter().map(|granted| granted.waiter).collect();
        let ms = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1_000.0;
        row.inversions.push(inversions(&order));
        row.orders.push(order);
        row.longest_wait_ms.push(ms(self.granted.iter().map(|granted| granted.waited).max()));
        let after = |granted: &FairnessGrant| granted.at.saturating_duration_since(self.released);
        row.drained_ms.push(ms(self.granted.iter().map(after).max()));
        for error in &self.errors {
            *row.errors.entry(error.kind().to_owned()).or_default() += 1;
        }
    }
}

async fn round(
    connector: &Connector,
    plan: FairnessPlan,
    deadline: Instant,
) -> Result<FairnessRound, String> {
    let text = |error: LockError| error.to_string();
    let lock = format!("compare-{}", nonce());
    let mut holder = connector.client().await.map_err(text)?;
    let mut waiters = Vec::new();
    for _ in 0..plan.waiters {
        waiters.push(connector.client().await.map_err(text)?);
    }
    let held = holder.acquire(&lock, ROUND_TIMEOUT).await.map_err(text)?;
    let (sender, mut results) = mpsc::channel(waiters.len().max(1));
    // Dropping the set aborts the waiters at an early end of the round.
    let mut queue = JoinSet::new();
    for (waiter, client) in (0..).zip(waiters) {
        queue.spawn(wait(waiter, client, lock.clone(), deadline, sender.clone()));
        tokio::time::sleep(plan.interval).await;
    }
    drop(sender);
    let released = Instant::now();
    holder.release(held).await.map_err(text)?;
    let (mut granted, mut errors) = (Vec::new(), Vec::new());
    while let Some(result) = results.recv().await {
        match result {
            Ok(grant) => granted.push(grant),
            Err(error) => errors.push(error),
        }
    }
    Ok(FairnessRound { released, granted, errors })
}

/// Waits for the lock, and sends its grant while it holds the lock, so that the order of results is the order of
/// grants.
async fn wait(
    waiter: u32,
    mut client: Box<dyn LockClient>,
    lock: String,
    deadline: Instant,
    results: mpsc::Sender<Result<FairnessGrant, LockError>>,
) {
    let began = Instant::now();
    let held = client.acquire(&lock, deadline.saturating_duration_since(began)).await;
    let granted = FairnessGrant { waiter, waited: began.elapsed(), at: Instant::now() };
    match held {
        // The round may have ended.
        Err(error) => drop(results.send(Err(error)).await),
        Ok(held) => {
            drop(results.send(Ok(granted)).await);
            tokio::time::sleep(HOLD).await;
            // The next round uses another lock.
            drop(client.release(held).await);
        }
    }
}
