//! The frame of every page: head, navigation, banner, notices, and the region that live updates replace.

use axum::http::StatusCode;
use holdfast_api::{ErrorCode, Problem};
use maud::{DOCTYPE, Markup, html};

use crate::call::ClusterPlace;
use crate::fields::FormFields;
use crate::page::{ConsolePage, PageCatalog, PageContent};
use crate::request::PageRequest;
use crate::text::{name, visible};

/// A whole page.
pub(crate) fn page(
    catalog: &PageCatalog,
    request: &PageRequest,
    page: &ConsolePage,
    content: &PageContent,
) -> Markup {
    let place = request.api.place();
    let live = request.own_link(&format!("updates?page={}", page.path));
    let body = html! {
        (header(catalog, request, Some(page)))
        (banner(request))
        main id="main" tabindex="-1" data-live=(live) {
            h1 { (visible(&content.title)) }
            (notice(catalog, &request.fields))
            (content.above)
            (content.live_region())
            (content.below)
        }
        (footer(place))
    };
    document(&content.title, Some(request), &body)
}

/// A page for a reader that has logged in, outside of the list of pages: a form, or a failure.
pub(crate) fn framed(
    catalog: &PageCatalog,
    request: &PageRequest,
    title: &str,
    body: &Markup,
) -> Markup {
    let body = html! {
        (header(catalog, request, None))
        (banner(request))
        main id="main" tabindex="-1" { (body) }
        (footer(request.api.place()))
    };
    document(title, Some(request), &body)
}

/// A page without a reader.
pub(crate) fn bare(title: &str, body: &Markup) -> Markup {
    let body = html! {
        header { a class="brand" href="./" { "holdfast" } }
        main id="main" tabindex="-1" { (body) }
    };
    document(title, None, &body)
}

/// The page of a failure.
pub(crate) fn failure(reader: Option<(&PageCatalog, &PageRequest)>, problem: &Problem) -> Markup {
    let body = html! { h1 { (problem.title) } (problem_box(problem)) };
    match reader {
        Some((catalog, request)) => framed(catalog, request, &problem.title, &body),
        None => bare(&problem.title, &body),
    }
}

fn document(title: &str, request: Option<&PageRequest>, body: &Markup) -> Markup {
    let address = request.map(|request| request.address.as_str());
    let now = request.map(|request| request.now.0);
    html! {
        (DOCTYPE)
        // The script counts times from `data-now`, and corrects the address in examples.
        html lang="en" data-now=[now] data-address=[address] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (visible(title)) " · holdfast" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="console.css";
                script src="console.js" defer {}
            }
            body {
                a class="skip" href="#main" { "Skip to the content" }
                (body)
            }
        }
    }
}

fn header(catalog: &PageCatalog, request: &PageRequest, current: Option<&ConsolePage>) -> Markup {
    html! {
        header {
            a class="brand" href="./" { "holdfast" }
            nav aria-label="Pages" {
                @for page in catalog.pages.iter().filter(|page| page.in_navigation) {
                    @let is_current = current.is_some_and(|current| current.path == page.path);
                    a href=(page.link()) aria-current=[is_current.then_some("page")] { (page.title) }
                }
                a href="../docs" { "API" }
            }
            div class="reader" {
                button type="button" class="scripted" id="theme" hidden { "Theme" }
                @if let Some(subject) = &request.caller.subject {
                    span { (name(subject.as_str())) }
                }
                @if request.caller.credential == "access-token" {
                    form method="post" action="logout" {
                        (request.form_secret.field())
                        button type="submit" { "Log out" }
                    }
                }
            }
        }
        p id="status" role="status" class="status" {}
    }
}

/// What a reader must know on every page.
fn banner(request: &PageRequest) -> Markup {
    match request.caller.mode.as_str() {
        "off" => html! {
            p class="banner" role="alert" {
                strong { "Authorization is off: " }
                "every caller has full access. "
                code { "holdfast auth bootstrap" } " switches it on."
            }
        },
        "shadow" => html! {
            p class="banner" role="alert" {
                strong { "Authorization only observes: " }
                "in the mode shadow, every caller has full access."
            }
        },
        _ => html! {},
    }
}

fn footer(place: ClusterPlace) -> Markup {
    html! {
        footer {
            (place_mark(place))
            span class="scripted" hidden { "Press " kbd { "?" } " for the keys" }
        }
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl {
                dt { kbd { "/" } } dd { "Go to the filter" }
                dt { kbd { "j" } " " kbd { "k" } } dd { "Next and previous row" }
                dt { kbd { "Enter" } } dd { "Open the row" }
                dt { kbd { "Esc" } } dd { "Leave the filter, or close this" }
                dt { kbd { "?" } } dd { "Show the keys" }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// The node that made the page, and its leader.
pub(crate) fn place_mark(place: ClusterPlace) -> Markup {
    html! {
        span id="place" data-answers=[place.node] data-leader=[place.leader] {
            @if let Some(node) = place.node { "Node " (node) " answers" }
            @match place.leader {
                Some(leader) if Some(leader) == place.node => " and leads",
                Some(leader) => { ", node " (leader) " leads" }
                None => ", no leader",
            }
        }
    }
}

/// The code, the facts, the hint, and whether a retry helps.
pub(crate) fn problem_box(problem: &Problem) -> Markup {
    html! {
        div class="problem" role="alert" data-code=(problem.code) {
            p { strong { (problem.title) } " " a href={ "../errors/" (problem.code) } { code { (problem.code) } } }
            @if !problem.detail.is_empty() { p { (visible(&problem.detail)) } }
            @if let Some(hint) = &problem.hint { p { "Next step: " (visible(hint)) } }
            @if problem.retryable {
                p { a href="" class="retry" { "Try again" } }
            }
        }
    }
}

/// Whether the failure is one of the call, and not of the node.
pub(crate) fn status_of(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A fact that the reader may not see, in place of a part of a page.
pub(crate) fn missing(what: &str, problem: &Problem) -> Markup {
    html! {
        @if problem.code == ErrorCode::Forbidden {
            p.quiet { "You may not read " (what) @if let Some(needed) = &problem.facts.needed { ": it needs " code { (needed) } } "." }
        } @else {
            (problem_box(problem))
        }
    }
}

/// A line to copy.
pub(crate) fn snippet(id: &str, label: &str, text: &str) -> Markup {
    html! {
        div class="snippet" {
            span class="label" { (label) }
            pre id=(id) tabindex="0" { code { (text) } }
            button type="button" class="scripted" hidden data-copy=(id) aria-label={ "Copy " (label) } { "Copy" }
        }
    }
}

/// The notice after a change, with a link to its audit record.
fn notice(catalog: &PageCatalog, fields: &FormFields) -> Markup {
    let done = fields.get("done");
    let action = done.and_then(|name| catalog.actions.iter().find(|action| action.name == name));
    let revision = fields.get("at").and_then(|at| at.parse::<u64>().ok());
    html! {
        @if let Some(action) = action {
            p class="notice" role="status" id="notice" {
                "Done: " (action.name.replace('-', " ")) ". "
                @if let Some(revision) = revision {
                    a href={ "audit?revision=" (revision) } { "Audit record" }
                }
            }
        }
    }
}
