//! The command line of `holdfast bench`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, duration};

/// `holdfast bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    /// Another measurement than lock cycles under load.
    #[command(subcommand)]
    pub(crate) what: Option<BenchCommand>,
    /// Lock cycles under load.
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// Which locks the clients take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Locks {
    /// Each client its own.
    Spread,
    /// All the same one: cycles are hand-overs.
    Hot,
}

/// Cycles of acquire and release in a closed loop.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Clients, each with one connection and one call at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,
    /// How long to measure, seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// How long to run before measuring, seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(crate) warmup: u64,
    /// Which locks the clients take.
    #[arg(long, value_enum, default_value_t = Locks::Spread)]
    pub(crate) locks: Locks,
    /// Nodes to ask, separated by commas; without it a cluster of its own is started and removed.
    #[arg(long, value_name = "ADDR[,ADDR]", value_delimiter = ',')]
    pub(crate) addr: Vec<String>,
    /// Time-to-live of the clients' sessions.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// Threads of the generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// The other measurements. Each starts a cluster of its own and removes it.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time from `kill -9` of the leader to the next new grant.
    Failover(FailoverArgs),
    /// Many sessions, each holding a lock: rate, memory, restart time.
    Sessions(SessionsArgs),
    /// Many znodes: rate, memory, restart time.
    Znodes(ZnodesArgs),
    /// Many waiters on one lock: hand-overs beside a few, wake-ups, memory.
    Waiters(WaitersArgs),
    /// Cycles while a node takes a snapshot, beside those while none does.
    Snapshots(SnapshotsArgs),
}

/// `holdfast bench failover`.
#[derive(Debug, Args)]
pub(crate) struct FailoverArgs {
    /// How many times the leader is killed.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Clients that keep taking locks meanwhile.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) clients: u32,
    /// How many nodes: 3 or 5.
    #[arg(long, default_value_t = 3, value_parser = voter_count)]
    pub(crate) nodes: u64,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// `holdfast bench sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// How many sessions, each with one lock.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Connections that open them.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// `holdfast bench znodes`.
#[derive(Debug, Args)]
pub(crate) struct ZnodesArgs {
    /// How many znodes, rounded up to whole transactions of 500.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=3_000_000))]
    pub(crate) count: u32,
    /// Connections that create them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) clients: u32,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// `holdfast bench waiters`.
#[derive(Debug, Args)]
pub(crate) struct WaitersArgs {
    /// How many wait for one lock, each with a connection and a session of its own.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) count: u32,
    /// How many wait for the lock that is measured beside it.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) few: u32,
    /// How long each is measured, seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// `holdfast bench snapshots`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotsArgs {
    /// Znodes that are there before, so that a snapshot takes its time.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=3_000_000))]
    pub(crate) znodes: u32,
    /// Clients, each with one connection and a lock of its own.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) clients: u32,
    /// How often snapshots are to be seen; those of several nodes at the same time count once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) snapshots: u32,
    /// How much log a node writes between two snapshots.
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    pub(crate) snapshot_log: String,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

fn voter_count(text: &str) -> Result<u64, String> {
    match text {
        "3" | "5" => text.parse().map_err(|_| String::new()),
        other => Err(format!("{other} nodes cannot lose their leader and go on: use 3 or 5")),
    }
}
