//! Cycles of acquire and release by many clients in a closed loop.
//!
//! A cycle is one PUT that waits for the lock and one DELETE. Its time runs from the first byte sent to the last byte
//! of the second reply. Every client has one connection, one session and one call in progress.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::load::{Load, LoadPhase, LoadResult};
use clap::{Args, ValueEnum};
use holdfast_cli::arguments::{CredentialArgs, OutputArgs, duration};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use serde::Serialize;
use tokio::sync::watch;

use super::access::Access;
use super::client::BenchClient;
use super::processor_time::{ProcessorMeter, micros_per_cycle};
use super::report::{Quantiles, check_violations, error_counts, per_second, progress_bar};
use super::requests::{Requests, run_name};
use super::target::MeasuredCluster;

/// The maximum wait of an acquire.
const WAIT: Duration = Duration::from_mins(1);

/// The load of `measure bench`, and the nodes.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    #[command(flatten)]
    pub(super) load: LoadSettings,
    /// The nodes to measure, separated by commas; by default the run starts its own cluster and removes it.
    #[arg(long, value_name = "ADDR[,ADDR]", value_delimiter = ',', conflicts_with_all = ["nodes", "against"])]
    addr: Vec<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
    /// The first component of the names of the locks. The access token needs the permission to acquire the locks below it.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    prefix: String,
    /// The number of nodes, if the run starts the cluster.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=5))]
    pub(super) nodes: u64,
    /// Another holdfast program: measure clusters of both programs by turns, and print the ratios.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) against: Option<PathBuf>,
    /// The number of measurements of each program.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000), requires = "against")]
    pub(super) rounds: u32,
    /// The number of threads of the generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) threads: u32,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// A load on running nodes.
#[derive(Clone, Debug, Args)]
pub(super) struct LoadSettings {
    /// The number of clients, each with one connection and one call at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(super) clients: u32,
    /// The measured time, seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) seconds: u64,
    /// The time before the measurement, seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(super) warmup: u64,
    /// Which locks the clients acquire.
    #[arg(long, value_enum, default_value_t = LockChoice::Spread)]
    pub(super) locks: LockChoice,
    /// The bytes in the value of each lock.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=4_096))]
    pub(super) value_bytes: u32,
    /// The TTL of the sessions of the clients.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(super) ttl: Duration,
}

/// Which locks the clients acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LockChoice {
    /// Each client its own lock.
    Spread,
    /// All clients the same lock, so that each cycle is a hand-over.
    Hot,
}

/// The clients and their locks.
#[derive(Clone, Debug)]
pub(super) struct HttpLoad {
    pub(super) endpoints: Vec<String>,
    pub(super) access: Access,
    pub(super) clients: u32,
    pub(super) locks: LockChoice,
    pub(super) value_bytes: u32,
    pub(super) ttl: Duration,
}

#[derive(Debug, Serialize)]
pub(super) struct LoadReport {
    locks: LockChoice,
    clients: u32,
    seconds: f64,
    pub(super) cycles: u64,
    pub(super) cycles_per_second: f64,
    #[serde(flatten)]
    pub(super) times: Quantiles,
    /// Processor time by process; empty if it is unknown.
    pub(super) processor_us_per_cycle: BTreeMap<String, f64>,
    errors: BTreeMap<String, u64>,
    violations: u64,
}

pub(super) async fn run(args: &LoadArgs) -> Result<(), CommandFailure> {
    let (access, given) = if args.addr.is_empty() {
        (Access::default(), Vec::new())
    } else {
        Access::to_nodes(&args.addr, &args.prefix, &args.credentials)?
    };
    let target = MeasuredCluster::open(&given, args.nodes).await.map_err(CommandFailure::Failed)?;
    let report = measure(&args.load, target.endpoints(), &access).await;
    target.close().await;
    let report = report.map_err(CommandFailure::Failed)?;
    let rate = format!("{:.0}", report.cycles_per_second);
    answer(args.output.format, &report, rate, &report.text());
    report.check()
}

/// Measures the load on running nodes, and its processor time.
pub(super) async fn measure(
    settings: &LoadSettings,
    endpoints: Vec<String>,
    access: &Access,
) -> Result<LoadReport, String> {
    let meter = ProcessorMeter::new(&endpoints, access).await;
    measure_with(settings, endpoints, access, &meter).await
}

/// Measures the load on running nodes, without its processor time.
pub(super) async fn measure_times(
    settings: &LoadSettings,
    endpoints: Vec<String>,
    access: &Access,
) -> Result<LoadReport, String> {
    measure_with(settings, endpoints, access, &ProcessorMeter::none()).await
}

async fn measure_with(
    settings: &LoadSettings,
    endpoints: Vec<String>,
    access: &Access,
    meter: &ProcessorMeter,
) -> Result<LoadReport, String> {
    let LoadSettings { clients, locks, value_bytes, ttl, .. } = *settings;
    let load = HttpLoad { endpoints, access: access.clone(), clients, locks, value_bytes, ttl };
    let mut used = BTreeMap::new();
    let measured = load.drive(async |phase| {
        tokio::time::sleep(Duration::from_secs(settings.warmup)).await;
        let before = meter.read().await;
        let elapsed = conduct(settings.seconds, phase).await;
        used = meter.read().await.since(&before);
        Ok(elapsed)
    });
    let measured = measured.await?;
    Ok(LoadReport::new(settings, &measured, &used))
}

/// Measures for some seconds and shows a progress bar. Returns the measured time.
async fn conduct(seconds: u64, phase: &watch::Sender<LoadPhase>) -> Duration {
    phase.send_replace(LoadPhase::Measuring);
    let start = Instant::now();
    let bar = progress_bar("measuring", seconds, " s");
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let elapsed = start.elapsed();
    // What follows takes time, and its cycles do not count.
    phase.send_replace(LoadPhase::Ending);
    elapsed
}

impl LoadSettings {
    /// A load with a warm-up of one second.
    pub(super) fn new(clients: u32, seconds: u64, locks: LockChoice) -> Self {
        let ttl = Duration::from_mins(1);
        Self { clients, seconds, warmup: 1, locks, value_bytes: 0, ttl }
    }
}

impl HttpLoad {
    /// Runs the clients; see [`Load::run`].
    ///
    /// # Errors
    /// A malformed name, or the error of `conduct`.
    pub(super) async fn drive(
        self,
        conduct: impl AsyncFnOnce(&watch::Sender<LoadPhase>) -> Result<Duration, String>,
    ) -> Result<LoadResult, String> {
        let name = run_name();
        let locks = match self.locks {
            LockChoice::Spread => self.clients,
            LockChoice::Hot => 1,
        };
        let client = |(index, number): (usize, u32)| {
            let namespace = &self.access.namespace;
            let lock = format!("{namespace}/{name}/{}", number % locks);
            let session = format!("{}-{name}-{number}", namespace.replace('/', "-"));
            let requests = Requests::with_value(&lock, &session, self.ttl, WAIT, self.value_bytes);
            let requests = requests.map_err(|error| error.to_string())?;
            Ok(BenchClient::new(requests, &self.endpoints, index).with_access(&self.access))
        };
        let clients = (0..self.clients).enumerate().map(client).collect::<Result<_, String>>()?;
        let locks = usize::try_from(locks).map_err(|error| error.to_string())?;
        Load { clients, locks, open_loop: None, deadline: None }.run(conduct).await
    }
}

impl LoadReport {
    fn new(
        settings: &LoadSettings,
        measured: &LoadResult,
        used: &BTreeMap<String, Duration>,
    ) -> Self {
        let LoadResult { elapsed, counts, violations } = measured;
        Self {
            locks: settings.locks,
            clients: settings.clients,
            seconds: elapsed.as_secs_f64(),
            cycles: counts.ended,
            cycles_per_second: per_second(counts.ended, *elapsed),
            times: Quantiles::of(&counts.times),
            processor_us_per_cycle: micros_per_cycle(used, counts.ended),
            errors: counts.errors.clone(),
            violations: *violations,
        }
    }

    /// # Errors
    /// No cycle was completed, or a check of the load failed.
    pub(super) fn check(&self) -> Result<(), CommandFailure> {
        if self.cycles == 0 {
            let errors = error_counts(&self.errors);
            return Err(CommandFailure::failed(format!(
                "no cycle was completed; errors: {errors}"
            )));
        }
        check_violations(self.violations)
    }

    fn text(&self) -> String {
        let header = [
            "locks",
            "clients",
            "cycles/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "errors",
            "violations",
        ];
        let locks = match self.locks {
            LockChoice::Spread => "spread",
            LockChoice::Hot => "hot",
        };
        let [p50, p99, p999, max] = self.times.cells();
        let row = [
            locks.to_owned(),
            self.clients.to_string(),
            format!("{:.0}", self.cycles_per_second),
            p50,
            p99,
            p999,
            max,
            error_counts(&self.errors),
            self.violations.to_string(),
        ];
        let cycles = table(header, [row]);
        if self.processor_us_per_cycle.is_empty() {
            return cycles;
        }
        let costs = self.processor_us_per_cycle.iter();
        let costs = costs.map(|(process, micros)| [process.clone(), format!("{micros:.1}")]);
        format!("{cycles}\n\n{}", table(["process", "processor time of a cycle, µs"], costs))
    }
}
