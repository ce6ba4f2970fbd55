//! The sessions: the list, and one session with its remaining lifetime, its holds and its waits.

use axum::http::{Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, SessionBody, SessionsBody, escape_query, session_path};
use holdfast_types::{LockName, Right, SessionName, Stamp};
use maud::{Markup, html};

use super::locks::labels;
use crate::call::{ApiCall, ApiCalls, ApiResult, problem};
use crate::form::link;
use crate::layout::snippet;
use crate::page::{ConsoleAction, ConsolePage, PageContent, PageRequest, PlannedChange};
use crate::text::{after, before, count, name, since, span, until};

pub(super) static LIST: ConsolePage = ConsolePage {
    path: "sessions",
    title: "Sessions",
    in_navigation: true,
    render: |request| list(request).boxed(),
};

pub(super) static ONE: ConsolePage = ConsolePage {
    path: "session",
    title: "Session",
    in_navigation: false,
    render: |request| one(request).boxed(),
};

pub(super) static CLOSE: ConsoleAction =
    ConsoleAction { name: "close-session", plan: |request| close(request).boxed() };

/// Rows of one page.
const ROWS: usize = 250;
/// The most sessions that a search reads.
const SEARCHED_MAX: usize = 20_000;
/// The most locks of a session that the list names.
const NAMED_MAX: usize = 5;

async fn list(request: &PageRequest) -> ApiResult<PageContent> {
    let wanted = request.fields.typed("q").unwrap_or_default().to_lowercase();
    let found = find(&request.api, &wanted, request.fields.get("after")).await?;
    let SessionsBody { sessions, next_page_token, revision } = &found;
    let live = html! {
        p id="found" { (count(sessions.len() as u64, "session")) @if next_page_token.is_some() { ", of more" } }
        @if sessions.is_empty() { (nothing(request, &wanted)) } @else { (table(sessions, request.now)) }
        @if let Some(next) = next_page_token {
            p { a id="next" href=(link("sessions", &[("q", &wanted), ("after", next)])) { "Next sessions" } }
        }
    };
    Ok(PageContent {
        title: "Sessions".to_owned(),
        above: html! {
            form method="get" action="sessions" class="filters" role="search" {
                label for="filter" { "Name, label or subject contains" }
                input type="search" id="filter" name="q" value=(wanted) autocomplete="off" spellcheck="false" data-filter;
                button type="submit" { "Apply" }
            }
        },
        live,
        revision: Some(*revision),
        ..PageContent::default()
    })
}

/// Reads one page, or with a search as many pages as it takes to fill one.
async fn find(api: &ApiCalls, wanted: &str, after: Option<&str>) -> ApiResult<SessionsBody> {
    let (mut found, mut after, mut seen) = (Vec::new(), after.map(str::to_owned), 0);
    loop {
        let token = after.as_deref().map(|after| format!("&page_token={}", escape_query(after)));
        let target = format!("/v1/sessions?limit={ROWS}{}", token.unwrap_or_default());
        let page: SessionsBody = api.read(&target).await?;
        seen += page.sessions.len();
        found.extend(page.sessions.into_iter().filter(|session| matches(session, wanted)));
        after = page.next_page_token;
        if wanted.is_empty() || after.is_none() || found.len() >= ROWS || seen >= SEARCHED_MAX {
            let revision = page.revision;
            return Ok(SessionsBody { sessions: found, next_page_token: after, revision });
        }
    }
}

fn matches(session: &SessionBody, wanted: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(wanted);
    let subject = session.subject.as_ref().map_or("", |subject| subject.as_str());
    has(session.session.as_str())
        || has(subject)
        || session.labels.iter().any(|(key, value)| has(&format!("{key}={value}")))
}

fn nothing(request: &PageRequest, wanted: &str) -> Markup {
    let curl = format!("curl -sS -X PUT '{}/v1/sessions/me?ttl=10m'", request.address);
    html! {
        @if wanted.is_empty() {
            section id="empty" class="panel" {
                p { "No session is open. A session begins with its first call:" }
                (snippet("first-call", "open the session me for ten minutes", &curl))
            }
        } @else {
            p id="empty" { "No session matches. " a href="sessions" { "Show all sessions" } }
        }
    }
}

fn table(sessions: &[SessionBody], now: Stamp) -> Markup {
    html! {
        div class="scroll" {
            table class="rows" {
                thead { tr {
                    th scope="col" { "Session" } th scope="col" { "Subject" } th scope="col" { "Holds" } th scope="col" { "Waits for" }
                    th scope="col" { "Open for" } th scope="col" class="number" { "TTL" }
                } }
                tbody { @for session in sessions { (row(session, now)) } }
            }
        }
    }
}

fn row(session: &SessionBody, now: Stamp) -> Markup {
    let id = session.session.as_str();
    html! {
        tr id={ "session-" (id) } data-session=(id) {
            th scope="row" { a href=(link("session", &[("id", id)])) { (name(id)) } (labels(session.labels.iter())) }
            td data-field="subject" { @match &session.subject { Some(subject) => (name(subject.as_str())), None => span.quiet { "none" } } }
            td data-field="holds" { (locks(session.holds.iter().map(|hold| hold.lock.as_str()))) }
            td data-field="waits" { (locks(session.waits.iter().map(LockName::as_str))) }
            td { (since(before(now, session.open_for_ms), now)) }
            td class="number" { (span(session.ttl_ms.into())) }
        }
    }
}

fn locks<'l>(names: impl ExactSizeIterator<Item = &'l str>) -> Markup {
    let more = names.len().saturating_sub(NAMED_MAX);
    html! {
        @for (at, lock) in names.take(NAMED_MAX).enumerate() {
            @if at > 0 { ", " } a href=(link("lock", &[("name", lock)])) { (name(lock)) }
        }
        @if more > 0 { " and " (more) " more" }
    }
}

/// The session that the field `id` names.
async fn wanted(request: &PageRequest) -> ApiResult<SessionBody> {
    let id = request.fields.get("id").unwrap_or_default();
    let id = SessionName::new(id).map_err(|error| {
        let code = (ErrorCode::BadName, StatusCode::BAD_REQUEST);
        problem(code, error.to_string(), "open the session from the list of sessions")
    })?;
    request.api.read(&session_path(&id)).await
}

async fn one(request: &PageRequest) -> ApiResult<PageContent> {
    let session = wanted(request).await?;
    let id = session.session.as_str();
    let may_close = request.may(Right::SessionClose, id).await;
    let act = link("act", &[("do", CLOSE.name), ("id", id)]);
    Ok(PageContent {
        title: format!("Session {id}"),
        above: html! { p { a href="sessions" { "all sessions" } } },
        live: html! { (summary(&session, request.now)) (holds(&session)) (waits(&session)) },
        below: html! { @if may_close { div class="buttons" { a class="button" id="close" href=(act) { "Close the session" } } } },
        revision: session.revision,
    })
}

fn summary(session: &SessionBody, now: Stamp) -> Markup {
    let ttl = u64::from(session.ttl_ms);
    html! {
        p id="summary" class="summary" {
            @if let Some(left) = session.expires_in_ms {
                "Expires in " (until(after(now, left), now)) " without a renewal. "
                meter min="0" max=(ttl) value=(left.min(ttl)) low=(ttl / 3) aria-label="Remaining lifetime" {}
            } @else { "Has no lease that this node knows." }
        }
        dl {
            dt { "Lifetime of a renewal" } dd { (span(ttl)) }
            dt { "Open for" } dd { (since(before(now, session.open_for_ms), now)) }
            dt { "Number" } dd { (session.incarnation) }
            dt { "Subject" } dd { @match &session.subject { Some(subject) => (name(subject.as_str())), None => "none: it was opened without a credential" } }
            dt { "Labels" } dd { @if session.labels.iter().next().is_none() { "none" } (labels(session.labels.iter())) }
            dt { "Opened by" } dd { @if session.anonymous { "the server, for one acquire; it ends with the last release" } @else { "its client" } }
        }
    }
}

fn holds(session: &SessionBody) -> Markup {
    html! {
        section aria-labelledby="holds-title" {
            h2 id="holds-title" { "Holds " (count(session.holds.len() as u64, "lock")) }
            @if !session.holds.is_empty() {
                div class="scroll" {
                    table id="holds" class="rows" {
                        thead { tr { th scope="col" { "Lock" } th scope="col" class="number" { "Token" } } }
                        tbody {
                            @for hold in &session.holds {
                                tr data-lock=(hold.lock) data-token=(hold.token) {
                                    th scope="row" { a href=(link("lock", &[("name", hold.lock.as_str())])) { (name(hold.lock.as_str())) } }
                                    td class="number" { (hold.token) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn waits(session: &SessionBody) -> Markup {
    html! {
        section aria-labelledby="waits-title" {
            h2 id="waits-title" { "Waits for " (count(session.waits.len() as u64, "lock")) }
            ul id="waits" { @for lock in &session.waits {
                li { a href=(link("lock", &[("name", lock.as_str())])) { (name(lock.as_str())) } }
            } }
        }
    }
}

async fn close(request: &PageRequest) -> ApiResult<PlannedChange> {
    let session = wanted(request).await?;
    let id = session.session.as_str();
    let effect = html! {
        p { "Session " (name(id)) " ends at once." }
        @if session.holds.is_empty() { p { "It holds no lock." } }
        ul { @for hold in &session.holds {
            li { "it loses " (name(hold.lock.as_str())) " with token " (hold.token) "; the next waiter is granted" }
        } }
        @if !session.waits.is_empty() { p { "It leaves the queues of " (count(session.waits.len() as u64, "lock")) "." } }
        p { "Its ephemeral znodes are deleted. Its client learns of the end with its next call." }
    };
    let query = vec![
        ("force", "true".to_owned()),
        // A newer session of the same name stays.
        ("incarnation", session.incarnation.to_string()),
    ];
    let title = format!("Close session {id}");
    let call = ApiCall { method: Method::DELETE, path: session_path(&session.session), query };
    let change =
        PlannedChange::new(title, "Close the session", effect, call, "sessions".to_owned());
    Ok(PlannedChange { takes_reason: true, ..change })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(more: &str) -> SessionBody {
        let text = format!(
            r#"{{"session":"<b>web","incarnation":7,"ttl_ms":30000,"open_for_ms":60000,"anonymous":false,
            "labels":{{"host":"<i>"}},"subject":"shop","holds":[{{"lock":"orders","token":4812}}],"waits":["stock"]{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_row_links_its_locks_and_escapes_names_and_labels() {
        let text = row(&session(""), Stamp(100_000)).into_string();
        assert!(!text.contains("<b>") && !text.contains("<i>"), "{text}");
        assert!(text.contains("session?id=%3Cb%3Eweb"), "{text}");
        assert!(text.contains("lock?name=orders") && text.contains("lock?name=stock"), "{text}");
        let many = locks((0..7).map(|_| "a")).into_string();
        assert!(many.ends_with(" and 2 more"), "{many}");
    }

    #[test]
    fn the_remaining_lifetime_is_a_bar_within_the_ttl() {
        let text = summary(&session(r#","expires_in_ms":20000"#), Stamp(0)).into_string();
        assert!(text.contains(r#"<meter min="0" max="30000" value="20000" low="10000""#), "{text}");
        let late = summary(&session(r#","expires_in_ms":90000"#), Stamp(0)).into_string();
        assert!(late.contains(r#"value="30000""#), "{late}");
        assert!(!summary(&session(""), Stamp(0)).into_string().contains("<meter"));
    }

    #[test]
    fn a_search_finds_names_labels_and_subjects() {
        let one = session("");
        for wanted in ["", "web", "host=<i", "shop"] {
            assert!(matches(&one, wanted), "{wanted}");
        }
        assert!(!matches(&one, "stock"));
    }
}
