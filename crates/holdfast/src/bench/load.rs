//! Cycles of acquire and release by many clients in a closed loop.
//!
//! A cycle is one PUT that waits for the lock and one DELETE, timed from the first byte sent to the last byte of the
//! second answer. Every client has one connection, one session and one call under way; so the generator's queues are
//! its clients. A client whose connection breaks goes to the next endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;
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

/// What a cycle counts for. One that begins or ends apart counts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Warming,
    Measuring,
    Apart,
    Ending,
}

/// Who makes the cycles, and on what.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) endpoints: Vec<String>,
    pub(super) clients: u32,
    pub(super) locks: Locks,
    pub(super) ttl: Duration,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) elapsed: Duration,
    pub(super) counts: Counts,
    pub(super) violations: u64,
}

/// What all clients share.
struct Run {
    step: watch::Receiver<Step>,
    endpoints: Vec<String>,
    judges: Vec<Judge>,
}

/// What a client has counted.
#[derive(Debug)]
pub(super) struct Counts {
    /// Times of cycles, microseconds.
    pub(super) cycles: Histogram<u32>,
    /// The same of those that counted apart.
    pub(super) apart: Histogram<u32>,
    pub(super) errors: BTreeMap<String, u64>,
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
    let endpoints = target.endpoints();
    let load = Load { endpoints, clients: args.clients, locks: args.locks, ttl: args.ttl };
    let measured = load.drive(async |step| conduct(args, step).await).await;
    target.close().await;
    let report = LoadReport::new(args, &measured.map_err(Stop::Failed)?);
    report.print(args.output);
    report.verdict()
}

async fn conduct(args: &LoadArgs, step: &watch::Sender<Step>) -> Result<Duration, String> {
    tokio::time::sleep(Duration::from_secs(args.warmup)).await;
    step.send_replace(Step::Measuring);
    let began = Instant::now();
    show_progress(args.seconds).await;
    Ok(began.elapsed())
}

impl Load {
    /// Runs the clients while `conduct` says which cycles count, and how long that was.
    ///
    /// # Errors
    /// `conduct`'s, or a client that broke down.
    pub(super) async fn drive(
        self,
        conduct: impl AsyncFnOnce(&watch::Sender<Step>) -> Result<Duration, String>,
    ) -> Result<Measured, String> {
        let (step, steps) = watch::channel(Step::Warming);
        let locks = match self.locks {
            Locks::Spread => self.clients,
            Locks::Hot => 1,
        };
        let judges = (0..locks).map(|_| Judge::default()).collect();
        let run = Arc::new(Run { step: steps, endpoints: self.endpoints.clone(), judges });
        let (name, mut clients) = (run_name(), JoinSet::new());
        for number in 0..self.clients {
            clients.spawn(self.client(&run, &name, number)?.run());
        }
        let elapsed = conduct(&step).await;
        step.send_replace(Step::Ending);
        let mut counts = Counts::new()?;
        while let Some(more) = clients.join_next().await {
            counts.add(&more.map_err(|error| error.to_string())?)?;
        }
        let violations = run.judges.iter().map(Judge::violations).sum();
        Ok(Measured { elapsed: elapsed?, counts, violations })
    }

    fn client(&self, run: &Arc<Run>, name: &str, number: u32) -> Result<Client, String> {
        let lock = match self.locks {
            Locks::Spread => number,
            Locks::Hot => 0,
        };
        let (lock_name, session) =
            (format!("bench/{name}/{lock}"), format!("bench-{name}-{number}"));
        let requests = Requests::new(&lock_name, &session, self.ttl, WAIT);
        let index = |number: u32| usize::try_from(number).map_err(|error| error.to_string());
        Ok(Client {
            endpoint: index(number)? % self.endpoints.len(),
            run: run.clone(),
            requests: Arc::new(requests.map_err(|error| error.to_string())?),
            judge: index(lock)?,
            connection: None,
            repeated: false,
            counts: Counts::new()?,
        })
    }
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
    fn new() -> Result<Self, String> {
        Ok(Self { cycles: histogram()?, apart: histogram()?, errors: BTreeMap::new() })
    }

    fn add(&mut self, other: &Self) -> Result<(), String> {
        self.cycles.add(&other.cycles).map_err(|error| error.to_string())?;
        self.apart.add(&other.apart).map_err(|error| error.to_string())?;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }
}

impl Client {
    async fn run(mut self) -> Counts {
        while self.step() != Step::Ending {
            let (before, began) = (self.step(), Instant::now());
            match self.cycle().await {
                Ok(()) => self.count(before, began.elapsed()),
                Err(kind) => {
                    *self.counts.errors.entry(kind).or_default() += 1;
                    tokio::time::sleep(REST).await;
                }
            }
        }
        self.close().await;
        self.counts
    }

    fn step(&self) -> Step {
        *self.run.step.borrow()
    }

    fn count(&mut self, before: Step, took: Duration) {
        let micros = holdfast_types::micros(took);
        match (before, self.step()) {
            (_, Step::Warming | Step::Ending) => {}
            (Step::Apart, _) | (_, Step::Apart) => self.counts.apart.saturating_record(micros),
            (_, Step::Measuring) => self.counts.cycles.saturating_record(micros),
        }
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
