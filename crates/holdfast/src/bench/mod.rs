//! `holdfast bench`: measures lock cycles, failovers, many sessions, znodes and waiters, snapshots
//! under load, growth, and the cost of security.
//!
//! Each measurement is one file with its arguments and its report. A run that violates mutual exclusion or the order
//! of tokens fails at any speed. Progress goes to stderr, and only to a terminal.

mod access;
mod against;
mod bulk;
mod client;
mod connection;
mod failover;
mod footprint;
mod growth;
mod load;
mod namespaces;
mod processor_time;
mod report;
mod requests;
mod security;
mod sessions;
mod snapshots;
mod target;
mod waiters;
mod znodes;

use clap::{Args, Subcommand};
use holdfast_cli::exit::CommandFailure;

pub(crate) use self::access::Access;

/// Generate load and measure it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    measurement: Option<BenchCommand>,
    #[command(flatten)]
    load: load::LoadArgs,
}

/// The measurements other than lock cycles. Each starts its own cluster and removes it.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    Failover(failover::FailoverArgs),
    Sessions(sessions::SessionsArgs),
    Znodes(znodes::ZnodesArgs),
    Waiters(waiters::WaitersArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Growth(growth::GrowthArgs),
    Security(security::SecurityArgs),
    Namespaces(namespaces::NamespacesArgs),
}

/// # Errors
/// [`CommandFailure::Failed`] if the cluster cannot be reached or started, or after a violation.
pub(crate) fn run(args: &BenchArgs) -> Result<(), CommandFailure> {
    let threads = if args.measurement.is_none() { args.load.threads } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::try_from(threads).map_err(CommandFailure::failed)?)
        .enable_all()
        .build()
        .map_err(CommandFailure::failed)?;
    runtime.block_on(async {
        match &args.measurement {
            None => match &args.load.against {
                None => load::run(&args.load).await,
                Some(program) => against::run(&args.load, program).await,
            },
            Some(BenchCommand::Failover(args)) => failover::run(args).await,
            Some(BenchCommand::Sessions(args)) => sessions::run(args).await,
            Some(BenchCommand::Znodes(args)) => znodes::run(args).await,
            Some(BenchCommand::Waiters(args)) => waiters::run(args).await,
            Some(BenchCommand::Snapshots(args)) => snapshots::run(args).await,
            Some(BenchCommand::Growth(args)) => growth::run(args).await,
            Some(BenchCommand::Security(args)) => security::run(args).await,
            Some(BenchCommand::Namespaces(args)) => namespaces::run(args).await,
        }
    })
}

/// Measures lock cycles on running nodes for a few seconds, in words.
///
/// # Errors
/// No cycle was completed, or mutual exclusion or the order of tokens was violated.
pub(crate) async fn measure_load(
    endpoints: Vec<String>,
    access: &Access,
) -> Result<String, String> {
    let settings = load::LoadSettings::new(16, 5, load::LockChoice::Spread);
    let report = load::measure_times(&settings, endpoints, access).await?;
    report.check().map_err(|failure| failure.to_string())?;
    let (rate, [p50, p99, ..]) = (report.cycles_per_second, report.times.cells());
    Ok(format!("{rate:.0} lock cycles/s of 16 clients, p50 {p50} ms, p99 {p99} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse;

    #[test]
    fn bench_measures_lock_cycles_by_default() {
        let args = parse::<BenchArgs>("bench --clients 16 --locks hot").unwrap();
        assert!(args.measurement.is_none());
        assert_eq!((args.load.load.clients, args.load.load.locks), (16, load::LockChoice::Hot));
        let args = parse::<BenchArgs>("bench failover --rounds 3").unwrap();
        assert!(matches!(args.measurement, Some(BenchCommand::Failover(args)) if args.rounds == 3));
    }
}
