//! Latches, barriers, also double ones, and counters: one file for each noun. This file has their list, `GET /v1/recipes`.
//!
//! A waiting call returns 200 when the awaited event has happened and 423 when the wait times out. It returns 409 when
//! the event can no longer happen.

pub(crate) mod barrier;
pub(crate) mod counter;
pub(crate) mod latch;

use holdfast_api::parameters::recipe::{RECIPE_KIND, RECIPE_PREFIX};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, STALE};
use holdfast_api::{CallParams as _, ParamError, RecipesBody, Schemas, params};
use holdfast_service::{RecipeFilter, recipe_of_next};
use holdfast_types::{RecipeKind, RecipeName};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Operation, ResponseSpec, handler};
use crate::routes::RECIPES;

pub(crate) static LIST: Operation = Operation {
    summary: "List latches, barriers and counters, in order of their kinds and names",
    description: "If there are more, the response has a next_page_token for the parameter page_token of the next call. A barrier exists \
        while it has members.",
    params: ListRecipesParams::LIST,
    answers: || ResponseSpec::ok("A page of recipes", Schemas::of::<RecipesBody>),
    ..Operation::read("listRecipes", &RECIPES, CallAccess::Subject, handler!(list))
};

params! {
    struct ListRecipesParams {
        prefix: Option<String> = RECIPE_PREFIX,
        kind: Option<RecipeKind> = RECIPE_KIND,
        limit: usize = LIMIT,
        page_token: Option<String> = PAGE_TOKEN,
        stale: bool = STALE,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    let ListRecipesParams { prefix, kind, limit, page_token, stale } = call.params()?;
    let after = page_token.as_deref().map(last_recipe).transpose()?;
    let filter = RecipeFilter { prefix: prefix.unwrap_or_default(), kind };
    let recipes = call.service().recipes(&filter, after, limit, read_mode(stale));
    call.ok(recipes, |page, _| RecipesBody::new(page)).await
}

/// The kind and the name of the last recipe of a page: `counter/visits`.
fn last_recipe(token: &str) -> Result<(RecipeKind, RecipeName), ParamError> {
    recipe_of_next(token).ok_or_else(|| {
        let detail = "'page_token' is not a next_page_token of this list";
        ParamError::invalid(PAGE_TOKEN.name, detail)
            .hint("send the next_page_token of the previous page")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_the_last_recipe_of_the_page_before() {
        let (kind, name) = last_recipe("double-barrier/a/b").unwrap();
        assert_eq!((kind, name.as_str()), (RecipeKind::DoubleBarrier, "a/b"));
        for wrong in ["", "counter", "counter/", "lock/a", "Counter/a"] {
            let error = last_recipe(wrong).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some("page_token"), "{wrong:?}");
        }
    }
}
