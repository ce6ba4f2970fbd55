//! Cycles of acquire and release by many clients in a closed loop.
//!
//! A cycle is one PUT that waits for the lock and one DELETE, timed from the first byte sent to the last byte of the
//! second answer. Every client has one connection, one session and one call under way; so the generator's queues are
//! its clients. A client whose connection breaks goes to the next endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use super::connection::Connection;
use super::judge::Judge;
use super::report::{LoadReport, histogram};
use super::requests::{Requests, error_kind, run_name};
use super::target::Target;
use crate::cli::{LoadArgs, Locks};
use crate::exit::Stop;

/// How long an acquire queues.
const WAIT: Duration = Duration::from_mins(1);
/// How long a client rests after an error, so that an unreachable cluster does not spin the processor.
const REST: Duration = Duration::from_millis(10);

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const ENDING: u8 = 2;

/// What all clients share.
struct Run {
    phase: AtomicU8,
    endpoints: Vec<String>,
    judges: Vec<Judge>,
}

/// What a client has counted.
#[derive(Debug)]
struct Counts {
    cycles: Histogram<u32>,
    errors: BTreeMap<String, u64>,
}

struct Client {
    run: Arc<Run>,
    requests: Arc<Requests>,
    judge: usize,
    /// The endpoint to connect to next.
    endpoint: usize,
    connection: Option<Connection>,
    /// Whether the next grant may be one that we have had already.
    repeated: bool,
    counts: Counts,
}

/// Measures and reports.
pub(super) async fn run(args: &LoadArgs) -> Result<(), Stop> {
    let target = Target::open(&args.addr).await.map_err(Stop::Failed)?;
    let result = measure(args, target.endpoints()).await;
    target.close().await;
    let report = result.map_err(Stop::Failed)?;
    report.print(args.output);
    report.verdict()
}

async fn measure(args: &LoadArgs, endpoints: Vec<String>) -> Result<LoadReport, String> {
    let locks = match args.locks {
        Locks::Spread => args.clients,
        Locks::Hot => 1,
    };
    let judges = (0..locks).map(|_| Judge::default()).collect();
    let run = Arc::new(Run { phase: AtomicU8::new(WARMING), endpoints, judges });
    let name = run_name();
    let mut clients = JoinSet::new();
    for (index, number) in (0..args.clients).zip(0_usize..) {
        let lock = match args.locks {
            Locks::Spread => number,
            Locks::Hot => 0,
        };
        let (lock_name, session) =
            (format!("bench/{name}/{lock}"), format!("bench-{name}-{index}"));
        let requests = Requests::new(&lock_name, &session, args.ttl, WAIT)
            .map_err(|error| error.to_string())?;
        let client = Client {
            endpoint: number % run.endpoints.len(),
            run: run.clone(),
            requests: Arc::new(requests),
            judge: lock,
            connection: None,
            repeated: false,
            counts: Counts { cycles: histogram()?, errors: BTreeMap::new() },
        };
        clients.spawn(client.run());
    }
    tokio::time::sleep(Duration::from_secs(args.warmup)).await;
    run.phase.store(MEASURING, Ordering::SeqCst);
    let began = Instant::now();
    show_progress(args.seconds).await;
    run.phase.store(ENDING, Ordering::SeqCst);
    let elapsed = began.elapsed();
    let mut total = Counts { cycles: histogram()?, errors: BTreeMap::new() };
    while let Some(counts) = clients.join_next().await {
        total.add(&counts.map_err(|error| error.to_string())?)?;
    }
    let violations = run.judges.iter().map(Judge::violations).sum();
    Ok(LoadReport::new(args, elapsed, &total.cycles, total.errors, violations))
}

/// Sleeps through the measurement, with a bar on stderr if that is a terminal.
async fn show_progress(seconds: u64) {
    let style = ProgressStyle::with_template("measuring {bar:40} {pos}/{len} s");
    let bar = ProgressBar::new(seconds);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
}

impl Counts {
    fn add(&mut self, other: &Self) -> Result<(), String> {
        self.cycles.add(&other.cycles).map_err(|error| error.to_string())?;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }
}

impl Client {
    async fn run(mut self) -> Counts {
        while self.run.phase.load(Ordering::Relaxed) != ENDING {
            let began = Instant::now();
            match self.cycle().await {
                Ok(()) if self.run.phase.load(Ordering::Relaxed) == MEASURING => {
                    let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    self.counts.cycles.saturating_record(micros);
                }
                Ok(()) => {}
                Err(kind) => {
                    *self.counts.errors.entry(kind).or_default() += 1;
                    tokio::time::sleep(REST).await;
                }
            }
        }
        self.close().await;
        self.counts
    }

    /// Takes the lock and gives it back.
    async fn cycle(&mut self) -> Result<(), String> {
        let (run, requests) = (self.run.clone(), self.requests.clone());
        let judge = &run.judges[self.judge];
        let repeated = std::mem::replace(&mut self.repeated, true);
        let token = self.call(&requests.acquire).await?.ok_or("a grant without a token")?;
        judge.granted(token, repeated);
        judge.releasing();
        self.call(&requests.release).await?;
        self.repeated = false;
        Ok(())
    }

    async fn call(&mut self, request: &[u8]) -> Result<Option<u64>, String> {
        if self.connection.is_none() {
            let endpoint = &self.run.endpoints[self.endpoint];
            self.endpoint = (self.endpoint + 1) % self.run.endpoints.len();
            let opened = Connection::open(endpoint).await;
            self.connection = Some(opened.map_err(|error| format!("connect: {}", error.kind()))?);
        }
        let Some(connection) = &mut self.connection else { return Err("no connection".to_owned()) };
        match connection.exchange(request).await {
            Ok(answer) if (200..300).contains(&answer.status) => Ok(answer.token),
            Ok(answer) => Err(error_kind(answer.status, answer.body)),
            Err(error) => {
                self.connection = None;
                Err(format!("connection: {}", error.kind()))
            }
        }
    }

    /// Ends the session, so that nothing of the run stays on a cluster that is not ours.
    async fn close(&mut self) {
        let requests = self.requests.clone();
        drop(self.call(&requests.close).await);
    }
}
