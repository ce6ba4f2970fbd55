//! Recipes: the elections with their leaders and candidates, the semaphores, and the latches, barriers and
//! counters.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    ElectionBody, ErrorCode, LIST_LIMIT_MAX, ListedRecipeBody, LockBody, LocksBody, RECIPES_PATH,
    RecipesBody, barrier_path, counter_path, double_barrier_path, election_of, election_path,
    escape_query, latch_path,
};
use holdfast_types::{LockName, RecipeName, Revision, Stamp};
use maud::{Markup, html};

use crate::call::{ApiResult, problem};
use crate::form::link;
use crate::layout::problem_box;
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{before, count, name, since, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "recipes",
    title: "Recipes",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// The most elections whose candidates are read.
const ELECTIONS_MAX: usize = 50;
/// The most latches, barriers and counters of the list.
const RECIPES_MAX: usize = 200;

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let (elections, revision) = elections(request).await?;
    let target = format!("/v1/locks?limit={LIST_LIMIT_MAX}");
    let locks: LocksBody = request.api.read(&target).await?;
    let is_cut = locks.next_page_token.is_some();
    let semaphores: Vec<LockBody> =
        locks.locks.into_iter().filter(|lock| limit(lock).is_some()).collect();
    let others = recipe_section(request).await?;
    Ok(PageContent {
        title: "Recipes".to_owned(),
        live: html! { (election_section(&elections, request.now)) (semaphore_section(&semaphores, is_cut)) (others) },
        revision: Some(revision),
        ..PageContent::default()
    })
}

fn limit(lock: &LockBody) -> Option<u32> {
    lock.policy.and_then(|policy| policy.limit)
}

async fn elections(request: &PageRequest) -> ApiResult<(Vec<ElectionBody>, Revision)> {
    let target = format!("/v1/locks?prefix=elections%2F&limit={ELECTIONS_MAX}");
    let listed: LocksBody = request.api.read(&target).await?;
    let mut elections = Vec::new();
    // The shards of a sharded lock are elections of their own.
    let is_one = |lock: &&LockBody| lock.policy.is_none_or(|policy| policy.shards.is_none());
    let listed_elections = listed.locks.iter().filter(is_one);
    for election in listed_elections.filter_map(|lock| election_of(&lock.lock)) {
        elections.push(request.api.read(&election_path(&election)).await?);
    }
    Ok((elections, listed.revision))
}

fn election_section(elections: &[ElectionBody], now: Stamp) -> Markup {
    html! {
        section aria-labelledby="elections-title" {
            h2 id="elections-title" { "Elections" }
            @if elections.is_empty() { p id="no-elections" { "No election. A campaign makes one: " code { "holdfast elect primary -- ./serve.sh" } } }
            div class="cards" { @for election in elections { (election_card(election, now)) } }
        }
    }
}

fn election_card(election: &ElectionBody, now: Stamp) -> Markup {
    let lock = holdfast_api::election_lock(&election.election);
    let lock = lock.as_ref().map_or("", LockName::as_str);
    let more =
        u64::from(election.candidates_total).saturating_sub(election.candidates.len() as u64);
    html! {
        article data-election=(election.election) {
            h3 { a href=(link("lock", &[("name", lock)])) { (name(election.election.as_str())) } }
            @match &election.leader {
                Some(leader) => p data-field="leader" { (name(leader.session.as_str())) " leads"
                    @if let Some(age) = election.leading_for_ms { " for " (since(before(now, age), now)) }
                    ", token " (leader.token)
                    @if let Some(value) = &leader.value { ": " (visible(value)) } },
                None => p data-field="leader" { "This election has no leader." },
            }
            p { (count(election.candidates_total.into(), "candidate")) @if !election.candidates.is_empty() { ":" } }
            ol { @for candidate in &election.candidates {
                li { (name(candidate.session.as_str())) " for " (since(before(now, candidate.waiting_for_ms), now))
                    @if let Some(value) = &candidate.value { ": " (visible(value)) } }
            } }
            @if more > 0 { p.quiet { "and " (more) " more" } }
        }
    }
}

fn semaphore_section(semaphores: &[LockBody], is_cut: bool) -> Markup {
    html! {
        section aria-labelledby="semaphores-title" {
            h2 id="semaphores-title" { "Semaphores" }
            @if is_cut { p.quiet { "Of the first " (LIST_LIMIT_MAX) " locks, by name." } }
            @if semaphores.is_empty() { p { "No semaphore." } } @else {
                div class="scroll" { table id="semaphores" class="rows" {
                    thead { tr { th scope="col" { "Semaphore" } th scope="col" { "Permits" } th scope="col" class="number" { "Waiters" } } }
                    tbody { @for lock in semaphores {
                        @let (held, limit) = (lock.permits_held.unwrap_or(0), limit(lock).unwrap_or(1));
                        tr data-lock=(lock.lock) {
                            th scope="row" { a href=(link("lock", &[("name", lock.lock.as_str())])) { (name(lock.lock.as_str())) } }
                            td { meter min="0" max=(limit) value=(held.min(limit)) aria-label="Held permits" {} " " (held) " of " (limit) }
                            td class="number" { (lock.waiters) }
                        }
                    } }
                } }
            }
        }
    }
}

/// The latches, barriers and counters, and the fields of the one that the reader chose.
async fn recipe_section(request: &PageRequest) -> ApiResult<Markup> {
    let below = request.fields.typed("below");
    let target = match below {
        Some(below) => {
            format!("{RECIPES_PATH}?prefix={}&limit={RECIPES_MAX}", escape_query(below))
        }
        None => format!("{RECIPES_PATH}?limit={RECIPES_MAX}"),
    };
    let listed: RecipesBody = request.api.read(&target).await?;
    let chosen = request.fields.get("kind").zip(request.fields.get("name"));
    let found = match chosen {
        Some((kind, wanted)) => Some(read(request, kind, wanted).await),
        None => None,
    };
    Ok(html! {
        section aria-labelledby="others-title" {
            h2 id="others-title" { "Latches, barriers and counters" }
            form method="get" action="recipes" class="filters" role="search" {
                label for="below" { "Names that begin with" }
                input id="below" name="below" value=[below] autocomplete="off" spellcheck="false" data-filter;
                button type="submit" { "Search" }
            }
            @if listed.next_page_token.is_some() { p.quiet { "The first " (RECIPES_MAX) " by kind and name: search for the others." } }
            @if listed.recipes.is_empty() { p id="no-recipes" { "None. A call makes one: " code { "holdfast latch create ready --count 3" } } }
            @else { (table(&listed.recipes)) }
            @match &found {
                Some(Ok(fields)) => dl id="recipe" { @for (field, value) in fields { dt { (visible(field)) } dd { (visible(value)) } } },
                Some(Err(problem)) => { (problem_box(problem)) }
                None => {}
            }
        }
    })
}

fn table(recipes: &[ListedRecipeBody]) -> Markup {
    html! {
        div class="scroll" { table id="recipes" class="rows" {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Kind" } th scope="col" { "State" } } }
            tbody { @for recipe in recipes {
                @let (kind, text) = (recipe.kind.as_str(), recipe.name.as_str());
                tr data-recipe=(text) data-kind=(kind) {
                    th scope="row" { a href=(link("recipes", &[("kind", kind), ("name", text)])) { (name(text)) } }
                    td { (kind) }
                    td data-field="state" { (recipe.state_text()) }
                }
            } }
        } }
    }
}

async fn read(request: &PageRequest, kind: &str, wanted: &str) -> ApiResult<Vec<(String, String)>> {
    let recipe = RecipeName::new(wanted).map_err(|error| {
        let code = (ErrorCode::BadName, StatusCode::BAD_REQUEST);
        problem(code, error.to_string(), "write the name of the recipe")
    })?;
    let target = match kind {
        "barrier" => barrier_path(&recipe),
        "double-barrier" => double_barrier_path(&recipe),
        "counter" => counter_path(&recipe),
        _ => latch_path(&recipe),
    };
    Ok(fields(&request.api.read::<serde_json::Value>(&target).await?))
}

/// The fields of a body in words.
fn fields(body: &serde_json::Value) -> Vec<(String, String)> {
    let shown = |(field, value): (&String, &serde_json::Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (field.replace('_', " "), value)
    };
    body.as_object().into_iter().flatten().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_shows_its_leader_and_its_candidates_in_order() {
        let text = r#"{"election":"db","leader":{"session":"one","token":7,"value":"<b>10.0.0.7"},"leading_for_ms":61000,
            "candidates":[{"session":"two","waiting_for_ms":2000},{"session":"three","waiting_for_ms":1000}],"candidates_total":5,"revision":9}"#;
        let election: ElectionBody = serde_json::from_str(text).unwrap();
        let card = election_card(&election, Stamp(100_000)).into_string();
        assert!(card.contains("lock?name=elections%2Fdb") && card.contains("1 min 1 s"), "{card}");
        assert!(card.find("two") < card.find("three") && card.contains("and 3 more"), "{card}");
        assert!(!card.contains("<b>"), "{card}");
    }

    #[test]
    fn a_recipe_of_the_list_has_its_state_and_a_link_to_its_fields() {
        let text = r#"[{"kind":"latch","name":"a/<b>","count":3,"left":1},{"kind":"counter","name":"n","value":42}]"#;
        let shown = table(&serde_json::from_str::<Vec<_>>(text).unwrap()).into_string();
        assert!(shown.contains("recipes?kind=latch&amp;name=a%2F%3Cb%3E"), "{shown}");
        assert!(shown.contains("1 of 3 left") && shown.contains(">42</td>"), "{shown}");
        assert!(!shown.contains("<b>"), "{shown}");
    }

    #[test]
    fn the_fields_of_a_recipe_are_shown_in_words() {
        let body = serde_json::json!({ "counter": "visits", "value": 3 });
        let expected = [("counter", "visits"), ("value", "3")];
        assert_eq!(fields(&body), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
