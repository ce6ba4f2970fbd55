//! The command line of `holdfast top`, `holdfast history` and `holdfast wait`.

use std::time::Duration;

use clap::Args;

use super::{Target, duration};

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
    /// Only who held it at this time: `5m` ago, or milliseconds of the Unix epoch.
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
