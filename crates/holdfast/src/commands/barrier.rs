//! `holdfast barrier`: arrives at a barrier and waits for the other parties.

use std::time::Duration;

use clap::Args;

use crate::arguments::{RecipeArgs, duration};
use crate::exit::CommandFailure;
use crate::output::answer;
use crate::signals::StopSignals;

/// The time limit for closing the session at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Arrive at a barrier and wait for the other parties; print the position in the order of arrival.
#[derive(Debug, Args)]
pub(crate) struct BarrierArgs {
    #[command(flatten)]
    barrier: RecipeArgs,
    /// The number of parties.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    parties: u32,
    /// How long to wait for the other parties; the end of the wait and ^C break the barrier.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    wait: Duration,
    /// How long the other parties wait if this process dies.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    ttl: Duration,
}

pub(crate) async fn run(args: BarrierArgs) -> Result<(), CommandFailure> {
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let RecipeArgs { name, cluster } = args.barrier;
    let client =
        cluster.nodes.client_with(|builder| builder.ttl(args.ttl).session_prefix("cli"))?;
    let barrier = client.barrier(name.as_str(), args.parties);
    let passed = tokio::select! {
        passed = barrier.arrive(args.wait) => passed.map_err(CommandFailure::from),
        signal = signals.next() => Err(CommandFailure::NotAcquired(format!("{signal} while waiting at {name}"))),
    };
    // The end of the session breaks the barrier for the waiting parties at once.
    let _in_time = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    let passed = passed?;
    answer(cluster.format(), &passed, passed.index, &passed.index.to_string());
    Ok(())
}
