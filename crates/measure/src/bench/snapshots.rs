//! Lock cycles during a snapshot and between snapshots, in one run on a large tree.
//!
//! A snapshot is in progress while its partial file exists in the directory of a node; the benchmark reads the
//! directories every [`INTERVAL`]. A cycle that starts or ends meanwhile counts as a cycle during a snapshot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::load::{LoadPhase, LoadResult};
use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use serde::Serialize;
use tokio::sync::watch;

use super::access::Access;
use super::load::{HttpLoad, LockChoice};
use super::report::{Quantiles, check_violations, error_counts, progress_bar};
use super::target::OwnCluster;
use super::znodes;

const INTERVAL: Duration = Duration::from_millis(2);
const TTL: Duration = Duration::from_secs(30);
/// The number of connections that fill the tree.
const FILL_CLIENTS: u32 = 8;
/// The maximum time without a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_mins(5);

/// Compare lock cycles during a snapshot with lock cycles between snapshots.
#[derive(Debug, Args)]
pub(super) struct SnapshotsArgs {
    /// The number of znodes, which makes a snapshot take longer.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=3_000_000))]
    znodes: u32,
    /// The number of clients, each with one connection and its own lock.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// The number of snapshots; concurrent snapshots of several nodes count once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    snapshots: u32,
    /// The bytes of log between two snapshots of a node.
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    snapshot_log: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct SnapshotsReport {
    znodes: u32,
    clients: u32,
    snapshots: u32,
    seconds: f64,
    cycles: u64,
    cycles_during: u64,
    usual: Quantiles,
    during: Quantiles,
    /// The p99 during a snapshot divided by the p99 between snapshots.
    ratio_p99: f64,
    errors: BTreeMap<String, u64>,
    violations: u64,
}

impl SnapshotsReport {
    fn new(args: &SnapshotsArgs, measured: &LoadResult) -> Self {
        let LoadResult { elapsed, counts, violations } = measured;
        let (usual, during) = (Quantiles::of(&counts.times), Quantiles::of(&counts.separate_times));
        Self {
            znodes: args.znodes,
            clients: args.clients,
            snapshots: args.snapshots,
            seconds: elapsed.as_secs_f64(),
            cycles: counts.times.len(),
            cycles_during: counts.separate_times.len(),
            usual,
            during,
            ratio_p99: during.p99 / usual.p99.max(f64::MIN_POSITIVE),
            errors: counts.errors.clone(),
            violations: *violations,
        }
    }

    fn text(&self) -> String {
        let Self { znodes, snapshots, clients, seconds, ratio_p99, errors, .. } = self;
        let errors = error_counts(errors);
        let header = ["cycles", "number", "p50 ms", "p99 ms", "p99.9 ms", "max ms"];
        let row = |name: &str, number: u64, times: &Quantiles| {
            let [p50, p99, p999, max] = times.cells();
            [name.to_owned(), number.to_string(), p50, p99, p999, max]
        };
        let usual = row("usual", self.cycles, &self.usual);
        let during = row("during a snapshot", self.cycles_during, &self.during);
        format!(
            "{snapshots} snapshots of {znodes} znodes in {seconds:.0} s with {clients} clients: p99 during them {ratio_p99:.2} times the usual p99; errors: {errors}\n\n{}",
            table(header, [usual, during])
        )
    }
}

pub(super) async fn run(args: &SnapshotsArgs) -> Result<(), CommandFailure> {
    let own = OwnCluster::start_as(3, |layout| layout.with_snapshot_log(&args.snapshot_log));
    let own = own.await.map_err(CommandFailure::Failed)?;
    let measured = measure(args, &own).await;
    own.stop().await;
    let report = measured.map_err(CommandFailure::Failed)?;
    let ratio = format!("{:.2}", report.ratio_p99);
    answer(args.output.format, &report, ratio, &report.text());
    check_violations(report.violations)
}

async fn measure(args: &SnapshotsArgs, own: &OwnCluster) -> Result<SnapshotsReport, String> {
    let layout = own.cluster.layout();
    let endpoints = layout.endpoints();
    znodes::create(args.znodes, FILL_CLIENTS, &endpoints).await?;
    let dirs: Vec<PathBuf> =
        layout.ids().map(|node| layout.node_dir(node).join("data/snapshots")).collect();
    let load = HttpLoad {
        endpoints,
        access: Access::default(),
        clients: args.clients,
        locks: LockChoice::Spread,
        value_bytes: 0,
        ttl: TTL,
    };
    let measured = load.drive(async |phase| watch_for(args.snapshots, &dirs, phase).await).await?;
    Ok(SnapshotsReport::new(args, &measured))
}

/// Sets the phase of the load during each snapshot, until `snapshots` snapshots have ended.
async fn watch_for(
    snapshots: u32,
    dirs: &[PathBuf],
    phase: &watch::Sender<LoadPhase>,
) -> Result<Duration, String> {
    let bar = progress_bar("counting snapshots", u64::from(snapshots), "");
    // Snapshots taken while the tree was filled do not count.
    while in_progress(dirs) {
        tokio::time::sleep(INTERVAL).await;
    }
    let (start, mut last, mut seen) = (Instant::now(), Instant::now(), 0);
    phase.send_replace(LoadPhase::Measuring);
    while seen < snapshots {
        let (now, before) = (in_progress(dirs), *phase.borrow() == LoadPhase::Separate);
        if now != before {
            phase.send_replace(if now { LoadPhase::Separate } else { LoadPhase::Measuring });
            last = Instant::now();
            seen += u32::from(before);
            bar.set_position(u64::from(seen));
        }
        if last.elapsed() > SNAPSHOT_TIMEOUT {
            return Err(format!(
                "no snapshot for {SNAPSHOT_TIMEOUT:?}, after {seen} of {snapshots}"
            ));
        }
        tokio::time::sleep(INTERVAL).await;
    }
    bar.finish_and_clear();
    Ok(start.elapsed())
}

/// Returns `true` if any node is writing a snapshot.
fn in_progress(dirs: &[PathBuf]) -> bool {
    let partial = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "partial"))
    };
    dirs.iter().any(|dir| std::fs::read_dir(dir).is_ok_and(|mut files| files.any(partial)))
}
