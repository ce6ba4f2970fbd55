//! The command line of what looks: `holdfast doctor`, `ls`, `who`, `top`, `history` and `wait`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Target, duration};

/// `holdfast doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 if nothing has failed (warnings do not count), 1 if something has."
)]
pub(crate) struct DoctorArgs {
    /// Take and give back no probe lock: change nothing.
    #[arg(long)]
    pub(crate) look_only: bool,
    /// The probe lock that is taken and given back through every node.
    #[arg(long, value_name = "NAME", default_value = "holdfast-doctor")]
    pub(crate) probe: String,
    /// Where to ask: every address is checked on its own.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Only locks whose names begin with this.
    pub(crate) prefix: Option<String>,
    /// Only locks that are held.
    #[arg(long)]
    pub(crate) held: bool,
    /// Only locks that are waited for.
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only locks that this session holds or waits for.
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// In which order.
    #[arg(long, value_enum, default_value_t = LsSort::Name)]
    pub(crate) sort: LsSort,
    /// So many at most.
    #[arg(short = 'n', long, value_parser = count)]
    pub(crate) count: Option<usize>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// In which order locks are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LsSort {
    /// By name.
    Name,
    /// Those that most wait for first.
    Waiting,
    /// Those that are held for longest first.
    Held,
    /// Those that most hold first.
    Holders,
}

/// `holdfast who`.
#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// The lock.
    pub(crate) name: String,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Only locks whose names begin with this.
    pub(crate) prefix: Option<String>,
    /// How many locks.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = count)]
    pub(crate) count: usize,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The lock.
    pub(crate) name: String,
    /// Only who held it at this time: 2026-03-01T14:05:09Z, `5m` ago, or milliseconds of the Unix epoch.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// How many past holds.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = count)]
    pub(crate) limit: usize,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast wait`.
#[derive(Debug, Args)]
#[group(id = "wanted", required = true, multiple = false, args = ["free", "held"])]
pub(crate) struct WaitArgs {
    /// The lock.
    pub(crate) name: String,
    /// Until nobody holds it.
    #[arg(long)]
    pub(crate) free: bool,
    /// Until somebody holds it.
    #[arg(long)]
    pub(crate) held: bool,
    /// How long; without it as long as it takes. Exit code 75 if the time is over.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

fn count(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|count| (1..=1_000).contains(count));
    parsed.ok_or_else(|| format!("{text} is no number from 1 to 1000"))
}
