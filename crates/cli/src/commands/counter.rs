//! `holdfast counter`: counters of 64 bits that never wrap.

use clap::{Args, Subcommand};
use holdfast_types::RecipeKind;

use super::once;
use super::recipe_list::RecipeListArgs;
use crate::arguments::RecipeArgs;
use crate::exit::CommandFailure;
use crate::output::answer;

/// Read and change 64-bit counters; an overflow is an error.
#[derive(Debug, Subcommand)]
pub(crate) enum CounterCommand {
    /// Print the value.
    Get(RecipeArgs),
    /// Add a number exactly once; print the value.
    Add(CounterChangeArgs),
    /// Replace the value.
    Set(CounterSetArgs),
    /// Delete the counter, which makes its value 0.
    Rm(RecipeArgs),
    /// List the counters.
    Ls(RecipeListArgs),
}

/// Add a number exactly once; print the value.
#[derive(Debug, Args)]
pub(crate) struct CounterChangeArgs {
    #[command(flatten)]
    counter: RecipeArgs,
    /// The number; may be negative.
    #[arg(allow_negative_numbers = true)]
    number: i64,
}

#[derive(Debug, Args)]
pub(crate) struct CounterSetArgs {
    #[command(flatten)]
    change: CounterChangeArgs,
    /// Only if the counter has this version.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

pub(crate) async fn run(command: CounterCommand) -> Result<(), CommandFailure> {
    let args = match &command {
        CounterCommand::Ls(args) => return args.run(&[RecipeKind::Counter]).await,
        CounterCommand::Get(args) | CounterCommand::Rm(args) => args,
        CounterCommand::Add(args) => &args.counter,
        CounterCommand::Set(args) => &args.change.counter,
    };
    let client = args.cluster.client()?;
    let counter = client.counter(args.name.as_str());
    let change = async {
        match &command {
            CounterCommand::Get(_) => counter.get().await.map(Some),
            CounterCommand::Add(args) => counter.add(args.number).await.map(Some),
            CounterCommand::Set(args) => match args.version {
                Some(version) => counter.set_if(args.change.number, version).await.map(Some),
                None => counter.set(args.change.number).await.map(Some),
            },
            CounterCommand::Ls(_) => Ok(None),
            CounterCommand::Rm(_) => counter.delete().await.map(|()| None),
        }
    };
    let Some(body) = once::closing(&client, change).await? else { return Ok(()) };
    answer(args.cluster.format(), &body, body.value, &body.value.to_string());
    Ok(())
}
