//! Hints of `holdfast tree` for the errors of calls about znodes.

use holdfast_api::ErrorCode;
use holdfast_client::Error;

/// The next step after an error, for the command line.
const HINTS: [(ErrorCode, &str); 5] = [
    (ErrorCode::NotFound, "holdfast tree create creates it; with --parents also its parents"),
    (ErrorCode::ZnodeExists, "holdfast tree set replaces its data"),
    (ErrorCode::NotEmpty, "add --recursive to delete its descendants too"),
    (ErrorCode::VersionMismatch, "read it again, and use the version that you have read"),
    (ErrorCode::Forbidden, "authenticate with --user NAME:PASSWORD or HOLDFAST_USER"),
];

/// Replaces the hint for HTTP in an error with the hint for the command line.
pub(super) fn with_tree_hint(error: Error) -> Error {
    let Error::Rejected(mut problem) = error else { return error };
    let hint = HINTS.iter().find(|(code, _)| *code == problem.code);
    if let Some((_, hint)) = hint {
        problem.hint = Some((*hint).into());
    }
    Error::Rejected(problem)
}
