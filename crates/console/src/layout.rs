//! The frame of every page: head, navigation, banner, notices, the region that live updates replace; its stylesheet and script; and
//! the headers of every response.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use holdfast_api::{ErrorCode, Problem};
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest as _, Sha256};

use crate::call::ClusterPlace;
use crate::form::FormFields;
use crate::page::{ConsolePage, PageCatalog, PageContent, PageRequest};
use crate::text::{hexadecimal, name, visible};

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

/// A page loads only the files of the console, and no other page contains it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A file of the console.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    media: &'static str,
    text: &'static str,
}

static ASSETS: [Asset; 2] = [
    Asset {
        name: "console.css",
        media: "text/css; charset=utf-8",
        text: include_str!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        media: "text/javascript; charset=utf-8",
        text: include_str!("../assets/console.js"),
    },
];

fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

/// The reply to a request for a file of the console; `None` for any other path.
pub(crate) fn asset_reply(name: &str, asked: &HeaderMap) -> Option<Response<Body>> {
    let asset = asset(name)?;
    let tag = tag(asset.text);
    let is_known = asked.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = if is_known { Body::empty() } else { Body::from(asset.text) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media));
    // A new version of the node has new files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    protect(headers);
    Some(response)
}

fn tag(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    format!("\"{}\"", hexadecimal(&digest[..12]))
}

/// Adds the headers that keep other sites away from a page.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let fixed = |name: &'static str| HeaderName::from_static(name);
    let pairs = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, browsers would send the forms of the console with `Origin: null`.
        (REFERRER_POLICY, "same-origin"),
        (fixed("cross-origin-opener-policy"), "same-origin"),
        (fixed("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in pairs {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_has_a_file_receives_only_its_tag() {
        let reply = |asked: &HeaderMap| asset_reply("console.js", asked).unwrap();
        let first = reply(&HeaderMap::new());
        let tag = first.headers()[ETAG].clone();
        let mut asked = HeaderMap::new();
        asked.insert(IF_NONE_MATCH, tag);
        assert_eq!(reply(&asked).status(), StatusCode::NOT_MODIFIED);
        asked.insert(IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(reply(&asked).status(), StatusCode::OK);
    }

    #[test]
    fn the_script_never_writes_markup() {
        let script = asset("console.js").unwrap().text;
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!script.contains(word), "{word}");
        }
        assert!(script.lines().count() < 400, "the script stays small");
    }
}
