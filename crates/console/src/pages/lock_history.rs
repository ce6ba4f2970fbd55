//! The past of a lock: the holds of the last hour, and whether a fencing token is still valid.

use holdfast_api::{
    ErrorCode, FenceBody, HistoryBody, LockBody, PastHoldBody, WaiterBody, fence_path, history_path,
};
use holdfast_types::{LockName, SessionName, Stamp, format_time};
use maud::{Markup, html};

use crate::call::ApiResult;
use crate::form::link;
use crate::layout::{missing, problem_box};
use crate::page::PageRequest;
use crate::plot::{TimelineBar, timeline};
use crate::text::{at, before, count, name, span};

/// The time that the timeline shows.
const HOUR_MS: u64 = 3_600_000;
/// The step in which the timeline moves.
const STEP_MS: u64 = 20_000;
/// The most holds that are read.
const HOLDS_MAX: usize = 200;
/// The most rows of the timeline; later sessions share the last one.
const ROWS_MAX: usize = 8;
/// The most waiters of the timeline: the first ones of the queue.
const WAITERS_MAX: usize = 8;

/// The timeline and the table of the last hour. A sharded lock has none: its shards have them.
pub(super) async fn section(request: &PageRequest, lock: &LockBody) -> Markup {
    if !lock.shards.is_empty() {
        return html! {};
    }
    let target = format!("{}?limit={HOLDS_MAX}", history_path(&lock.lock));
    let history: ApiResult<HistoryBody> = request.api.read(&target).await;
    html! {
        section aria-labelledby="history-title" {
            h2 id="history-title" { "The last hour" }
            @match &history {
                Ok(history) => (holds(&history.holds, &lock.queue, request.now)),
                Err(problem) => (missing("the history", problem)),
            }
        }
    }
}

fn holds(all: &[PastHoldBody], queue: &[WaiterBody], now: Stamp) -> Markup {
    let from = now.0.saturating_sub(HOUR_MS);
    let recent: Vec<_> =
        all.iter().filter(|hold| hold.ended_at.is_none_or(|end| end.0.0 >= from)).collect();
    if recent.is_empty() {
        return html! { p id="history" { "No hold in the last hour." } };
    }
    // The plot moves in steps, so that an update without a change is equal.
    let to = Stamp(now.0.next_multiple_of(STEP_MS));
    let waiters = &queue[..queue.len().min(WAITERS_MAX)];
    let (bars, rows) = bars(&recent, waiters, (now, to));
    html! {
        p { (count(recent.len() as u64, "hold")) @if all.len() >= HOLDS_MAX { ", the newest" } ". One row for each session, from left to right; who waits now has a dotted line." }
        (timeline("Holds of the last hour and present waiters, one row for each session", rows, (to.0.saturating_sub(HOUR_MS), to.0), &bars))
        details {
            summary { "The holds as a table" }
            div class="scroll" {
                table id="history" {
                    thead { tr { th scope="col" class="number" { "Token" } th scope="col" { "Session" } th scope="col" { "Granted" }
                        th scope="col" { "For" } th scope="col" { "End" } } }
                    tbody { @for hold in &recent { (row(hold, now)) } }
                }
            }
        }
    }
}

fn row(hold: &PastHoldBody, now: Stamp) -> Markup {
    let end = hold.ended_at.map_or(now, |end| end.0);
    html! {
        tr data-token=(hold.token) {
            td class="number" { (hold.token) }
            th scope="row" { (name(hold.session.as_str())) }
            td { (at(hold.granted_at.0, now)) }
            td { @if hold.ended_at.is_some() { (span(end.0.saturating_sub(hold.granted_at.0.0))) } }
            td data-field="cause" { (hold.cause.as_deref().unwrap_or("held now")) }
        }
    }
}

/// The rows of a timeline, one for each session.
#[derive(Default)]
struct Rows<'a>(Vec<&'a SessionName>);

impl<'a> Rows<'a> {
    fn of(&mut self, session: &'a SessionName) -> usize {
        let known = self.0.iter().position(|row| *row == session);
        known.unwrap_or_else(|| {
            if self.0.len() < ROWS_MAX {
                self.0.push(session);
            }
            self.0.len() - 1
        })
    }
}

/// The bars of a timeline that ends at `to`, and its number of rows.
fn bars(
    holds: &[&PastHoldBody],
    waiters: &[WaiterBody],
    (now, to): (Stamp, Stamp),
) -> (Vec<TimelineBar>, usize) {
    let mut rows = Rows::default();
    let holds = holds.iter().map(|hold| {
        let row = rows.of(&hold.session);
        let begin = hold.granted_at.0;
        let end = hold.ended_at.map_or(to, |end| end.0);
        let fate = match (hold.ended_at, hold.cause.as_deref()) {
            (Some(end), Some(cause)) => {
                format!("{}, {cause}", span(end.0.0.saturating_sub(begin.0)))
            }
            (Some(_) | None, _) => "held now".to_owned(),
        };
        TimelineBar {
            row,
            begin: begin.0,
            end: end.0,
            class: class_of(hold.cause.as_deref()),
            title: format!("{}, token {}, {fate}", hold.session, hold.token),
        }
    });
    let mut bars: Vec<_> = holds.collect();
    bars.extend(waiters.iter().map(|waiter| {
        // Rounded, because two replies differ by the time of a call.
        let began = before(now, waiter.waiting_for_ms).0 / 1_000 * 1_000;
        let title = format!("{}, waits since {}", waiter.session, format_time(Stamp(began)));
        TimelineBar {
            row: rows.of(&waiter.session),
            begin: began,
            end: to.0,
            class: "waiting",
            title,
        }
    }));
    (bars, rows.0.len())
}

/// The class of a hold by its end: released, present, or ended by something else.
fn class_of(cause: Option<&str>) -> &'static str {
    match cause {
        None => "held",
        Some("released") => "released",
        Some(_) => "ended",
    }
}

/// The field for a token, and the answer for the token of the page.
pub(super) async fn fence_check(request: &PageRequest, lock: &LockName) -> Markup {
    let token = request.fields.typed("token");
    let answer = match token.and_then(|token| token.parse::<u64>().ok()) {
        Some(token) => {
            let target = format!("{}?token={token}", fence_path(lock));
            let checked: ApiResult<FenceBody> = request.api.read(&target).await;
            Some(fence_answer(checked))
        }
        None => None,
    };
    html! {
        section aria-labelledby="fence-title" {
            h2 id="fence-title" { "Fence check" }
            form method="get" action="lock" class="filters" {
                input type="hidden" name="name" value=(lock.as_str());
                label for="token" { "Is this token still valid?" }
                input id="token" name="token" inputmode="numeric" pattern="[0-9]+" required value=[token];
                button type="submit" { "Check" }
            }
            @if let Some(answer) = answer { (answer) }
            p.quiet { a href=(link("fence", &[("name", lock.as_str()), ("token", token.unwrap_or_default())])) { "More about fencing" } }
        }
    }
}

fn fence_answer(checked: ApiResult<FenceBody>) -> Markup {
    match checked {
        Ok(fence) => html! {
            p id="fence" class="good" { "Valid: token " (fence.token) " belongs to a present holder." }
        },
        Err(problem) if problem.code == ErrorCode::StaleToken => html! {
            p id="fence" class="bad" {
                "Not valid: a store must reject it."
                @if let Some(current) = problem.facts.current { " The present token is " (current) "." }
                @if let Some(highest) = problem.facts.highest { " The newest token is " (highest) "." }
            }
        },
        Err(problem) => problem_box(&problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(session: &str, token: u64, from: &str, cause: Option<&str>) -> PastHoldBody {
        let mut json =
            serde_json::json!({ "token": token, "session": session, "granted_at": from });
        if let Some(cause) = cause {
            json["cause"] = cause.into();
            json["ended_at"] = "2026-03-01T14:00:10Z".into();
        }
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn each_session_has_a_row_of_the_timeline_and_the_rest_share_the_last() {
        let now = holdfast_api::parse_time("2026-03-01T14:05:00Z").unwrap();
        let mut all = vec![
            hold("a", 3, "2026-03-01T14:04:00Z", None),
            hold("b", 2, "2026-03-01T14:00:00Z", Some("expired")),
            hold("a", 1, "2026-03-01T13:59:00Z", Some("released")),
        ];
        let (drawn, rows) = bars(&all.iter().collect::<Vec<_>>(), &[], (now, now));
        assert_eq!(rows, 2);
        let shown: Vec<_> = drawn.iter().map(|bar| (bar.row, bar.class)).collect();
        assert_eq!(shown, [(0, "held"), (1, "ended"), (0, "released")]);
        assert_eq!(drawn[1].title, "b, token 2, 10 s, expired");
        all.extend(
            (0..20).map(|n| hold(&format!("s{n}"), 1, "2026-03-01T13:00:00Z", Some("released"))),
        );
        let (drawn, rows) = bars(&all.iter().collect::<Vec<_>>(), &[], (now, now));
        assert_eq!(rows, ROWS_MAX);
        assert!(drawn.iter().all(|bar| bar.row < ROWS_MAX));
    }

    #[test]
    fn a_waiter_has_a_line_from_the_start_of_its_wait() {
        let now = holdfast_api::parse_time("2026-03-01T14:05:00Z").unwrap();
        let held = hold("a", 3, "2026-03-01T14:04:00Z", None);
        let waiter = |session: &str| {
            let json =
                serde_json::json!({ "session": session, "waiting_for_ms": 29_700, "labels": {} });
            serde_json::from_value(json).unwrap()
        };
        let (drawn, rows) = bars(&[&held], &[waiter("a"), waiter("b")], (now, now));
        assert_eq!((rows, drawn[1].row, drawn[2].row), (2, 0, 1));
        assert_eq!((drawn[2].begin, drawn[2].class), (now.0 - 30_000, "waiting"));
        assert_eq!(drawn[2].title, "b, waits since 2026-03-01T14:04:30Z");
    }

    #[test]
    fn holds_that_ended_before_the_last_hour_are_left_out() {
        let now = holdfast_api::parse_time("2026-03-01T18:00:00Z").unwrap();
        let old = hold("a", 1, "2026-03-01T13:59:00Z", Some("released"));
        assert!(holds(&[old], &[], now).into_string().contains("No hold"));
        let held = hold("a", 1, "2026-03-01T13:59:00Z", None);
        let text = holds(&[held], &[], now).into_string();
        assert!(text.contains("held now") && text.contains("4 h 1 min"), "{text}");
    }
}
