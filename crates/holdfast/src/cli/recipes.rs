//! The command line of `holdfast latch`, `holdfast barrier`, `holdfast double-barrier` and `holdfast counter`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Target, duration};

/// `holdfast latch`.
#[derive(Debug, Subcommand)]
pub(crate) enum LatchCommand {
    /// Make a latch.
    Create(LatchCreateArgs),
    /// Count it down, once for each key; print what is left.
    Down(LatchDownArgs),
    /// Wait until it is open.
    Wait(LatchWaitArgs),
    /// Remove it.
    Rm(RecipeArgs),
}

/// A latch or a counter.
#[derive(Debug, Args)]
pub(crate) struct RecipeArgs {
    /// Its name.
    pub(crate) name: String,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast latch create`.
#[derive(Debug, Args)]
pub(crate) struct LatchCreateArgs {
    /// Which latch.
    #[command(flatten)]
    pub(crate) latch: RecipeArgs,
    /// How often it has to be counted down.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: u32,
}

/// `holdfast latch down`.
#[derive(Debug, Args)]
pub(crate) struct LatchDownArgs {
    /// Which latch.
    #[command(flatten)]
    pub(crate) latch: RecipeArgs,
    /// What is done: each key is counted once.
    #[arg(long)]
    pub(crate) key: String,
}

/// `holdfast latch wait`.
#[derive(Debug, Args)]
pub(crate) struct LatchWaitArgs {
    /// Which latch.
    #[command(flatten)]
    pub(crate) latch: RecipeArgs,
    /// How long; 0s only looks.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub(crate) wait: Duration,
}

/// `holdfast barrier`.
#[derive(Debug, Args)]
pub(crate) struct BarrierArgs {
    /// Which barrier.
    #[command(flatten)]
    pub(crate) barrier: RecipeArgs,
    /// How many pass together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) parties: u32,
    /// How long to wait for the others; ^C and the end of the wait break the barrier.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub(crate) wait: Duration,
    /// How long the others wait if this process dies.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,
}

/// `holdfast double-barrier`.
#[derive(Debug, Subcommand)]
pub(crate) enum DoubleBarrierCommand {
    /// Enter together with others; print the place in the order of arrival.
    Enter(EnterArgs),
    /// Leave, and wait until all have left.
    Leave(LeaveArgs),
    /// Show who waits to enter and who is inside.
    Who(RecipeArgs),
}

/// `holdfast double-barrier enter`.
#[derive(Debug, Args)]
pub(crate) struct EnterArgs {
    /// How many enter together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) parties: u32,
    /// The time-to-live of the session, if it has none yet: nobody renews it after this command.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// Which, and whose place.
    #[command(flatten)]
    pub(crate) place: LeaveArgs,
}

/// `holdfast double-barrier leave`.
#[derive(Debug, Args)]
pub(crate) struct LeaveArgs {
    /// Which double barrier.
    #[command(flatten)]
    pub(crate) barrier: RecipeArgs,
    /// Whose place: it has left when this session ends. Under `holdfast run` and `holdfast lock` it is theirs.
    #[arg(long, env = "HOLDFAST_SESSION", value_name = "SESSION")]
    pub(crate) session: String,
    /// How long to wait for the others.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub(crate) wait: Duration,
}

/// `holdfast counter`.
#[derive(Debug, Subcommand)]
pub(crate) enum CounterCommand {
    /// Print its value.
    Get(RecipeArgs),
    /// Add to it, exactly once; print its value.
    Add(CounterChangeArgs),
    /// Replace its value.
    Set(CounterSetArgs),
    /// Forget it: it is 0 again.
    Rm(RecipeArgs),
}

/// `holdfast counter add`.
#[derive(Debug, Args)]
pub(crate) struct CounterChangeArgs {
    /// Which counter.
    #[command(flatten)]
    pub(crate) counter: RecipeArgs,
    /// The number; may be negative.
    #[arg(allow_negative_numbers = true)]
    pub(crate) number: i64,
}

/// `holdfast counter set`.
#[derive(Debug, Args)]
pub(crate) struct CounterSetArgs {
    /// Which counter, and what.
    #[command(flatten)]
    pub(crate) change: CounterChangeArgs,
    /// Only if it has this version.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
}
