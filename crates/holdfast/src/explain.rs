//! `holdfast explain CODE`: what an error code means, whether to retry, and what to do next. Asks no cluster.
//!
//! Owns nothing: the text is that of `/errors/{code}` on every node.

use holdfast_api::ErrorCode;

use crate::cli::ExplainArgs;
use crate::exit::Stop;
use crate::output::{print, table};

/// Prints the explanation of a code, or the list of codes.
///
/// # Errors
/// A code that does not exist, with the nearest one that does.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Stop> {
    let Some(code) = &args.code else {
        print(&list());
        return Ok(());
    };
    // Also as a problem's `type` has it.
    let name = code.trim_start_matches("/errors/");
    let code: ErrorCode = name
        .parse()
        .map_err(|error| Stop::failed(format!("{error} (holdfast explain lists them all)")))?;
    print(holdfast_http::explanation(code).trim_end());
    Ok(())
}

fn list() -> String {
    let row = |code: &ErrorCode| {
        let again = if code.retryable() { "yes" } else { "no" };
        [code.to_string(), again.to_owned(), code.title().to_owned()]
    };
    table(["code", "retry", "what"], ErrorCode::ALL.iter().map(row))
}
