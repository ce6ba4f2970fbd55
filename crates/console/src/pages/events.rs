//! The live events: the changes of the newest revisions, filtered by a prefix and a kind; a pause keeps the page as it is.
//!
//! Each update reads the changes of the last [`REVISIONS`] revisions again. A busy cluster makes more between two updates: the
//! page then has a mark before the oldest revision that it shows.

use futures_util::FutureExt as _;
use holdfast_api::{ChangeBody, ErrorCode, WatchBody, escape_query};
use maud::{Markup, html};

use crate::call::ApiResult;
use crate::form::{FormFields, link};
use crate::layout::problem_box;
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{count, name};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "events",
    title: "Live",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// The revisions that the page shows.
const REVISIONS: u64 = 500;
/// The most rows.
const ROWS: usize = 100;
/// The most calls that read the changes.
const READS_MAX: usize = 4;
const KINDS: [&str; 5] = ["granted", "lost", "created", "changed", "deleted"];

/// The filter, from the fields of the page.
#[derive(Debug)]
struct EventFilter<'a> {
    /// The beginning of the paths, such as `/locks/`.
    prefix: &'a str,
    /// A kind, or everything.
    kind: &'a str,
    /// The last revision of a paused page.
    paused_at: Option<u64>,
}

impl<'a> EventFilter<'a> {
    fn of(fields: &'a FormFields) -> Self {
        Self {
            prefix: fields.typed("prefix").filter(|prefix| prefix.starts_with('/')).unwrap_or("/"),
            kind: fields.get("kind").filter(|kind| KINDS.contains(kind)).unwrap_or_default(),
            paused_at: fields.get("pause").and_then(|revision| revision.parse().ok()),
        }
    }

    fn target(&self, since: Option<u64>) -> String {
        let since = since.map(|since| format!("&since={since}")).unwrap_or_default();
        format!("/v1/watch?prefix={}&wait=0s{since}", escape_query(self.prefix))
    }

    fn matches(&self, change: &ChangeBody) -> bool {
        let in_time = self.paused_at.is_none_or(|last| change.revision.0 <= last);
        in_time && (self.kind.is_empty() || self.kind == change.kind.as_str())
    }
}

/// The changes after a revision.
#[derive(Debug)]
struct EventWindow {
    after: u64,
    up_to: u64,
    /// The newest first.
    changes: Vec<ChangeBody>,
}

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let filter = EventFilter::of(&request.fields);
    let newest: WatchBody = request.api.read(&filter.target(None)).await?;
    let up_to = filter.paused_at.unwrap_or(newest.revision.0);
    let window = window(request, &filter, up_to).await;
    let live = match &window {
        Ok(window) => rows(&filter, window),
        // The node has forgotten the changes that a paused page shows.
        Err(problem) if problem.code == ErrorCode::RevisionCompacted => {
            html! { p id="gap" { "The node has forgotten these changes. " a href="events" { "Show the newest" } } }
        }
        Err(problem) => problem_box(problem),
    };
    Ok(PageContent {
        title: "Live events".to_owned(),
        above: html! { (filters(&filter)) },
        live,
        revision: Some(newest.revision),
        ..PageContent::default()
    })
}

async fn window(
    request: &PageRequest,
    filter: &EventFilter<'_>,
    up_to: u64,
) -> ApiResult<EventWindow> {
    let after = up_to.saturating_sub(REVISIONS);
    match changes(request, filter, after, up_to).await {
        // After a start from a snapshot, the node knows only later changes.
        Err(problem) if problem.code == ErrorCode::RevisionCompacted => {
            let after = oldest_known(request, filter, after + 1, up_to).await?;
            changes(request, filter, after, up_to).await
        }
        read => read,
    }
}

async fn changes(
    request: &PageRequest,
    filter: &EventFilter<'_>,
    after: u64,
    up_to: u64,
) -> ApiResult<EventWindow> {
    let (mut since, mut changes) = (after, Vec::new());
    for _ in 0..READS_MAX {
        let read: WatchBody = request.api.read(&filter.target(Some(since))).await?;
        let is_last = read.events.is_empty() || read.revision.0 >= up_to;
        changes.extend(read.events.into_iter().filter(|change| filter.matches(change)));
        since = read.revision.0;
        if is_last {
            break;
        }
    }
    changes.reverse();
    Ok(EventWindow { after, up_to: up_to.min(since.max(after)), changes })
}

/// The oldest revision after which the node knows every change. The API names no such bound, so the page tries revisions.
async fn oldest_known(
    request: &PageRequest,
    filter: &EventFilter<'_>,
    mut low: u64,
    mut high: u64,
) -> ApiResult<u64> {
    while low < high {
        let middle = low + (high - low) / 2;
        match request.api.read::<WatchBody>(&filter.target(Some(middle))).await {
            Ok(_) => high = middle,
            Err(problem) if problem.code == ErrorCode::RevisionCompacted => low = middle + 1,
            Err(problem) => return Err(problem),
        }
    }
    Ok(high)
}

fn filters(filter: &EventFilter<'_>) -> Markup {
    html! {
        form method="get" action="events" class="filters" role="search" {
            label for="filter" { "Path begins with" }
            input type="search" id="filter" name="prefix" value=(filter.prefix) autocomplete="off" spellcheck="false" data-filter;
            label for="kind" { "Kind" }
            select id="kind" name="kind" {
                option value="" selected[filter.kind.is_empty()] { "all" }
                @for kind in KINDS { option value=(kind) selected[filter.kind == kind] { (kind) } }
            }
            button type="submit" { "Apply" }
        }
    }
}

fn rows(filter: &EventFilter<'_>, window: &EventWindow) -> Markup {
    let fields = [("prefix", filter.prefix), ("kind", filter.kind)];
    let newest = window.up_to.to_string();
    let pause = link("events", &[fields[0], fields[1], ("pause", &newest)]);
    let shown = window.changes.len().min(ROWS);
    // Below the oldest row, or below the last revision that was read.
    let before = window.changes.get(ROWS).map_or(window.after, |change| change.revision.0);
    html! {
        p id="found" {
            (count(shown as u64, "change")) " up to revision " (window.up_to) ". "
            @if filter.paused_at.is_some() {
                strong { "Paused. " } a id="resume" href=(link("events", &fields)) { "Go on" }
            } @else {
                a id="pause" href=(pause) { "Pause" }
            }
        }
        @if window.changes.is_empty() {
            p id="empty" { "Nothing has changed after revision " (window.after) "." }
        } @else {
            div class="scroll" {
                table class="rows" id="events" {
                    thead { tr {
                        th scope="col" class="number" { "Revision" } th scope="col" { "Kind" } th scope="col" { "Path" }
                        th scope="col" { "Session" } th scope="col" class="number" { "Token" }
                    } }
                    tbody {
                        @for change in window.changes.iter().take(ROWS) { (row(change)) }
                        @if before > 0 { tr id="gap" { td.quiet colspan="5" { "Changes up to revision " (before) " are not shown." } } }
                    }
                }
            }
        }
    }
}

fn row(change: &ChangeBody) -> Markup {
    let path = change.path.as_str();
    let target = match &change.lock {
        Some(lock) => link("lock", &[("name", lock.as_str())]),
        None => link("tree", &[("path", path)]),
    };
    html! {
        tr data-revision=(change.revision) data-kind=(change.kind.as_str()) {
            td class="number" { (change.revision) }
            td { (change.kind.as_str()) }
            th scope="row" { a href=(target) { (name(path)) } }
            td { @if let Some(session) = &change.session { a href=(link("session", &[("id", session.as_str())])) { (name(session.as_str())) } } }
            td class="number" { @if let Some(token) = change.token { (token) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::ChangeKind;
    use holdfast_types::{Revision, ZnodePath};

    use super::*;

    fn change(revision: u64, kind: ChangeKind) -> ChangeBody {
        let path = ZnodePath::new("/cfg/<b>").unwrap();
        ChangeBody::of_node(Revision(revision), kind, path)
    }

    #[test]
    fn a_filter_has_only_known_values() {
        let fields = FormFields::parse("prefix=%2Flocks%2F&kind=granted&pause=12");
        let filter = EventFilter::of(&fields);
        assert_eq!(filter.target(Some(3)), "/v1/watch?prefix=%2Flocks%2F&wait=0s&since=3");
        assert!(!filter.matches(&change(12, ChangeKind::Created)));
        assert!(filter.matches(&change(12, ChangeKind::Granted)));
        assert!(!filter.matches(&change(13, ChangeKind::Granted)), "after the pause");
        let fields = FormFields::parse("prefix=locks&kind=x&pause=y");
        let filter = EventFilter::of(&fields);
        assert_eq!((filter.prefix, filter.kind, filter.paused_at), ("/", "", None));
    }

    #[test]
    fn a_window_marks_what_it_does_not_show() {
        let fields = FormFields::default();
        let filter = EventFilter::of(&fields);
        let changes = (0..150).rev().map(|at| change(1_000 + at, ChangeKind::Changed)).collect();
        let text = rows(&filter, &EventWindow { after: 650, up_to: 1_150, changes }).into_string();
        assert_eq!(text.matches("data-kind=\"changed\"").count(), ROWS);
        assert!(text.contains("Changes up to revision 1049 are not shown."), "{text}");
        assert!(
            text.contains("events?prefix=%2F&amp;pause=1150") && !text.contains("<b>"),
            "{text}"
        );
        let few = EventWindow { after: 0, up_to: 3, changes: vec![change(3, ChangeKind::Lost)] };
        assert!(!rows(&filter, &few).into_string().contains("not shown"));
    }
}
