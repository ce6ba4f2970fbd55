//! Fence: whether a token is still valid, who had it, and what a stale write means.

use futures_util::FutureExt as _;
use holdfast_api::{
    ErrorCode, FenceBody, HistoryBody, LockBody, fence_path, history_path, lock_path,
};
use holdfast_types::{LockName, Stamp};
use maud::{Markup, html};

use crate::call::ApiResult;
use crate::form::link;
use crate::layout::{missing, problem_box, snippet};
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{at, before, name, since, span};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "fence",
    title: "Fence",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// The most past holds in which the token is searched.
const HOLDS_MAX: usize = 1_000;

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let token = request.fields.typed("token").and_then(|token| token.parse::<u64>().ok());
    let asked = if request.fields.get("name").is_some() { Some(request.lock()?) } else { None };
    let live = match (&asked, token) {
        (Some(lock), Some(token)) => answer(request, lock, token).await?,
        (Some(_), None) => html! { p { "Give the token of a write or of a log." } },
        (None, _) => {
            html! { p { "Give a lock and a token to see whether the token is still valid, and who had it." } }
        }
    };
    let below = html! { @if !request.is_update { (explanation(request, asked.as_ref())) } };
    Ok(PageContent {
        title: "Fence".to_owned(),
        above: html! {
            form method="get" action="fence" class="filters" role="search" {
                label for="filter" { "Lock" }
                input type="search" id="filter" name="name" value=[request.fields.get("name")] required autocomplete="off" spellcheck="false";
                label for="token" { "Token" }
                input type="number" id="token" name="token" min="0" value=[token] required;
                button type="submit" { "Check" }
            }
        },
        live,
        below,
        revision: request.api.place().revision,
    })
}

async fn answer(request: &PageRequest, lock: &LockName, token: u64) -> ApiResult<Markup> {
    let target = format!("{}?token={token}", fence_path(lock));
    let checked: ApiResult<FenceBody> = request.api.read(&target).await;
    let state: LockBody = request.api.read(&lock_path(lock)).await?;
    let target = format!("{}?limit={HOLDS_MAX}", history_path(lock));
    let history: ApiResult<HistoryBody> = request.api.read(&target).await;
    Ok(html! {
        (verdict(&checked))
        section aria-labelledby="who-title" {
            h2 id="who-title" { "Who had token " (token) }
            (who(&state, token, request.now))
            @match &history {
                Ok(history) => (past(history, token, request.now)),
                Err(problem) => (missing("the history", problem)),
            }
        }
        p { a href=(link("lock", &[("name", lock.as_str())])) { "Open the lock" } }
    })
}

fn verdict(checked: &ApiResult<FenceBody>) -> Markup {
    html! {
        @match checked {
            Ok(fence) => p id="verdict" class="good" data-valid="true" {
                strong { "Valid" } ": the holder with token " (fence.token) " still holds the lock. A store accepts its writes."
            },
            Err(problem) if problem.code == ErrorCode::StaleToken => p id="verdict" class="bad" data-valid="false" {
                strong { "Not valid" } ": no holder has this token. A store that checks tokens rejects writes with it, once it has seen a larger one."
            },
            Err(problem) => { (problem_box(problem)) }
        }
    }
}

/// The present holder with this token.
fn who(lock: &LockBody, token: u64, now: Stamp) -> Markup {
    let holder = lock.holders.iter().find(|holder| holder.token.0 == token);
    html! {
        @if let Some(holder) = holder {
            p id="holder" { (name(holder.session.as_str())) " has it, since " (since(before(now, holder.held_for_ms), now)) "." }
        } @else if let Some(last) = lock.last_token {
            p id="holder" { "No present holder has it. The newest token of the lock is " (last) "." }
        } @else {
            p id="holder" { "The lock has never had a token." }
        }
    }
}

fn past(history: &HistoryBody, token: u64, now: Stamp) -> Markup {
    let hold = history.holds.iter().find(|hold| hold.token.0 == token);
    html! {
        @if let Some(hold) = hold {
            @let end = hold.ended_at.map_or(now, |end| end.0);
            p id="past" { (name(hold.session.as_str())) " got it at " (at(hold.granted_at.0, now)) " and had it for "
                (span(end.0.saturating_sub(hold.granted_at.0.0))) "; the end: " (hold.cause.as_deref().unwrap_or("held now")) "." }
        } @else {
            p id="past" class="quiet" { "The history of this node has no past hold with this token." }
        }
    }
}

fn explanation(request: &PageRequest, lock: Option<&LockName>) -> Markup {
    let lock = lock.map_or("orders", LockName::as_str);
    let sql = "UPDATE orders SET state = $1, fence = $2 WHERE id = $3 AND fence <= $2;";
    let curl = format!(
        "curl -sS '{}/v1/fence/{}?token=7'",
        request.address,
        holdfast_api::escape_path(lock)
    );
    html! {
        section aria-labelledby="why-title" {
            h2 id="why-title" { "Why a token" }
            ol {
                li { "A holder gets the lock with token 7, and its process is paused." }
                li { "Its session expires, and the next holder gets token 8." }
                li { "The next holder writes with token 8, and the store remembers 8." }
                li { "The first process runs again and writes with token 7. The store has seen 8, so it rejects the write." }
            }
            (snippet("guard", "the guard in SQL: no row is changed by an older token", sql))
            (snippet("check", "the same check for a shell", &curl))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;
    use crate::call::problem;

    #[test]
    fn a_stale_token_is_not_a_failure_of_the_page() {
        let stale = problem((ErrorCode::StaleToken, StatusCode::CONFLICT), "token 7 is stale", "");
        let text = verdict(&Err(stale)).into_string();
        assert!(
            text.contains(r#"data-valid="false""#) && !text.contains("class=\"problem\""),
            "{text}"
        );
        let busy = problem((ErrorCode::NoLeader, StatusCode::SERVICE_UNAVAILABLE), "x", "");
        assert!(verdict(&Err(busy)).into_string().contains("class=\"problem\""));
    }

    #[test]
    fn the_holder_of_a_token_is_named_or_the_newest_token_is() {
        let lock: LockBody = serde_json::from_str(
            r#"{"lock":"a","mode":"exclusive","held":true,"holders":[{"session":"web","token":8,"held_for_ms":9000,"hold_count":1,"labels":{}}],
            "waiters":0,"queue":[],"last_token":8}"#,
        )
        .unwrap();
        assert!(who(&lock, 8, Stamp(10_000)).into_string().contains("<bdi>web</bdi> has it"));
        assert!(
            who(&lock, 7, Stamp(10_000)).into_string().contains("newest token of the lock is 8")
        );
    }
}
