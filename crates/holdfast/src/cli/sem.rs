//! The command line of `holdfast sem` and `holdfast rules`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{LockArgs, Target, WhoArgs, duration_or_off};

/// `holdfast sem`.
#[derive(Debug, Subcommand)]
pub(crate) enum SemCommand {
    /// Take permits, print the fencing token, hold them until ^C; one permit unless --permits says more.
    Take(LockArgs),
    /// Show who holds how many permits, in which slots, and who waits.
    Ls(WhoArgs),
    /// Set how many permits there are. Fewer than are held take nothing from anybody.
    Set(SemSetArgs),
}

/// `holdfast sem set`.
#[derive(Debug, Args)]
pub(crate) struct SemSetArgs {
    /// The semaphore.
    pub(crate) name: String,
    /// How many permits.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast rules`.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// The lock.
    pub(crate) name: String,
    /// Who goes before whom, of those who come from now on.
    #[arg(long, value_enum)]
    pub(crate) order: Option<Order>,
    /// How much waiting one level of priority is worth: 10s unless it was set.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    pub(crate) ageing: Option<Duration>,
    /// How long nobody gets it after a holder was lost that may not know it; 0s for not at all.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    pub(crate) lock_delay: Option<Duration>,
    /// How long after a grant there is no other one; 0s for no such rule.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    pub(crate) cooldown: Option<Duration>,
    /// Whether requests that would close a cycle of waiters are refused.
    #[arg(long, value_name = "true|false")]
    pub(crate) detect_deadlocks: Option<bool>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Who goes before whom in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Who came first.
    Fifo,
    /// Those who want to hold alone before those who share.
    WriterFirst,
    /// Those who share before those who want to hold alone.
    ReaderFirst,
}
