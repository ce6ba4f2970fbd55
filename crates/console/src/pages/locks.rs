//! The list of locks: search, filter, order, folders by `/`, and pages of rows.

use axum::http::Method;
use futures_util::FutureExt as _;
use holdfast_api::{ContentionBody, LIST_LIMIT_MAX, LockBody, LocksBody, escape_query};
use holdfast_types::{Revision, Stamp};
use maud::{Markup, html};

use crate::call::{ApiCall, ApiCalls, ApiResult};
use crate::form::{FormFields, link};
use crate::layout::snippet;
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{before, count, name, since, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "locks",
    title: "Locks",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// Rows of one page.
const ROWS: usize = 250;
/// The most locks that a search reads.
const SEARCHED_MAX: usize = 20_000;
/// The most locks that are read for the folders.
const FOLDERS_OF_MAX: usize = 2_000;
/// The most folders that a page shows.
const FOLDERS_MAX: usize = 100;

/// The filter of the list, from the fields of the page.
#[derive(Debug)]
struct LockSearch<'a> {
    /// Only below this folder, such as `orders/`.
    below: &'a str,
    /// Only names that contain this text, in lower case.
    contains: String,
    /// `held`, `waiting`, or everything.
    state: &'a str,
    /// `waiters`, `age`, or by name.
    order: &'a str,
    /// The rows after this place.
    after: Option<&'a str>,
}

impl<'a> LockSearch<'a> {
    fn of(fields: &'a FormFields) -> Self {
        Self {
            below: fields.get("below").unwrap_or_default(),
            contains: fields.typed("q").unwrap_or_default().to_lowercase(),
            state: fields.get("state").unwrap_or_default(),
            order: fields.get("sort").unwrap_or_default(),
            after: fields.get("after"),
        }
    }

    /// The parameter of the folder. The API takes no empty prefix.
    fn prefix(&self) -> String {
        if self.below.is_empty() {
            return String::new();
        }
        format!("&prefix={}", escape_query(self.below))
    }

    fn target(&self, limit: usize, after: Option<&str>) -> String {
        let mut target = format!("/v1/locks?limit={limit}{}", self.prefix());
        if ["held", "waiting"].contains(&self.state) {
            target.push('&');
            target.push_str(self.state);
        }
        if let Some(after) = after {
            target.push_str("&page_token=");
            target.push_str(&escape_query(after));
        }
        target
    }

    fn matches(&self, lock: &LockBody) -> bool {
        self.contains.is_empty() || lock.lock.as_str().to_lowercase().contains(&self.contains)
    }
}

/// The rows of one page.
#[derive(Debug)]
struct LockRows {
    locks: Vec<LockBody>,
    /// The last lock that was read, if there are more: the next page begins after it.
    next: Option<String>,
    /// Whether more locks were found than the page shows.
    is_cut: bool,
    revision: Revision,
}

async fn find(api: &ApiCalls, search: &LockSearch<'_>) -> ApiResult<LockRows> {
    if search.order == "waiters" && search.contains.is_empty() && search.state.is_empty() {
        let target = format!("/v1/locks?sort=contention&limit={ROWS}{}", search.prefix());
        let ContentionBody { locks, revision } = api.read(&target).await?;
        let locks = locks.into_iter().map(|explained| explained.lock).collect();
        return Ok(LockRows { locks, next: None, is_cut: false, revision });
    }
    if search.order.is_empty() && search.contains.is_empty() {
        let LocksBody { locks, next_page_token: next, revision } =
            api.read(&search.target(ROWS, search.after)).await?;
        return Ok(LockRows { locks, next, is_cut: false, revision });
    }
    // The order needs every lock; a search by name ends when the page is full.
    let wanted = if search.order.is_empty() { ROWS } else { usize::MAX };
    let mut found = matching_locks(api, search, SEARCHED_MAX, wanted).await?;
    match search.order {
        "waiters" => sort_descending(&mut found.locks, |lock| lock.waiters.into()),
        "age" => sort_descending(&mut found.locks, oldest_hold),
        _ => {}
    }
    found.is_cut = found.locks.len() > ROWS && !search.order.is_empty();
    if found.is_cut {
        found.locks.truncate(ROWS);
    }
    Ok(found)
}

/// Reads the locks that match, page by page, until it has read `max` locks or found `wanted`.
async fn matching_locks(
    api: &ApiCalls,
    search: &LockSearch<'_>,
    max: usize,
    wanted: usize,
) -> ApiResult<LockRows> {
    let (mut locks, mut next, mut seen) = (Vec::new(), search.after.map(str::to_owned), 0);
    let limit = wanted.min(LIST_LIMIT_MAX);
    loop {
        let page: LocksBody = api.read(&search.target(limit, next.as_deref())).await?;
        seen += page.locks.len();
        locks.extend(page.locks.into_iter().filter(|lock| search.matches(lock)));
        next = page.next_page_token;
        if next.is_none() || seen >= max || locks.len() >= wanted {
            return Ok(LockRows { locks, next, is_cut: false, revision: page.revision });
        }
    }
}

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let search = LockSearch::of(&request.fields);
    let rows = find(&request.api, &search).await?;
    // An update has only the rows.
    let above = if request.is_update {
        html! {}
    } else {
        let asked = LockSearch::of(&request.fields);
        let all = LockSearch { contains: String::new(), state: "", after: None, ..asked };
        let names = matching_locks(&request.api, &all, FOLDERS_OF_MAX, usize::MAX).await?;
        let folders = folders(names.locks.iter().map(|lock| lock.lock.as_str()), search.below);
        html! { (filters(&search)) (folder_links(&search, &folders, names.next.is_some())) }
    };
    Ok(PageContent {
        title: "Locks".to_owned(),
        above,
        live: table(request, &search, &rows),
        revision: Some(rows.revision),
        ..PageContent::default()
    })
}

fn filters(search: &LockSearch<'_>) -> Markup {
    let option = |group: &str, value: &str, text: &str| {
        html! { option value=(value) selected[group == value] { (text) } }
    };
    html! {
        form method="get" action="locks" class="filters" role="search" {
            input type="hidden" name="below" value=(search.below);
            label for="filter" { "Name contains" }
            input type="search" id="filter" name="q" value=(search.contains) autocomplete="off" spellcheck="false" data-filter;
            label for="state" { "State" }
            select id="state" name="state" {
                (option(search.state, "", "all")) (option(search.state, "held", "held")) (option(search.state, "waiting", "with waiters"))
            }
            label for="sort" { "Order" }
            select id="sort" name="sort" {
                (option(search.order, "", "by name")) (option(search.order, "waiters", "longest queue first")) (option(search.order, "age", "oldest hold first"))
            }
            button type="submit" { "Apply" }
        }
    }
}

/// The folders directly below `below`, with the number of locks in each.
fn folders<'n>(names: impl Iterator<Item = &'n str>, below: &str) -> Vec<(&'n str, u64)> {
    let mut found: Vec<(&str, u64)> = Vec::new();
    for name in names {
        let rest = name.get(below.len()..).unwrap_or_default();
        let Some(end) = rest.find('/') else { continue };
        let folder = &name[..=below.len() + end];
        // Names are in order, so the locks of a folder follow each other.
        match found.last_mut() {
            Some((last, number)) if *last == folder => *number += 1,
            Some(_) | None => found.push((folder, 1)),
        }
    }
    found
}

fn folder_links(search: &LockSearch<'_>, folders: &[(&str, u64)], is_cut: bool) -> Markup {
    let parents = search.below.match_indices('/').map(|(end, _)| &search.below[..=end]);
    html! {
        @if !folders.is_empty() || !search.below.is_empty() {
            nav class="folders" aria-label="Folders" {
                a href="locks" { "all locks" }
                @for parent in parents { a href=(link("locks", &[("below", parent)])) { (name(parent)) } }
                ul {
                    @for (folder, number) in folders.iter().take(FOLDERS_MAX) {
                        li { a href=(link("locks", &[("below", folder)])) { (name(folder)) } " " span.quiet { (count(*number, "lock")) } }
                    }
                    @if is_cut { li.quiet { "of the first " (FOLDERS_OF_MAX) " locks" } }
                    @if folders.len() > FOLDERS_MAX { li.quiet { "and " (folders.len() - FOLDERS_MAX) " more" } }
                }
            }
        }
    }
}

fn table(request: &PageRequest, search: &LockSearch<'_>, rows: &LockRows) -> Markup {
    if rows.locks.is_empty() && rows.next.is_none() {
        return nothing(request, search);
    }
    let shown = rows.locks.len() as u64;
    html! {
        p id="found" { (count(shown, "lock")) @if rows.is_cut || rows.next.is_some() || search.after.is_some() { ", of more" } }
        @if !rows.locks.is_empty() { (lock_table("lock", &rows.locks, request.now)) }
        @if rows.is_cut { p.quiet { "More locks match: narrow the search." } }
        (next_page(search, rows))
    }
}

/// How far the page has read, and the link that continues.
fn next_page(search: &LockSearch<'_>, rows: &LockRows) -> Markup {
    html! {
        @if let Some(next) = &rows.next {
            @let (q, after) = (search.contains.as_str(), next.as_str());
            @let fields = [("below", search.below), ("q", q), ("state", search.state), ("sort", search.order), ("after", after)];
            p { "This page has read the locks up to " (name(next)) ". " a id="next" href=(link("locks", &fields)) { "Next locks" } }
        }
    }
}

/// A table of locks, also for other pages. Ids of its rows begin with `id`.
pub(super) fn lock_table(id: &str, locks: &[LockBody], now: Stamp) -> Markup {
    html! {
        div class="scroll" {
            table class="rows" {
                thead {
                    tr {
                        th scope="col" { "Lock" } th scope="col" { "Held by" } th scope="col" { "For" }
                        th scope="col" class="number" { "Waiters" } th scope="col" class="number" { "Token" }
                    }
                }
                tbody {
                    @for lock in locks { (row(id, lock, now)) }
                }
            }
        }
    }
}

fn row(table: &str, lock: &LockBody, now: Stamp) -> Markup {
    let lock_name = lock.lock.as_str();
    let more = u64::from(lock.holders_total).saturating_sub(1);
    html! {
        tr id={ (table) "-" (lock_name) } data-lock=(lock_name) data-held=(lock.held) {
            th scope="row" { a href=(link("lock", &[("name", lock_name)])) { (name(lock_name)) } }
            td data-field="holder" {
                @match lock.holder() {
                    Some(holder) => {
                        (name(holder.session.as_str()))
                        @if more > 0 { " and " (more) " more" }
                        @if holder.mode != holdfast_types::Mode::Exclusive { " " span.tag { (holder.mode.as_str()) } }
                        (labels(holder.labels.iter()))
                    }
                    None => span.quiet { "free" },
                }
            }
            td data-field="since" { @if oldest_hold(lock) > 0 { (since(before(now, oldest_hold(lock)), now)) } }
            td class="number" data-field="waiters" { (lock.waiters) }
            td class="number" data-field="token" { @if let Some(token) = lock.last_token { (token) } }
        }
    }
}

/// Labels of a session.
pub(super) fn labels<'l>(labels: impl Iterator<Item = (&'l str, &'l str)>) -> Markup {
    html! { @for (key, value) in labels { " " span.tag { (visible(key)) "=" (visible(value)) } } }
}

/// Sorts by a number, the greatest first.
pub(super) fn sort_descending(locks: &mut [LockBody], number: fn(&LockBody) -> u64) {
    locks.sort_by_key(|lock| std::cmp::Reverse(number(lock)));
}

/// The age of the oldest hold that the list shows, milliseconds.
pub(super) fn oldest_hold(lock: &LockBody) -> u64 {
    lock.holders.iter().map(|holder| holder.held_for_ms).max().unwrap_or_default()
}

fn nothing(request: &PageRequest, search: &LockSearch<'_>) -> Markup {
    let texts = [search.contains.as_str(), search.state, search.below];
    let is_filtered = search.after.is_some() || texts.iter().any(|text| !text.is_empty());
    html! {
        @if is_filtered {
            p id="empty" { @if let Some(after) = search.after { "No lock after " (name(after)) " matches. " } @else { "No lock matches. " } a href="locks" { "Show all locks" } }
        } @else {
            (first_call(request))
        }
    }
}

/// The empty state: it teaches the first call.
pub(super) fn first_call(request: &PageRequest) -> Markup {
    let (path, query) = ("/v1/locks/hello".to_owned(), vec![("ttl", "10m".to_owned())]);
    let call = ApiCall { method: Method::PUT, path, query };
    let curl = call.curl(&request.address, request.api.has_credential());
    html! {
        section id="empty" class="panel" {
            p { "There is no lock yet. A lock exists from its first call on:" }
            (snippet("first-call", "acquire the lock hello for ten minutes", &curl))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(json: &str) -> LockBody {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_row_escapes_the_names_of_clients() {
        let lock = lock(
            r#"{"lock":"<img src=x>","mode":"exclusive","held":true,"holders":[{"session":"a\"b","token":7,"held_for_ms":252000,
                "hold_count":1,"labels":{"host":"<b>"}}],"holders_total":1,"waiters":3,"queue":[],"last_token":7}"#,
        );
        let text = row("lock", &lock, Stamp(1_772_373_909_000)).into_string();
        assert!(!text.contains("<img") && !text.contains("<b>"), "{text}");
        assert!(text.contains("lock?name=%3Cimg%20src%3Dx%3E"), "{text}");
        assert!(text.contains("host=&lt;b&gt;") && text.contains("4 min 12 s"), "{text}");
    }

    #[test]
    fn a_free_lock_has_no_time_and_the_word_free() {
        let lock = lock(
            r#"{"lock":"a","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null}"#,
        );
        let text = row("lock", &lock, Stamp(9)).into_string();
        assert!(text.contains("free") && !text.contains("<time"), "{text}");
    }

    #[test]
    fn folders_are_the_next_components() {
        let names = ["a", "eu/db/1", "eu/db/2", "eu/x", "us/y"];
        assert_eq!(folders(names.into_iter(), ""), [("eu/", 3), ("us/", 1)]);
        assert_eq!(folders(["eu/db/1", "eu/db/2", "eu/x"].into_iter(), "eu/"), [("eu/db/", 2)]);
    }

    #[test]
    fn a_search_reads_the_filter_that_the_api_has() {
        let fields = FormFields::parse("below=eu%2F&state=held&q=DB&after=eu%2Fa");
        let search = LockSearch::of(&fields);
        assert_eq!(
            search.target(5, search.after),
            "/v1/locks?limit=5&prefix=eu%2F&held&page_token=eu%2Fa"
        );
        let named = |name: &str| {
            lock(&format!(
                r#"{{"lock":"{name}","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null}}"#
            ))
        };
        assert!(search.matches(&named("eu/my-db")) && !search.matches(&named("eu/x")));
        let fields = FormFields::parse("state=other");
        assert_eq!(LockSearch::of(&fields).target(5, None), "/v1/locks?limit=5");
    }
}
