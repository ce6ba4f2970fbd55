//! Renders `docs/http-reference.md`: the calls and the error codes as Markdown. A test compares the page.

use std::fmt::Write as _;

use holdfast_api::{ErrorCode, Form, Param};

use super::ExampleCall;
use super::html::request_line;
use crate::operation::Operation;
use crate::operations::OPERATIONS;
use crate::routes::CHAPTERS;
use crate::status::of_code;

const ABOUT: &str = "# All HTTP calls and errors\n\nGenerated from the program. [The HTTP API](http-api.md) explains the \
    calls in use. The page `/docs` of each node has the same text, with responses.\n";

fn page() -> String {
    let mut page = ABOUT.to_owned();
    for (chapter, about) in CHAPTERS {
        let mut letters = chapter.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        write!(page, "\n## {first}{}\n\n{about}\n", letters.as_str()).unwrap();
        for operation in OPERATIONS.iter().filter(|operation| operation.route.tag == chapter) {
            page.push_str(&section(operation));
        }
    }
    page + &errors()
}

fn section(operation: &Operation) -> String {
    let (line, curl) = (request_line(operation), ExampleCall::of(operation).curl());
    let mut text = format!("\n### `{line}`\n\n{}.", operation.summary);
    if !operation.description.is_empty() {
        write!(text, " {}", operation.description).unwrap();
    }
    write!(text, "\n\n```text\n{curl}\n```\n\nAccess: {}.\n", operation.access).unwrap();
    let all = operation.all_params();
    let params: Vec<&Param> = operation.route.name.iter().chain(all.iter()).collect();
    if !(params.is_empty() && operation.all_headers().next().is_none()) {
        text.push_str("\n| parameter | default | meaning |\n|---|---|---|\n");
    }
    for param in params {
        let name = if param.form == Form::Labels { "label.KEY" } else { param.name };
        let default = match param.default() {
            _ if param.is_needed() => "required".to_owned(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        writeln!(text, "| `{name}` | {default} | {} |", cell(&param.explained())).unwrap();
    }
    for header in operation.all_headers() {
        writeln!(text, "| `{}:` | header | {}. |", header.name, cell(header.about)).unwrap();
    }
    let answers = (operation.answers)().into_iter().map(|answer| {
        let mut media: Vec<&str> = answer.contents.iter().map(|(media, _)| *media).collect();
        media.dedup();
        let media =
            if media.is_empty() { media.concat() } else { format!(" (`{}`)", media.join("`, `")) };
        format!("{} {}{media}", answer.status.as_u16(), answer.about)
    });
    write!(text, "\nResponses: {}.\n", answers.collect::<Vec<_>>().join("; ")).unwrap();
    let codes: Vec<String> =
        operation.all_errors().into_iter().map(|code| format!("`{code}`")).collect();
    if !codes.is_empty() {
        write!(text, "\nErrors: {}.\n", codes.join(", ")).unwrap();
    }
    text
}

fn errors() -> String {
    let mut text =
        "\n## Errors\n\n`holdfast explain CODE` and `GET /errors/{code}` print the same text.\n\n\
                    | code | status | retryable | meaning, and what to do |\n|---|---|---|---|\n"
            .to_owned();
    for code in ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        let (status, about) = (of_code(*code).as_u16(), cell(code.explanation()));
        writeln!(text, "| `{code}` | {status} | {again} | {}. {about} |", code.title()).unwrap();
    }
    text
}

/// Text within a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// `HOLDFAST_REWRITE=1` rewrites the page.
#[test]
fn the_reference_page_has_every_call_and_every_error_code() {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-reference.md");
    let page = page();
    if std::env::var_os("HOLDFAST_REWRITE").is_some() {
        std::fs::write(PATH, &page).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap();
    assert!(page == written, "run this test with HOLDFAST_REWRITE=1, and commit {PATH}");
}
