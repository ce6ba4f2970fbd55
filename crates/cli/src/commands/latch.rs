//! `holdfast latch`: latches, which count down once for each key and open at zero.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_types::RecipeKind;
use serde_json::json;

use super::once;
use super::recipe_list::RecipeListArgs;
use crate::arguments::{RecipeArgs, duration};
use crate::exit::CommandFailure;
use crate::output::answer;

/// Count down to zero, and wait until a latch opens.
#[derive(Debug, Subcommand)]
pub(crate) enum LatchCommand {
    /// Create a latch.
    Create(LatchCreateArgs),
    /// Count down once for a key; print the remaining count.
    Down(LatchDownArgs),
    /// Wait until the latch is open.
    Wait(LatchWaitArgs),
    /// Delete the latch.
    Rm(RecipeArgs),
    /// List the latches.
    Ls(RecipeListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LatchCreateArgs {
    #[command(flatten)]
    latch: RecipeArgs,
    /// The initial count.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LatchDownArgs {
    #[command(flatten)]
    latch: RecipeArgs,
    /// The key; each key counts once.
    #[arg(long)]
    key: String,
}

#[derive(Debug, Args)]
pub(crate) struct LatchWaitArgs {
    #[command(flatten)]
    latch: RecipeArgs,
    /// The maximum time; 0s only reads the state.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    wait: Duration,
}

pub(crate) async fn run(command: LatchCommand) -> Result<(), CommandFailure> {
    match command {
        LatchCommand::Ls(args) => args.run(&[RecipeKind::Latch]).await?,
        LatchCommand::Create(LatchCreateArgs { latch: RecipeArgs { name, cluster }, count }) => {
            let client = cluster.client()?;
            let body = once::closing(&client, client.latch(name).create(count)).await?;
            answer(cluster.format(), &body, body.left, &body.left.to_string());
        }
        LatchCommand::Down(LatchDownArgs { latch: RecipeArgs { name, cluster }, key }) => {
            let client = cluster.client()?;
            let left = once::closing(&client, client.latch(name).count_down(key)).await?;
            answer(cluster.format(), &json!({ "left": left }), left, &left.to_string());
        }
        LatchCommand::Wait(LatchWaitArgs { latch: RecipeArgs { name, cluster }, wait }) => {
            let body = cluster.client()?.latch(name).wait(wait).await?;
            answer(cluster.format(), &body, "open", "open");
        }
        LatchCommand::Rm(RecipeArgs { name, cluster }) => {
            let client = cluster.client()?;
            once::closing(&client, client.latch(name).delete()).await?;
        }
    }
    Ok(())
}
