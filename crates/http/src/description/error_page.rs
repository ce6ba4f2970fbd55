//! The page `/errors/{code}` for a browser.

use holdfast_api::ErrorCode;

use super::html::{Page, escaped, request_line};
use crate::operation::Operation;
use crate::operations::OPERATIONS;
use crate::status::of_code;

pub(super) fn page(code: ErrorCode) -> String {
    let mut page = Page::begin(&format!("{code}: {}", code.title()));
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
    format!("<a href=\"/docs#{}\"><code>{line}</code></a>", operation.id)
}
