//! `holdfast latch` and `holdfast counter`, and the lists of all recipes.
//!
//! A latch counts down once for each key and opens at zero. A counter has 64 bits and never wraps.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::recipe::{RECIPE_KIND, RECIPE_PREFIX};
use holdfast_api::parameters::{LIMIT, LIST_LIMIT_MAX, PAGE_TOKEN};
use holdfast_api::{ListedRecipeBody, Query, RECIPES_PATH, RecipesBody};
use holdfast_client::Call;
use holdfast_types::{RecipeKind, Revision};
use serde_json::json;

use super::calls;
use crate::arguments::{ClusterArgs, RecipeArgs, duration};
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, table_or};

#[derive(Debug, Args)]
pub(crate) struct RecipeListArgs {
    /// Only those whose names start with this.
    prefix: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl RecipeListArgs {
    /// Prints the recipes of these kinds.
    pub(crate) async fn run(&self, kinds: &[RecipeKind]) -> Result<(), CommandFailure> {
        let client = self.cluster.quick_client()?;
        let mut body =
            RecipesBody { recipes: Vec::new(), next_page_token: None, revision: Revision(0) };
        for kind in kinds {
            let mut next = None;
            loop {
                let query = Query::default()
                    .with(&RECIPE_KIND, kind)
                    .with_some(&RECIPE_PREFIX, self.prefix.as_ref().filter(|of| !of.is_empty()))
                    .with(&LIMIT, &LIST_LIMIT_MAX)
                    .with_some(&PAGE_TOKEN, next.as_ref());
                let page: RecipesBody = client.call(&Call::get(query.target(RECIPES_PATH))).await?;
                body.recipes.extend(page.recipes);
                body.revision = page.revision;
                next = page.next_page_token;
                if next.is_none() {
                    break;
                }
            }
        }
        let names = body.recipes.iter().map(|recipe| &recipe.name);
        answer_rows(self.cluster.format(), &body, &body.recipes, names, &list_text(&body.recipes));
        Ok(())
    }
}

fn list_text(recipes: &[ListedRecipeBody]) -> String {
    let row = |recipe: &ListedRecipeBody| {
        [recipe.kind.as_str().to_owned(), recipe.name.to_string(), recipe.state_text()]
    };
    table_or("none", ["kind", "name", "state"], recipes.iter().map(row))
}

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

pub(crate) async fn latch(command: LatchCommand) -> Result<(), CommandFailure> {
    match command {
        LatchCommand::Ls(args) => args.run(&[RecipeKind::Latch]).await?,
        LatchCommand::Create(LatchCreateArgs { latch: RecipeArgs { name, cluster }, count }) => {
            let client = cluster.client()?;
            let body = calls::closing(&client, client.latch(name).create(count)).await?;
            answer(cluster.format(), &body, body.left, &body.left.to_string());
        }
        LatchCommand::Down(LatchDownArgs { latch: RecipeArgs { name, cluster }, key }) => {
            let client = cluster.client()?;
            let left = calls::closing(&client, client.latch(name).count_down(key)).await?;
            answer(cluster.format(), &json!({ "left": left }), left, &left.to_string());
        }
        LatchCommand::Wait(LatchWaitArgs { latch: RecipeArgs { name, cluster }, wait }) => {
            let body = cluster.client()?.latch(name).wait(wait).await?;
            answer(cluster.format(), &body, "open", "open");
        }
        LatchCommand::Rm(RecipeArgs { name, cluster }) => {
            let client = cluster.client()?;
            calls::closing(&client, client.latch(name).delete()).await?;
        }
    }
    Ok(())
}

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

pub(crate) async fn counter(command: CounterCommand) -> Result<(), CommandFailure> {
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
    let Some(body) = calls::closing(&client, change).await? else { return Ok(()) };
    answer(args.cluster.format(), &body, body.value, &body.value.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use holdfast_types::{RecipeName, RecipeState, RecipeView};

    use super::*;

    #[test]
    fn each_kind_has_its_state_in_words() {
        let states = [
            RecipeState::Latch { count: 3, left: 1 },
            RecipeState::Latch { count: 3, left: 0 },
            RecipeState::Barrier { parties: 4, arrived: 2 },
            RecipeState::DoubleBarrier { parties: 2, arrived: 1, inside: 2 },
            RecipeState::Counter { value: -7 },
        ];
        let named = |state| RecipeView { name: RecipeName::new("a/b").unwrap(), state };
        let text = list_text(&states.map(|state| ListedRecipeBody::new(named(state))));
        for line in ["1 of 3 left", "open", "2 of 4 wait", "1 of 2 wait, 2 inside", "-7"] {
            assert!(text.lines().any(|row| row.ends_with(line)), "{line} in {text}");
        }
        assert!(text.contains("double-barrier  a/b"), "{text}");
        assert_eq!(list_text(&[]), "none");
    }
}
