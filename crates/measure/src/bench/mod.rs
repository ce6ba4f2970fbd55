//! `measure bench`: measures holdfast alone. Lock cycles, many sessions, znodes and waiters, snapshots under load,
//! growth, and the cost of security.
//!
//! Each measurement is one file with its arguments and its report. A run that violates mutual exclusion or the order
//! of tokens fails at any speed. Progress goes to stderr, and only to a terminal.

mod access;
mod against;
mod bulk;
mod client;
mod connection;
mod footprint;
mod growth;
mod load;
mod namespaces;
mod node_stages;
mod processor_time;
mod report;
mod requests;
mod security;
mod sessions;
mod snapshots;
pub mod stages;
mod target;
mod waiters;
mod znodes;

use clap::{Args, Subcommand};
use holdfast_cli::exit::CommandFailure;

/// Generate load and measure it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    measurement: Option<BenchCommand>,
    #[command(flatten)]
    load: load::LoadArgs,
}

/// The measurements other than lock cycles. Each starts its own cluster and removes it.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    Sessions(sessions::SessionsArgs),
    Znodes(znodes::ZnodesArgs),
    Waiters(waiters::WaitersArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Growth(growth::GrowthArgs),
    Security(security::SecurityArgs),
    Namespaces(namespaces::NamespacesArgs),
}

impl BenchArgs {
    /// The number of threads of the generator.
    pub fn threads(&self) -> u32 {
        if self.measurement.is_none() { self.load.threads } else { 1 }
    }
}

/// # Errors
/// [`CommandFailure::Failed`] if the cluster cannot be reached or started, or after a violation.
pub async fn run(args: &BenchArgs) -> Result<(), CommandFailure> {
    match &args.measurement {
        None => match &args.load.against {
            None => load::run(&args.load).await,
            Some(program) => against::run(&args.load, program).await,
        },
        Some(BenchCommand::Sessions(args)) => sessions::run(args).await,
        Some(BenchCommand::Znodes(args)) => znodes::run(args).await,
        Some(BenchCommand::Waiters(args)) => waiters::run(args).await,
        Some(BenchCommand::Snapshots(args)) => snapshots::run(args).await,
        Some(BenchCommand::Growth(args)) => growth::run(args).await,
        Some(BenchCommand::Security(args)) => security::run(args).await,
        Some(BenchCommand::Namespaces(args)) => namespaces::run(args).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn parse(line: &str) -> BenchArgs {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        BenchArgs::from_arg_matches(&command.get_matches_from(line.split(' '))).unwrap()
    }

    #[test]
    fn bench_measures_lock_cycles_by_default() {
        let args = parse("bench --clients 16 --locks hot");
        assert!(args.measurement.is_none());
        assert_eq!((args.load.load.clients, args.load.load.locks), (16, load::LockChoice::Hot));
        let args = parse("bench sessions --count 3");
        assert!(matches!(args.measurement, Some(BenchCommand::Sessions(_))));
    }
}
