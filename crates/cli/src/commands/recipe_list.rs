//! `holdfast latch ls`, `barrier ls` and `counter ls`.

use clap::Args;
use holdfast_api::parameters::recipe::{RECIPE_KIND, RECIPE_PREFIX};
use holdfast_api::parameters::{LIMIT, LIST_LIMIT_MAX, PAGE_TOKEN};
use holdfast_api::{ListedRecipeBody, Query, RECIPES_PATH, RecipesBody};
use holdfast_client::Call;
use holdfast_types::{RecipeKind, Revision};

use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, table};

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
        answer_rows(self.cluster.format(), &body, &body.recipes, names, &show(&body.recipes));
        Ok(())
    }
}

fn show(recipes: &[ListedRecipeBody]) -> String {
    if recipes.is_empty() {
        return "none".to_owned();
    }
    let row = |recipe: &ListedRecipeBody| {
        [recipe.kind.as_str().to_owned(), recipe.name.to_string(), recipe.state_text()]
    };
    table(["kind", "name", "state"], recipes.iter().map(row))
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
        let text = show(&states.map(|state| ListedRecipeBody::new(named(state))));
        for line in ["1 of 3 left", "open", "2 of 4 wait", "1 of 2 wait, 2 inside", "-7"] {
            assert!(text.lines().any(|row| row.ends_with(line)), "{line} in {text}");
        }
        assert!(text.contains("double-barrier  a/b"), "{text}");
        assert_eq!(show(&[]), "none");
    }
}
