//! The clients of one case: opened beforehand, set to work, and brought home by a deadline.
//!
//! Owns the two loops and what a cycle is: take the lock, see whether somebody else believes to have it, give it back.
//! Bounds: one call under way a client; a case ends [`DRAIN`] after its window, whatever a lock does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::{LockClient, LockError, System, nonce};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::counts::Counts;
use super::plan::{Case, Plan};
use super::schedule::{Clock, Moment, Schedule};
use crate::record::{Load, Locks, Measured};

/// What a lock may take; longer than any case, so that the deadline ends it.
const PATIENCE: Duration = Duration::from_mins(1);
/// What clients are given to come home after the window.
const DRAIN: Duration = Duration::from_secs(5);
/// What all clients together are given to connect.
const OPEN: Duration = Duration::from_secs(30);
/// How many connect at once.
const OPENING_MAX: usize = 16;
/// How long a client rests after an error, so that an unreachable server does not spin the processor.
const REST: Duration = Duration::from_millis(10);

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const ENDING: u8 = 2;

/// What all clients share.
struct Shared {
    phase: AtomicU8,
    /// For each lock, whether somebody believes to have it.
    held: Vec<AtomicBool>,
    schedule: Option<Arc<Schedule>>,
}

impl Shared {
    fn is(&self, phase: u8) -> bool {
        self.phase.load(Ordering::Relaxed) == phase
    }
}

struct Client {
    client: Box<dyn LockClient>,
    shared: Arc<Shared>,
    /// Which of the locks.
    place: usize,
    lock: String,
    /// What is under way in the open loop.
    moment: Option<Moment>,
    counts: Counts,
}

/// Measures one case once. `processor_seconds` says what the servers have used so far.
///
/// # Errors
/// In words: clients could not connect.
pub async fn measure(
    system: &Arc<dyn System>,
    case: &Case,
    plan: &Plan,
    processor_seconds: impl Fn() -> Option<f64>,
) -> Result<Measured, String> {
    let clients = open(system, case.clients).await?;
    let begin = Instant::now();
    let schedule = match case.load {
        Load::Closed => None,
        Load::Open(rate) => Some(Arc::new(Schedule::new(begin, rate, plan.warmup, plan.window))),
    };
    let _clock = schedule.clone().map(|schedule| Clock::start(schedule, clients.len()));
    let locks = if case.locks == Locks::Hot { 1 } else { clients.len() };
    let shared = Arc::new(Shared {
        phase: AtomicU8::new(WARMING),
        held: (0..locks).map(|_| AtomicBool::new(false)).collect(),
        schedule,
    });
    let end = begin + plan.warmup + plan.window + DRAIN;
    let mut workers = start(clients, &shared, end)?;
    tokio::time::sleep_until((begin + plan.warmup).into()).await;
    let used = processor_seconds();
    let measuring = Instant::now();
    shared.phase.store(MEASURING, Ordering::SeqCst);
    // From here, not from the plan: on a busy machine the reading of the processor's time takes some of its own.
    tokio::time::sleep_until((measuring + plan.window).into()).await;
    shared.phase.store(ENDING, Ordering::SeqCst);
    let window = measuring.elapsed();
    let used = processor_seconds().zip(used).map(|(after, before)| after - before);
    let mut all = Counts::new()?;
    while let Some(counts) = workers.join_next().await {
        all.add(&counts.map_err(|error| error.to_string())?)?;
    }
    let mut scheduled = 0;
    if let Some(schedule) = &shared.schedule {
        scheduled = schedule.scheduled();
        let untaken = schedule.untaken().filter(|moment| moment.counts);
        untaken.for_each(|moment| all.gave_up(moment.intended.elapsed()));
    }
    Ok(all.measured(window, scheduled, used))
}

/// As many clients, or why not: a case with fewer would be another case.
async fn open(system: &Arc<dyn System>, clients: u32) -> Result<Vec<Box<dyn LockClient>>, String> {
    let deadline = Instant::now() + OPEN;
    let (mut opening, mut open) = (JoinSet::new(), Vec::new());
    let mut left = clients;
    loop {
        while left > 0 && opening.len() < OPENING_MAX {
            let system = Arc::clone(system);
            opening.spawn(async move { system.client().await });
            left -= 1;
        }
        let so_far = open.len();
        let failed =
            |why: String| format!("{so_far} of {clients} clients could connect, and then: {why}");
        let late = || failed(format!("no answer within {} s", OPEN.as_secs()));
        let opened = timeout_at(deadline.into(), opening.join_next()).await;
        let Some(opened) = opened.map_err(|_| late())? else { return Ok(open) };
        let opened = opened.map_err(|error| failed(error.to_string()))?;
        let opened = opened.map_err(|trouble| failed(trouble.to_string()))?;
        open.push(opened);
    }
}

/// Sets them to work on locks that nobody has used before.
fn start(
    clients: Vec<Box<dyn LockClient>>,
    shared: &Arc<Shared>,
    end: Instant,
) -> Result<JoinSet<Counts>, String> {
    let name = nonce().map_err(|trouble| trouble.to_string())?;
    let mut workers = JoinSet::new();
    for (at, client) in clients.into_iter().enumerate() {
        let place = at % shared.held.len().max(1);
        let client = Client {
            client,
            shared: Arc::clone(shared),
            place,
            lock: format!("compare-{name}-{place}"),
            moment: None,
            counts: Counts::new()?,
        };
        workers.spawn(client.work(end));
    }
    Ok(workers)
}

impl Client {
    async fn work(mut self, end: Instant) -> Counts {
        let schedule = self.shared.schedule.clone();
        let done = match &schedule {
            None => timeout_at(end.into(), self.closed_loop()).await,
            Some(schedule) => timeout_at(end.into(), self.open_loop(schedule)).await,
        };
        if done.is_err() {
            match self.moment.take() {
                Some(moment) if moment.counts => self.counts.gave_up(moment.intended.elapsed()),
                Some(_) => {}
                None if schedule.is_some() => {}
                None => self.counts.error("unfinished"),
            }
        }
        self.counts
    }

    /// The next cycle begins when the last has ended.
    async fn closed_loop(&mut self) {
        while !self.shared.is(ENDING) {
            let began = Instant::now();
            match self.cycle().await {
                Ok(()) if self.shared.is(MEASURING) => {
                    self.counts.cycle(began.elapsed());
                    self.counts.ended += 1;
                }
                Ok(()) => {}
                Err(trouble) => self.failed(&trouble).await,
            }
        }
    }

    /// The next cycle begins at its moment, or late, and is charged with the delay.
    async fn open_loop(&mut self, schedule: &Schedule) {
        while let Some(moment) = schedule.take().await {
            self.moment = Some(moment);
            let done = self.cycle().await;
            self.moment = None;
            match done {
                Ok(()) => {
                    self.counts.ended += u64::from(self.shared.is(MEASURING));
                    if moment.counts {
                        self.counts.cycle(moment.intended.elapsed());
                    }
                }
                Err(trouble) if moment.counts => self.failed(&trouble).await,
                Err(_) => tokio::time::sleep(REST).await,
            }
        }
    }

    async fn failed(&mut self, trouble: &LockError) {
        self.counts.error(trouble.kind());
        tokio::time::sleep(REST).await;
    }

    async fn cycle(&mut self) -> Result<(), LockError> {
        let before = self.client.usage();
        let hold = self.client.acquire(&self.lock, PATIENCE).await?;
        if self.shared.is(MEASURING) {
            self.counts.acquire(before, self.client.usage());
        }
        self.look_around().await;
        self.client.release(hold).await
    }

    /// Lets others run, if there are others, so that one who holds too is seen.
    async fn look_around(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(held) = shared.held.get(self.place) else { return };
        let before = held.swap(true, Ordering::SeqCst);
        self.counts.overlaps += u64::from(before);
        if shared.held.len() == 1 {
            tokio::task::yield_now().await;
        }
        held.store(false, Ordering::SeqCst);
    }
}
