//! The order of enqueue against the order of grant.
//!
//! Owns the round: somebody holds, contenders come one after the other, the holder leaves, and whoever is granted leaves
//! soon. What a queue looks like inside cannot be asked of most systems, so contenders come so far apart that the order
//! in which they asked is not in doubt. Bounds: a round ends at its deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{LockClient, LockError, System, nonce};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::catalogue::Listed;
use crate::progress::Progress;
use crate::record::{Fairness, Size};
use crate::servers::group::TTL;
use crate::statistics::inversions;
use crate::workload::{LazyServers, kinds};
use crate::{Records, Row, Settings};

/// How long a round may take.
const ROUND: Duration = Duration::from_secs(20);
/// How long whoever is granted holds.
const HELD: Duration = Duration::from_millis(2);
/// Contenders of a run that is not tiny.
const CONTENDERS: u32 = 16;

/// What is done to each system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// How many contenders.
    pub contenders: u32,
    /// Time between two of them.
    pub apart: Duration,
    /// How many rounds.
    pub rounds: u32,
}

impl Rounds {
    fn of(settings: &Settings) -> Self {
        let (contenders, apart_ms, rounds) = match settings.size {
            Size::Full => (CONTENDERS, 50, 5),
            Size::Quick => (CONTENDERS, 50, 2),
            Size::Tiny => (4, 20, 1),
        };
        let rounds = settings.repetitions.unwrap_or(rounds);
        Self { contenders, apart: Duration::from_millis(apart_ms), rounds }
    }
}

/// Measures every system of these settings, and records it.
///
/// # Errors
/// In words, if rows cannot be written; a system that cannot be measured is a row.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let rounds = Rounds::of(settings);
    progress.add_steps(u64::try_from(settings.systems.len()).unwrap_or(0));
    for kind in kinds(&settings.systems, 1) {
        let mut servers = LazyServers::closed(kind);
        for listed in settings.systems.iter().filter(|listed| listed.kind == kind) {
            progress.step(&format!("fairness: {}", listed.name));
            let row = measured(&mut servers, listed, rounds, settings).await;
            if let Some(trouble) = &row.trouble {
                progress.note(&format!("{}: {trouble}", listed.name));
            }
            records.append(&Row::Fairness(row)).map_err(|error| error.to_string())?;
            progress.done();
        }
    }
    Ok(())
}

async fn measured(
    servers: &mut LazyServers,
    listed: &Listed,
    rounds: Rounds,
    settings: &Settings,
) -> Fairness {
    let system = match servers.stage(&settings.directory).await {
        Ok(stage) => stage.system(listed, TTL).await,
        Err(why) => Err(why),
    };
    let mut row = match system {
        Ok(system) => measure(&system, rounds).await,
        Err(why) => Fairness { trouble: Some(why), ..empty(rounds) },
    };
    listed.name.clone_into(&mut row.system);
    row.trouble = servers.fallen().or(row.trouble);
    row
}

fn empty(rounds: Rounds) -> Fairness {
    Fairness {
        system: String::new(),
        contenders: rounds.contenders,
        apart_ms: u64::try_from(rounds.apart.as_millis()).unwrap_or(u64::MAX),
        orders: Vec::new(),
        inversions: Vec::new(),
        longest_wait_ms: Vec::new(),
        drained_ms: Vec::new(),
        errors: BTreeMap::new(),
        trouble: None,
    }
}

/// All rounds under one system; the row has no name yet.
pub async fn measure(system: &Arc<dyn System>, rounds: Rounds) -> Fairness {
    let mut row = empty(rounds);
    for number in 1..=rounds.rounds {
        match round(system, rounds).await {
            Ok(round) => round.write(&mut row),
            Err(why) => {
                row.trouble = Some(format!("round {number}: {why}"));
                break;
            }
        }
    }
    row
}

/// A grant, or why there was none.
struct Ended {
    contender: u32,
    waited: Duration,
    at: Instant,
    error: Option<LockError>,
}

/// What one round gave.
struct Round {
    /// In the order of grants.
    ended: Vec<Ended>,
    released: Instant,
}

impl Round {
    fn write(&self, row: &mut Fairness) {
        let granted = || self.ended.iter().filter(|ended| ended.error.is_none());
        let order: Vec<u32> = granted().map(|ended| ended.contender).collect();
        let ms = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1_000.0;
        row.inversions.push(inversions(&order));
        row.orders.push(order);
        row.longest_wait_ms.push(ms(granted().map(|ended| ended.waited).max()));
        let last = granted().map(|ended| ended.at.saturating_duration_since(self.released)).max();
        row.drained_ms.push(ms(last));
        for trouble in self.ended.iter().filter_map(|ended| ended.error.as_ref()) {
            *row.errors.entry(trouble.kind().to_owned()).or_default() += 1;
        }
    }
}

async fn round(system: &Arc<dyn System>, rounds: Rounds) -> Result<Round, String> {
    let deadline = Instant::now() + ROUND;
    let within = timeout_at(deadline.into(), play(system, rounds, deadline));
    within.await.map_err(|_| format!("not over within {} s", ROUND.as_secs()))?
}

async fn play(
    system: &Arc<dyn System>,
    rounds: Rounds,
    deadline: Instant,
) -> Result<Round, String> {
    let words = |trouble: LockError| trouble.to_string();
    let lock = format!("compare-{}", nonce().map_err(words)?);
    let mut holder = system.client().await.map_err(words)?;
    let mut contenders = Vec::new();
    for _ in 0..rounds.contenders {
        contenders.push(system.client().await.map_err(words)?);
    }
    let hold = holder.acquire(&lock, ROUND).await.map_err(words)?;
    let (tell, mut told) = mpsc::channel(contenders.len().max(1));
    // Aborted with the round, if that ends early.
    let mut queue = JoinSet::new();
    for (contender, client) in (0..).zip(contenders) {
        queue.spawn(contend(contender, client, lock.clone(), deadline, tell.clone()));
        tokio::time::sleep(rounds.apart).await;
    }
    drop(tell);
    let released = Instant::now();
    holder.release(hold).await.map_err(words)?;
    let mut ended = Vec::new();
    while let Some(one) = told.recv().await {
        ended.push(one);
    }
    Ok(Round { ended, released })
}

/// Asks, tells when it is granted, and leaves soon. Told while it holds, so that the order of words is that of grants.
async fn contend(
    contender: u32,
    mut client: Box<dyn LockClient>,
    lock: String,
    deadline: Instant,
    tell: mpsc::Sender<Ended>,
) {
    let began = Instant::now();
    let patience = deadline.saturating_duration_since(began);
    let granted = client.acquire(&lock, patience).await;
    let (at, waited) = (Instant::now(), began.elapsed());
    let (hold, error) = match granted {
        Ok(hold) => (Some(hold), None),
        Err(trouble) => (None, Some(trouble)),
    };
    // The round may be over.
    drop(tell.send(Ended { contender, waited, at, error }).await);
    if let Some(hold) = hold {
        tokio::time::sleep(HELD).await;
        // The next round has another lock.
        drop(client.release(hold).await);
    }
}
