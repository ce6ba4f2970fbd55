//! HTML pages without scripts or external resources, so that they work in a browser that can reach only the node; and the page
//! `/errors/{code}`.

use std::fmt::Write as _;

use holdfast_api::ErrorCode;

use crate::operation::Operation;
use crate::operations::OPERATIONS;
use crate::status::of_code;

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
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page under construction.
pub(super) struct Page(pub(super) String);

impl Page {
    /// `root` is the relative link to the root of the node, which leads a browser to the console.
    pub(super) fn begin(title: &str, root: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width\"><title>{title}</title>\
             <style>{STYLE}</style><header><a class=brand href=\"{root}\">holdfast</a>\
             <a href=\"{root}docs\">API</a></header><main><h1>{title}</h1>\n"
        ))
    }

    /// Adds HTML.
    pub(super) fn html(&mut self, html: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _infallible = self.0.write_fmt(html);
    }

    /// Adds a paragraph of text, unless the text is empty.
    pub(super) fn paragraph(&mut self, text: &str) {
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
pub(super) fn error_link(code: ErrorCode) -> String {
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
    fn text_is_escaped() {
        assert_eq!(escaped(r#"<b a="&">"#), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}
