//! The pages for a browser: `/docs`, the API reference for human readers, and `/errors/{code}`.
//!
//! HTML without external resources, so that the pages work in a browser that can reach only the node.

use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use holdfast_api::{ErrorCode, Form, Param};

use super::openapi::ABOUT;
use super::{ExampleCall, recorded_answer};
use crate::operation::Operation;
use crate::operations::OPERATIONS;
use crate::routes::{CHAPTERS, TRY_IT};
use crate::status::of_code;

/// The page, rendered once. With `try_it` its script sends the examples to the node.
pub(super) fn docs_page(try_it: bool) -> Bytes {
    static PLAIN: LazyLock<Bytes> = LazyLock::new(|| api_page(false).into());
    static TRY_IT: LazyLock<Bytes> = LazyLock::new(|| api_page(true).into());
    if try_it { TRY_IT.clone() } else { PLAIN.clone() }
}

fn api_page(try_it: bool) -> String {
    let mut page =
        Page::begin(&format!("holdfast {}: the HTTP API", env!("CARGO_PKG_VERSION")), "./");
    if try_it {
        let script = TRY_IT.pattern.trim_start_matches('/');
        page.html(format_args!("<script src=\"{script}\" defer></script>\n"));
    }
    page.html(format_args!(
        "<p>Machine-readable version: <a href=\"openapi.json\">/openapi.json</a>.</p>\n"
    ));
    page.paragraph(ABOUT);
    index(&mut page);
    for (chapter, about) in CHAPTERS {
        page.html(format_args!("<h2>{}</h2>\n", escaped(chapter)));
        page.paragraph(about);
        of_chapter(chapter).for_each(|operation| section(&mut page, operation));
    }
    page.html(format_args!(
        "<h2 id=errors>errors</h2>\n<table><tr><th>code<th>status<th>retryable<th>meaning</tr>\n"
    ));
    for code in ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        let (status, title) = (of_code(*code).as_u16(), escaped(code.title()));
        page.html(format_args!(
            "<tr><td>{}<td>{status}<td>{again}<td>{title}</tr>\n",
            error_link(*code)
        ));
    }
    page.html(format_args!("</table>\n"));
    page.0
}

fn of_chapter(chapter: &str) -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().copied().filter(move |operation| operation.route.tag == chapter)
}

/// Links to every call, by chapter.
fn index(page: &mut Page) {
    page.html(format_args!("<nav>\n"));
    for (chapter, _) in CHAPTERS {
        page.html(format_args!("<h4>{}</h4>\n<ul>\n", escaped(chapter)));
        for operation in of_chapter(chapter) {
            let (id, summary) = (operation.id, escaped(operation.summary));
            let line = escaped(&request_line(operation));
            page.html(format_args!("<li><a href=\"#{id}\">{summary}</a> <code>{line}</code>\n"));
        }
        page.html(format_args!("</ul>\n"));
    }
    page.html(format_args!("<p><a href=\"#errors\">Error codes</a></p>\n</nav>\n"));
}

/// The curl line, and the answer of a real node.
fn example(page: &mut Page, operation: &Operation) {
    let call = ExampleCall::of(operation);
    let (target, body) = (escaped(&call.target), escaped(call.body));
    page.html(format_args!(
        "<pre class=call data-method=\"{}\" data-target=\"{target}\" data-body=\"{body}\">{}</pre>\n",
        call.method,
        escaped(&call.curl())
    ));
    if let Some(answer) = recorded_answer(operation) {
        let text = serde_json::to_string_pretty(answer).unwrap_or_default();
        page.html(format_args!("<pre>{}</pre>\n", escaped(&text)));
    }
}

fn section(page: &mut Page, operation: &Operation) {
    let title = escaped(&request_line(operation));
    page.html(format_args!("<h3 id=\"{}\">{title}</h3>\n", operation.id));
    page.paragraph(&format!("{}. {}", operation.summary, operation.description));
    page.paragraph(&format!("Access: {}.", operation.access.to_string().replace('`', "")));
    example(page, operation);
    let all = operation.all_params();
    let params: Vec<&Param> = operation.route.name.iter().chain(all.iter()).collect();
    if !(params.is_empty() && operation.all_headers().next().is_none()) {
        page.html(format_args!("<table><tr><th>parameter<th>default<th>meaning</tr>\n"));
        for param in params {
            row(page, param);
        }
        for header in operation.all_headers() {
            let (name, about) = (escaped(header.name), escaped(header.about));
            page.html(format_args!("<tr><td><code>{name}:</code><td>header<td>{about}.</tr>\n"));
        }
        page.html(format_args!("</table>\n"));
    }
    let answers = (operation.answers)().into_iter().map(|answer| {
        let media: Vec<&str> = answer.contents.iter().map(|(media, _)| *media).collect();
        let mut media = media;
        media.dedup();
        format!("<b>{}</b> {} <i>{}</i>", answer.status.as_u16(), answer.about, media.join(", "))
    });
    let answers: Vec<String> = answers.collect();
    page.html(format_args!("<p>Responses: {}.</p>\n", answers.join("; ")));
    let errors: Vec<String> = operation.all_errors().into_iter().map(error_link).collect();
    if !errors.is_empty() {
        page.html(format_args!("<p>Errors: {}.</p>\n", errors.join(", ")));
    }
}

fn row(page: &mut Page, param: &Param) {
    let default = if param.is_needed() {
        "required".to_owned()
    } else {
        param
            .default()
            .map(|default| format!("<code>{}</code>", escaped(&default)))
            .unwrap_or_default()
    };
    let name = if param.form == Form::Labels { "label.KEY" } else { param.name };
    let (name, about) = (escaped(name), escaped(&param.explained()));
    page.html(format_args!("<tr><td><code>{name}</code><td>{default}<td>{about}</tr>\n"));
}

/// The colours and the head of the pages are those of the console.
const STYLE: &str = ":root{color-scheme:light;--back:#fff;--panel:#f4f5f7;--line:#8c929d;--text:#1a1d23;--link:#0b4f9e}\
    @media(prefers-color-scheme:dark){:root{color-scheme:dark;--back:#14161a;--panel:#1e2127;--line:#7d8592;--text:#e8eaee;--link:#8ab8ff}}\
    body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}a{color:var(--link)}\
    header{display:flex;gap:1.25rem;padding:.5rem 1rem;background:var(--panel);border-bottom:1px solid var(--line)}\
    header .brand{font-weight:700;text-decoration:none;color:var(--text)}main{max-width:60rem;padding:0 1rem 2rem}\
    code,h3{font-family:ui-monospace,monospace}code{background:var(--panel);padding:0 .2em}\
    h1{font-size:1.5rem}h2{margin-top:3rem;border-bottom:2px solid}h3{margin-top:2.5rem}h3 code{background:none}\
    pre{background:var(--panel);padding:.6rem;overflow-x:auto}.answer{white-space:pre-wrap;overflow-wrap:anywhere}\
    main ul{overflow-wrap:anywhere}nav ul{columns:2 24rem;padding-left:1rem}nav h4{margin:.8rem 0 0}\
    textarea{width:100%;font:14px ui-monospace,monospace}button{margin:.3rem 0}table{border-collapse:collapse;width:100%}\
    td,th{border-bottom:1px solid var(--line);padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top}";

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page under construction.
struct Page(String);

impl Page {
    /// `root` is the relative link to the root of the node, which leads a browser to the console.
    fn begin(title: &str, root: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width\"><title>{title}</title>\
             <style>{STYLE}</style><header><a class=brand href=\"{root}\">holdfast</a>\
             <a href=\"{root}docs\">API</a></header><main><h1>{title}</h1>\n"
        ))
    }

    /// Adds HTML.
    fn html(&mut self, html: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _infallible = self.0.write_fmt(html);
    }

    /// Adds a paragraph of text, unless the text is empty.
    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            self.html(format_args!("<p>{}</p>\n", escaped(text)));
        }
    }
}

/// The method and the path pattern, such as `PUT /v1/locks/{name}`.
pub(super) fn request_line(operation: &Operation) -> String {
    format!("{} {}", operation.method.as_str(), operation.route.pattern)
}

/// A link from `/docs` to the page of an error code, below any prefix that a proxy adds.
fn error_link(code: ErrorCode) -> String {
    format!("<a href=\"{}\"><code>{code}</code></a>", code.type_uri().trim_start_matches('/'))
}

pub(super) fn error_page(code: ErrorCode) -> String {
    let mut page = Page::begin(&format!("{code}: {}", code.title()), "../");
    page.paragraph(&format!("Status {}; the call {}.", of_code(code).as_u16(), code.again()));
    page.paragraph(code.explanation());
    let returned_by: Vec<String> = OPERATIONS
        .iter()
        .filter(|operation| operation.all_errors().contains(&code))
        .map(|operation| format!("<li>{}</li>", link(operation)))
        .collect();
    if !returned_by.is_empty() {
        page.html(format_args!("<p>Returned by:</p><ul>{}</ul>\n", returned_by.concat()));
    }
    page.0
}

fn link(operation: &Operation) -> String {
    let line = escaped(&request_line(operation));
    format!("<a href=\"../docs#{}\"><code>{line}</code></a>", operation.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_call_with_its_example_and_every_error_code() {
        let docs = api_page(false);
        for operation in OPERATIONS {
            let title = format!("id=\"{}\">{}<", operation.id, request_line(operation));
            assert!(docs.contains(&title));
            assert!(docs.contains(&format!("<a href=\"#{}\">", operation.id)));
            assert!(docs.contains(&escaped(&ExampleCall::of(operation).curl())));
        }
        for code in ErrorCode::ALL {
            assert!(docs.contains(&error_link(*code)), "{code}");
            assert!(error_page(*code).contains(code.title().split('\'').next().unwrap()));
        }
        assert!(!docs.contains("<script") && !docs.contains("src=") && !docs.contains("http://"));
        assert_eq!(api_page(true).matches("<script").count(), 1);
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped(r#"<b a="&">"#), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}
