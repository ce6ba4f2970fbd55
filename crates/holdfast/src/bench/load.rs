//! Cycles of acquire and release by many clients in a closed loop.
//!
//! A cycle is one PUT that waits for the lock and one DELETE, timed from the first byte sent to the last byte of the
//! second reply. Every client has one connection, one session and one call in progress.

use std::time::{Duration, Instant};

use holdfast_client::load::{Load, LoadPhase, LoadResult};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

use super::client::BenchClient;
use super::report::LoadReport;
use super::requests::{Requests, run_name};
use super::target::Target;
use crate::cli::{LoadArgs, Locks};
use crate::exit::Stop;

/// How long an acquire queues.
const WAIT: Duration = Duration::from_mins(1);

/// The clients and their locks.
#[derive(Clone, Debug)]
pub(super) struct HttpLoad {
    pub(super) endpoints: Vec<String>,
    pub(super) clients: u32,
    pub(super) locks: Locks,
    pub(super) ttl: Duration,
}

/// Measures and reports.
pub(super) async fn run(args: &LoadArgs) -> Result<(), Stop> {
    let target = Target::open(&args.addr).await.map_err(Stop::Failed)?;
    let endpoints = target.endpoints();
    let load = HttpLoad { endpoints, clients: args.clients, locks: args.locks, ttl: args.ttl };
    let measured = load.drive(async |phase| conduct(args, phase).await).await;
    target.close().await;
    let report = LoadReport::new(args, &measured.map_err(Stop::Failed)?);
    report.print(args.output);
    report.verdict()
}

async fn conduct(args: &LoadArgs, phase: &watch::Sender<LoadPhase>) -> Result<Duration, String> {
    tokio::time::sleep(Duration::from_secs(args.warmup)).await;
    phase.send_replace(LoadPhase::Measuring);
    let began = Instant::now();
    show_progress(args.seconds).await;
    Ok(began.elapsed())
}

impl HttpLoad {
    /// Runs the clients; see [`Load::run`].
    ///
    /// # Errors
    /// A name that breaks a rule, or the error of `conduct`.
    pub(super) async fn drive(
        self,
        conduct: impl AsyncFnOnce(&watch::Sender<LoadPhase>) -> Result<Duration, String>,
    ) -> Result<LoadResult, String> {
        let name = run_name();
        let locks = match self.locks {
            Locks::Spread => self.clients,
            Locks::Hot => 1,
        };
        let client = |(index, number): (usize, u32)| {
            let lock = format!("bench/{name}/{}", number % locks);
            let requests = Requests::new(&lock, &format!("bench-{name}-{number}"), self.ttl, WAIT);
            let requests = requests.map_err(|error| error.to_string())?;
            Ok(BenchClient::new(requests, &self.endpoints, index))
        };
        let clients = (0..self.clients).enumerate().map(client).collect::<Result<_, String>>()?;
        let locks = usize::try_from(locks).map_err(|error| error.to_string())?;
        Load { clients, locks, open_loop: None, deadline: None }.run(conduct).await
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
