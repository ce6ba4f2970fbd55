//! Pages about the API, for people: what an error code means, and the whole API on one page. No script, nothing from
//! elsewhere: they work where nothing but the node can be reached.
//!
//! Owns the form of the pages. What they say comes from the operations and from `ErrorCode`. Refuses to keep text of
//! its own about any call.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use holdfast_api::{ErrorCode, Keys, Param, unescape_path};

use crate::action::Action;
use crate::exchange::Exchange;
use crate::openapi::{Operation, all, codes, document, path_parameter, tag};
use crate::reply::Reply;
use crate::status::{Fault, of_code, problem};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
/// Whatever a page came to say, nothing of it runs and nothing is fetched.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
    color:#222;background:#fff}code,h3{font-family:ui-monospace,monospace}code{background:#f2f2f2;padding:0 .2em}\
    h2{margin-top:3rem;border-bottom:2px solid #222}h3{margin-top:2.5rem}h3 code{background:none}\
    table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ccc;padding:.3rem .6rem .3rem 0;\
    text-align:left;vertical-align:top}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}\
    code{background:#2a2a2a}a{color:#8bf}h2{border-color:#ddd}}";

/// What an error code means, whether to retry, and what to do next: what `/errors/{code}` serves as text, and what
/// the command line prints.
pub fn explanation(code: ErrorCode) -> String {
    code.page(of_code(code).as_u16())
}

/// The description of the API, as `/openapi.json` serves it: an `OpenAPI` 3.1 document, JSON text.
pub fn description() -> Bytes {
    document()
}

/// `GET /errors/{code}`
pub(crate) fn explain(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    let raw = exchange.parts.uri.path().strip_prefix("/errors/").unwrap_or_default();
    let name = unescape_path(raw).unwrap_or_default();
    let code: ErrorCode =
        name.parse().map_err(|error| problem(ErrorCode::NotFound, format!("{error}")))?;
    if !accepts_html(&exchange.parts.headers) {
        return Ok(Reply::text(axum::http::StatusCode::OK, explanation(code)));
    }
    Ok(Reply::text_as(HTML, error_page(code)).with_header(CONTENT_SECURITY_POLICY, POLICY))
}

/// `GET /openapi.json`
pub(crate) fn openapi(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    exchange.query(&Keys::NONE)?;
    Ok(Reply::made(JSON, description()))
}

/// `GET /docs`
pub(crate) fn docs(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    static PAGE: OnceLock<Bytes> = OnceLock::new();
    exchange.query(&Keys::NONE)?;
    let page = PAGE.get_or_init(|| api_page().into()).clone();
    Ok(Reply::made(HTML, page).with_header(CONTENT_SECURITY_POLICY, POLICY))
}

/// HTML is named.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let media = accepted.flat_map(|value| value.split(','));
    media
        .map(|media| media.split(';').next().unwrap_or_default().trim())
        .any(|media| media.eq_ignore_ascii_case("text/html"))
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page under construction.
struct Page(String);

impl Page {
    fn begin(title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width\"><title>{title}</title>\
             <style>{STYLE}</style><h1>{title}</h1>\n"
        ))
    }

    /// Adds HTML.
    fn html(&mut self, html: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _infallible = self.0.write_fmt(html);
    }

    /// Adds a paragraph of text, if there is any.
    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            self.html(format_args!("<p>{}</p>\n", escaped(text)));
        }
    }
}

fn error_page(code: ErrorCode) -> String {
    let mut page = Page::begin(&format!("{code}: {}", code.title()));
    page.paragraph(&format!("Status {}; the call {}.", of_code(code).as_u16(), code.again()));
    page.paragraph(code.explanation());
    let by: Vec<String> = all()
        .filter(|(action, operation)| codes(*action, operation).contains(&code))
        .map(|(action, operation)| format!("<li>{}</li>", link(action, &operation)))
        .collect();
    if !by.is_empty() {
        page.html(format_args!("<p>Answered by:</p><ul>{}</ul>\n", by.concat()));
    }
    page.0
}

/// `PUT /v1/locks/{name}`.
fn line(action: Action) -> String {
    let method = action.method().map(|method| method.to_string()).unwrap_or_default();
    format!("{method} {}", action.route().pattern())
}

fn link(action: Action, operation: &Operation) -> String {
    format!("<a href=\"/docs#{}\"><code>{}</code></a>", operation.id, escaped(&line(action)))
}

fn api_page() -> String {
    let mut page = Page::begin(&format!("holdfast {}: the HTTP API", env!("CARGO_PKG_VERSION")));
    page.html(format_args!(
        "<p>The same for programs: <a href=\"/openapi.json\">/openapi.json</a>.</p>\n"
    ));
    page.paragraph(crate::openapi::ABOUT);
    let mut last = "";
    for (action, operation) in all() {
        let about = tag(action.route());
        if about != last {
            page.html(format_args!("<h2>{}</h2>\n", escaped(about)));
            last = about;
        }
        section(&mut page, action, &operation);
    }
    page.html(format_args!(
        "<h2>errors</h2>\n<table><tr><th>code<th>status<th>send it again<th>what</tr>\n"
    ));
    for code in ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        let (status, title) = (of_code(*code).as_u16(), escaped(code.title()));
        page.html(format_args!(
            "<tr><td>{}<td>{status}<td>{again}<td>{title}</tr>\n",
            of_error(*code)
        ));
    }
    page.html(format_args!("</table>\n"));
    page.0
}

fn of_error(code: ErrorCode) -> String {
    format!("<a href=\"{}\"><code>{code}</code></a>", code.type_uri())
}

fn section(page: &mut Page, action: Action, operation: &Operation) {
    let title = escaped(&line(action));
    page.html(format_args!("<h3 id=\"{}\">{title}</h3>\n", operation.id));
    page.paragraph(&format!("{}. {}", operation.summary, operation.about));
    let path = path_parameter(action.route());
    let params: Vec<&Param> = path.iter().chain(operation.keys.about).collect();
    if !(params.is_empty() && operation.headers.is_empty()) {
        page.html(format_args!("<table><tr><th>parameter<th>default<th>meaning</tr>\n"));
        for param in params {
            row(page, param);
        }
        for header in operation.headers {
            let (name, about) = (escaped(header.name), escaped(header.about));
            page.html(format_args!("<tr><td><code>{name}:</code><td>header<td>{about}.</tr>\n"));
        }
        if operation.keys.labels {
            page.html(format_args!(
                "<tr><td><code>label.KEY</code><td><td>A label, shown to those who wait.</tr>\n"
            ));
        }
        page.html(format_args!("</table>\n"));
    }
    let answers = operation.answers.iter().map(|answer| {
        let media: Vec<&str> = answer.contents.iter().map(|(media, _)| *media).collect();
        let mut media = media;
        media.dedup();
        format!("<b>{}</b> {} <i>{}</i>", answer.status.as_u16(), answer.about, media.join(", "))
    });
    let answers: Vec<String> = answers.collect();
    page.html(format_args!("<p>Answers: {}.</p>\n", answers.join("; ")));
    let errors: Vec<String> = codes(action, operation).into_iter().map(of_error).collect();
    if !errors.is_empty() {
        page.html(format_args!("<p>Errors: {}.</p>\n", errors.join(", ")));
    }
}

fn row(page: &mut Page, param: &Param) {
    let default = if param.is_needed() {
        "needed".to_owned()
    } else {
        param
            .default()
            .map(|default| format!("<code>{}</code>", escaped(&default)))
            .unwrap_or_default()
    };
    let (name, about) = (escaped(param.name), escaped(&param.explained()));
    page.html(format_args!("<tr><td><code>{name}</code><td>{default}<td>{about}</tr>\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_every_call_and_every_code_and_fetches_nothing() {
        let page = api_page();
        for (action, operation) in all() {
            assert!(page.contains(&format!("id=\"{}\">{}<", operation.id, line(action))));
        }
        for code in ErrorCode::ALL {
            assert!(page.contains(&of_error(*code)), "{code}");
            assert!(error_page(*code).contains(code.title().split('\'').next().unwrap()));
        }
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("http://"));
    }

    #[test]
    fn what_is_text_stays_text() {
        assert_eq!(escaped(r#"<b a="&">"#), "&lt;b a=&quot;&amp;&quot;&gt;");
        let mut headers = HeaderMap::new();
        assert!(!accepts_html(&headers));
        headers
            .insert(ACCEPT, HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(accepts_html(&headers));
    }
}
