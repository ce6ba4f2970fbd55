//! The tree: one znode with its stat, its data, its access list and a page of its children.

use axum::http::{Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{AclBody, ChildrenBody, ErrorCode, ZnodeBody, escape_query, tree_path};
use holdfast_types::{LockName, Stamp, ZnodePath};
use maud::{Markup, html};

use crate::call::{ApiCall, ApiResult, problem};
use crate::form::link;
use crate::layout::missing;
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{at, count, name, span, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "tree",
    title: "Tree",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// Children of one page.
const CHILDREN: usize = 200;
/// The most bytes of the data that the page shows.
const DATA_MAX: usize = 64 << 10;
/// Bytes of one line of the hexadecimal form.
const HEX_LINE: usize = 16;

/// The form in which the data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataForm {
    Text,
    Json,
    Hex,
}

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let path = wanted(request)?;
    let target = tree_path(&path);
    let znode: ZnodeBody = request.api.read(&format!("{target}?stat")).await?;
    let acl: ApiResult<AclBody> = request.api.read(&format!("{target}?acl")).await;
    let after =
        request.fields.get("after").map(|after| format!("&page_token={}", escape_query(after)));
    let listed = format!("{target}?children&limit={CHILDREN}{}", after.unwrap_or_default());
    let children: ApiResult<ChildrenBody> = request.api.read(&listed).await;
    let read = ApiCall { method: Method::GET, path: target, query: Vec::new() };
    let bytes = request.api.change(&read).await.map(|answer| answer.body);
    let live = html! {
        (stat(&znode, request.now))
        @match &children { Ok(children) => (child_table(&path, children, request.now)), Err(problem) => (missing("the children", problem)) }
        @match &bytes { Ok(bytes) => (data(bytes, request.fields.get("form"))), Err(problem) => (missing("the data", problem)) }
        @match &acl { Ok(acl) => (access_list(acl)), Err(problem) => (missing("the access list", problem)) }
    };
    Ok(PageContent {
        title: format!("Znode {path}"),
        above: html! { (folders(&path)) },
        live,
        revision: znode.revision,
        ..PageContent::default()
    })
}

fn wanted(request: &PageRequest) -> ApiResult<ZnodePath> {
    ZnodePath::new(request.fields.get("path").unwrap_or("/")).map_err(|error| {
        let code = (ErrorCode::BadName, StatusCode::BAD_REQUEST);
        problem(code, error.to_string(), "open the znode from the tree")
    })
}

/// Links to the znodes above, and to the lock of a directory of locks.
fn folders(path: &ZnodePath) -> Markup {
    let text = path.as_str();
    let lock = text.strip_prefix("/locks/").and_then(|lock| LockName::new(lock).ok());
    html! {
        nav class="folders" aria-label="Znodes above" {
            a href="tree" { "/" }
            @for (end, _) in text.match_indices('/').skip(1) {
                a href=(link("tree", &[("path", &text[..end])])) { (name(&text[..end])) }
            }
            @if let Some(lock) = &lock { a href=(link("lock", &[("name", lock.as_str())])) { "the lock" } }
        }
    }
}

fn stat(znode: &ZnodeBody, now: Stamp) -> Markup {
    let of = &znode.stat;
    html! {
        dl id="stat" {
            dt { "Kind" } dd data-field="kind" { (of.kind.as_str())
                @if let Some(session) = of.session_number { ", of session number " (session) }
                @if let Some(ttl) = of.ttl_ms { ", deleted after " (span(ttl.unsigned_abs())) " without changes" } }
            dt { "Version" } dd data-field="version" { (of.version) span.quiet { " of the data, " (of.children_version) " of the children, " (of.acl_version) " of the access list" } }
            dt { "Created" } dd { (when(of.created_at.0, now)) span.quiet { " in revision " (of.created_revision) } }
            dt { "Changed" } dd { (when(of.modified_at.0, now)) span.quiet { " in revision " (of.modified_revision) } }
        }
    }
}

/// A time of a znode. Those that every cluster begins with have none.
fn when(time: Stamp, now: Stamp) -> Markup {
    if time == Stamp(0) {
        html! { "with the cluster" }
    } else {
        at(time, now)
    }
}

fn child_table(path: &ZnodePath, children: &ChildrenBody, now: Stamp) -> Markup {
    html! {
        section aria-labelledby="children-title" {
            h2 id="children-title" { "Children" }
            @if children.children.is_empty() { p id="no-children" { "No children." } } @else {
                div class="scroll" { table id="children" class="rows" {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Kind" } th scope="col" class="number" { "Children" }
                        th scope="col" class="number" { "Bytes" } th scope="col" { "Changed" } } }
                    tbody { @for child in &children.children {
                        @let below = if path.as_str() == "/" { format!("/{}", child.name) } else { format!("{path}/{}", child.name) };
                        tr data-child=(child.name) {
                            th scope="row" { a href=(link("tree", &[("path", &below)])) { (name(&child.name)) } }
                            td { (child.stat.kind.as_str()) }
                            td class="number" { (child.stat.children) }
                            td class="number" { (child.stat.data_length) }
                            td { (when(child.stat.modified_at.0, now)) }
                        }
                    } }
                } }
            }
            @if let Some(next) = &children.next_page_token {
                p { a id="next" href=(link("tree", &[("path", path.as_str()), ("after", next)])) { "Next children" } }
            }
        }
    }
}

fn data(bytes: &[u8], wanted: Option<&str>) -> Markup {
    let shown = &bytes[..bytes.len().min(DATA_MAX)];
    let (form, text) = in_form(shown, wanted);
    let word = match form {
        DataForm::Text => "text",
        DataForm::Json => "JSON",
        DataForm::Hex => "hexadecimal digits",
    };
    html! {
        section aria-labelledby="data-title" {
            h2 id="data-title" { "Data" }
            p { (count(bytes.len() as u64, "byte")) @if !bytes.is_empty() { ", as " (word) } @if shown.len() < bytes.len() { ", the first 64 KiB" } "." }
            @if !bytes.is_empty() { pre id="data" tabindex="0" data-form=(word) { code { (text) } } }
        }
    }
}

/// The data in the wanted form, or in the most readable one.
fn in_form(bytes: &[u8], wanted: Option<&str>) -> (DataForm, String) {
    let text = std::str::from_utf8(bytes).ok().filter(|_| wanted != Some("hex"));
    let Some(text) = text else { return (DataForm::Hex, hex(bytes)) };
    let json =
        serde_json::from_str::<serde_json::Value>(text).ok().filter(|_| wanted != Some("text"));
    match json.and_then(|json| serde_json::to_string_pretty(&json).ok()) {
        Some(pretty) => (DataForm::Json, pretty),
        None => (DataForm::Text, lines(text)),
    }
}

/// The text, with invisible characters as their code.
fn lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// `00000010  68 6f 6c 64  hold`
fn hex(bytes: &[u8]) -> String {
    let line = |(number, bytes): (usize, &[u8])| {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let plain = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(plain).collect();
        format!("{:08x}  {:<47}  {text}", number * HEX_LINE, digits.join(" "))
    };
    bytes.chunks(HEX_LINE).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn access_list(acl: &AclBody) -> Markup {
    html! {
        section aria-labelledby="acl-title" {
            h2 id="acl-title" { "Access list" }
            ul id="acl" { @for entry in &acl.acl { li { code { (visible(entry)) } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_shown_as_json_as_text_or_in_hexadecimal_digits() {
        assert_eq!(in_form(br#"{"a":1}"#, None), (DataForm::Json, "{\n  \"a\": 1\n}".to_owned()));
        assert_eq!(in_form(br#"{"a":1}"#, Some("text")).0, DataForm::Text);
        assert_eq!(
            in_form("a\n\u{202e}b".as_bytes(), None),
            (DataForm::Text, "a\n\\u{202e}b".to_owned())
        );
        let (form, text) = in_form(b"\xffhold", None);
        assert_eq!(form, DataForm::Hex);
        assert!(
            text.starts_with("00000000  ff 68 6f 6c 64 ") && text.ends_with("  .hold"),
            "{text}"
        );
        assert_eq!(in_form(b"hold", Some("hex")).0, DataForm::Hex);
    }

    #[test]
    fn only_the_first_64_kib_of_the_data_are_shown() {
        let text = data(&vec![b'a'; DATA_MAX + 1], None).into_string();
        assert!(
            text.contains("65\u{202f}537 bytes, as text, the first 64 KiB"),
            "{}",
            &text[..200]
        );
        assert!(text.len() < DATA_MAX + 1_000);
        assert!(data(b"<b>", None).into_string().contains("&lt;b&gt;"));
    }

    #[test]
    fn a_directory_of_a_lock_leads_to_the_lock() {
        let of = |path: &str| folders(&ZnodePath::new(path).unwrap()).into_string();
        assert!(of("/locks/shop/orders").contains("lock?name=shop%2Forders"));
        assert!(of("/cfg/a").contains("tree?path=%2Fcfg\"") && !of("/cfg/a").contains("lock?"));
    }
}
