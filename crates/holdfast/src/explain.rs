//! `holdfast explain CODE`: what an error code means, whether to retry, and what to do next. Asks no cluster.
//!
//! Owns nothing: the text is that of `/errors/{code}` on every node.

use holdfast_api::ErrorCode;
use serde::Serialize;

use crate::cli::ExplainArgs;
use crate::exit::Stop;
use crate::output::{answer, answer_rows, table};

/// Prints the explanation of a code, or the list of codes.
///
/// # Errors
/// A code that does not exist, with the nearest one that does.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Stop> {
    let Some(code) = &args.code else {
        let rows: Vec<_> = ErrorCode::ALL.iter().copied().map(Explained::short).collect();
        let name = |row: &Explained| row.code.to_string();
        answer_rows(args.output, &rows, &rows, name, || list(&rows));
        return Ok(());
    };
    // Also as a problem's `type` has it.
    let name = code.trim_start_matches("/errors/");
    let code: ErrorCode = name
        .parse()
        .map_err(|error| Stop::failed(format!("{error} (holdfast explain lists them all)")))?;
    let text = holdfast_http::explanation(code).trim_end().to_owned();
    let body = Explained { explanation: Some(text.clone()), ..Explained::short(code) };
    answer(args.output, &body, || code.title().to_owned(), || text);
    Ok(())
}

/// A code, and what is known of it.
#[derive(Debug, Serialize)]
struct Explained {
    code: ErrorCode,
    retryable: bool,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
}

impl Explained {
    fn short(code: ErrorCode) -> Self {
        let (retryable, title) = (code.retryable(), code.title());
        Self { code, retryable, title, explanation: None }
    }
}

fn list(rows: &[Explained]) -> String {
    let row = |row: &Explained| {
        let again = if row.retryable { "yes" } else { "no" };
        [row.code.to_string(), again.to_owned(), row.title.to_owned()]
    };
    table(["code", "retry", "what"], rows.iter().map(row))
}
