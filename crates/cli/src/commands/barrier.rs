//! `holdfast barrier`: arrives at a barrier, and enters and leaves double barriers.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_types::RecipeKind;

use super::double_barrier::{self, BarrierMemberArgs, EnterArgs};
use super::once;
use super::recipe_list::RecipeListArgs;
use crate::arguments::{RecipeArgs, duration};
use crate::exit::CommandFailure;
use crate::output::answer;
use crate::signals::StopSignals;

/// Wait until all parties have arrived; double barriers also wait until all have left.
#[derive(Debug, Subcommand)]
pub(crate) enum BarrierCommand {
    /// Arrive and wait for the other parties; print the position in the order of arrival.
    Arrive(ArriveArgs),
    /// Enter a double barrier together with the other members; print the position in the order of arrival.
    Enter(EnterArgs),
    /// Leave a double barrier, and wait until all members have left.
    Leave(BarrierMemberArgs),
    /// Show the members that wait to enter a double barrier, and those inside.
    Who(RecipeArgs),
    /// List the barriers and the double barriers that have members.
    Ls(RecipeListArgs),
}

pub(crate) async fn run(command: BarrierCommand) -> Result<(), CommandFailure> {
    match command {
        BarrierCommand::Arrive(args) => arrive(args).await,
        BarrierCommand::Enter(args) => double_barrier::enter(args).await,
        BarrierCommand::Leave(args) => double_barrier::leave(args).await,
        BarrierCommand::Who(args) => double_barrier::who(&args).await,
        BarrierCommand::Ls(args) => {
            args.run(&[RecipeKind::Barrier, RecipeKind::DoubleBarrier]).await
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ArriveArgs {
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

async fn arrive(args: ArriveArgs) -> Result<(), CommandFailure> {
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let RecipeArgs { name, cluster } = args.barrier;
    let client =
        cluster.nodes.client_with(|builder| builder.ttl(args.ttl).session_prefix("cli"))?;
    let barrier = client.barrier(name.as_str(), args.parties);
    let passed = async {
        tokio::select! {
            passed = barrier.arrive(args.wait) => passed.map_err(CommandFailure::from),
            signal = signals.next() => Err(CommandFailure::NotAcquired(format!("{signal} while waiting at {name}"))),
        }
    };
    // The end of the session breaks the barrier for the waiting parties at once.
    let passed = once::closing(&client, passed).await?;
    answer(cluster.format(), &passed, passed.index, &passed.index.to_string());
    Ok(())
}
