//! Hints of the command line for rejected calls.
//!
//! The server's hints name HTTP parameters, so a command shows its own hint, or none.

use holdfast_api::ErrorCode;
use holdfast_client::Error;

/// The next step after a rejection, for every command.
const COMMON: [(ErrorCode, &str); 9] = [
    (ErrorCode::LimitMismatch, "holdfast policy NAME --limit N changes the limit"),
    (
        ErrorCode::ShardsMismatch,
        "holdfast policy NAME --shards N changes the number of an unused lock",
    ),
    (ErrorCode::Deadlock, "release the locks of this session, then acquire again"),
    (ErrorCode::BarrierBroken, "every party must arrive again"),
    (
        ErrorCode::MembershipInProgress,
        "holdfast member ls shows it; holdfast member remove ID cancels the join of a node",
    ),
    (ErrorCode::LevelTooLow, "holdfast cluster level shows the next step"),
    (ErrorCode::LevelNotReady, "holdfast cluster level shows the programs of all nodes"),
    (ErrorCode::QuotaExceeded, "holdfast explain quota-exceeded describes the limits"),
    (
        ErrorCode::Sealed,
        "repeat the command at the new cluster, or when holdfast alarms shows no seal",
    ),
];

/// The next step after a rejected call about znodes.
const TREE: [(ErrorCode, &str); 5] = [
    (ErrorCode::NotFound, "holdfast tree create creates it; with --parents also its parents"),
    (ErrorCode::ZnodeExists, "holdfast tree set replaces its data"),
    (ErrorCode::NotEmpty, "add --recursive to delete its descendants too"),
    (ErrorCode::VersionMismatch, "read it again, and use the version that you have read"),
    (ErrorCode::Forbidden, "authenticate with --user NAME:PASSWORD or HOLDFAST_USER"),
];

/// The hint after the error of any call.
pub(crate) fn common_hint(error: &Error) -> Option<&'static str> {
    find(error, &COMMON)
}

/// The hint after the error of a call about znodes.
pub(crate) fn tree_hint(error: &Error) -> Option<&'static str> {
    find(error, &TREE).or_else(|| common_hint(error))
}

fn find(error: &Error, hints: &[(ErrorCode, &'static str)]) -> Option<&'static str> {
    let Error::Rejected(problem) = error else { return None };
    hints.iter().find(|(code, _)| *code == problem.code).map(|(_, hint)| *hint)
}
