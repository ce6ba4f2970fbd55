//! Hints of the command line for rejected calls.
//!
//! The server's hints name HTTP parameters. A command shows the hint of its own options where a table has one, and
//! otherwise the server's hint, with `?name=VALUE` written as `--name VALUE`. No hint is dropped.

use std::borrow::Cow;

use holdfast_api::{ErrorCode, Problem};
use holdfast_client::Error;

/// The next step after a rejection, for every command.
const COMMON: [(ErrorCode, &str); 10] = [
    (
        ErrorCode::LimitMismatch,
        "holdfast lock NAME --permits N/LIMIT creates a semaphore, and holdfast policy NAME --limit N changes the limit",
    ),
    (
        ErrorCode::ShardsMismatch,
        "to acquire, add --shards N with the number of the lock; otherwise name one shard, such as NAME/0. holdfast policy NAME --shards N changes the number of an unused lock",
    ),
    (ErrorCode::Deadlock, "release the locks of this session, then acquire again"),
    (
        ErrorCode::NotHolder,
        "ask for it: holdfast unlock NAME --ask; or as operator: holdfast unlock NAME --force --reason TEXT",
    ),
    (ErrorCode::BarrierBroken, "every party must arrive again"),
    (ErrorCode::CounterOverflow, "holdfast counter set NAME NUMBER sets another value"),
    (
        ErrorCode::MembershipInProgress,
        "holdfast member ls shows it; holdfast member remove ID cancels the join of a node",
    ),
    (ErrorCode::LevelTooLow, "holdfast cluster level shows the next step"),
    (ErrorCode::LevelNotReady, "holdfast cluster level shows the programs of all nodes"),
    (
        ErrorCode::Sealed,
        "repeat the command at the new cluster, or when holdfast alarms shows no seal",
    ),
];

/// The next step after a call that takes a lock without shards for a sharded one.
const NOT_SHARDED: &str = "leave --shards and --shard out, or set the number while the lock is unused: holdfast policy NAME --shards N";

/// The next step after a rejected call about znodes.
const TREE: [(ErrorCode, &str); 4] = [
    (ErrorCode::ZnodeExists, "holdfast tree set replaces its data"),
    (ErrorCode::NotEmpty, "add --recursive to delete its descendants too"),
    (ErrorCode::VersionMismatch, "read it again, and use the version that you have read"),
    (ErrorCode::Forbidden, "authenticate with --user NAME:PASSWORD or HOLDFAST_USER"),
];

/// The next step after a call about a znode that does not exist.
const MISSING: &str = "holdfast tree ls PATH lists the znodes below another one";
const MISSING_TO_CREATE: &str = "holdfast tree create creates it; with --parents also its parents";

/// The hint after the error of any call.
pub fn common_hint(error: &Error) -> Option<Cow<'_, str>> {
    let plain = |problem: &Problem| {
        problem.code == ErrorCode::ShardsMismatch && problem.facts.shards.is_none()
    };
    if error.problem().is_some_and(plain) {
        return Some(Cow::Borrowed(NOT_SHARDED));
    }
    // A free lock has no holder to ask.
    let is_free =
        |problem: &Problem| problem.code == ErrorCode::NotHolder && problem.facts.holder.is_none();
    let own = find(error, &COMMON).filter(|_| !error.problem().is_some_and(is_free));
    let of_node = |hint| match str::strip_prefix(hint, "GET /errors/") {
        Some(code) => Cow::Owned(format!("holdfast explain {code}")),
        None => with_options(hint),
    };
    own.map(Cow::Borrowed).or_else(|| error.hint().map(of_node))
}

/// The hint after the error of a call about znodes. `creates` is for a call that creates or changes a znode.
pub(crate) fn tree_hint(error: &Error, creates: bool) -> Option<Cow<'_, str>> {
    let missing = if creates { MISSING_TO_CREATE } else { MISSING };
    find(error, &[(ErrorCode::NotFound, missing)])
        .or_else(|| find(error, &TREE))
        .map(Cow::Borrowed)
        .or_else(|| common_hint(error))
}

/// The hint after the error of a call about the quota of a subtree.
pub(crate) fn tree_quota_hint(error: &Error) -> Option<Cow<'_, str>> {
    let missing = "holdfast tree quota lists the quotas";
    find(error, &[(ErrorCode::NotFound, missing)]).map(Cow::Borrowed).or_else(|| common_hint(error))
}

fn find(error: &Error, hints: &[(ErrorCode, &'static str)]) -> Option<&'static str> {
    let problem = error.problem()?;
    hints.iter().find(|(code, _)| *code == problem.code).map(|(_, hint)| *hint)
}

/// Writes the parameters of a server's hint as options: `add ?force` becomes `add --force`. The path of a call keeps its
/// query.
fn with_options(hint: &str) -> Cow<'_, str> {
    if !hint.split(' ').any(is_parameter) {
        return Cow::Borrowed(hint);
    }
    let words = hint.split(' ').map(|word| match word.strip_prefix(['?', '&']) {
        Some(rest) if is_parameter(word) => {
            let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
            let option = format!("--{} {value}", name.replace('_', "-"));
            option.trim_end().to_owned()
        }
        Some(_) | None => word.to_owned(),
    });
    Cow::Owned(words.collect::<Vec<_>>().join(" "))
}

/// Whether a word is `?name`, `?name=VALUE` or `&name=VALUE`.
fn is_parameter(word: &str) -> bool {
    word.strip_prefix(['?', '&'])
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use holdfast_api::Problem;

    use super::*;

    fn rejected(code: ErrorCode, hint: &'static str) -> Error {
        Error::Rejected(Box::new(Problem::new(code, "why").hint(hint)))
    }

    #[test]
    fn a_hint_of_the_server_is_shown_with_options_unless_the_command_line_has_its_own() {
        for (code, server, shown) in [
            (ErrorCode::MembershipUnsafe, "add ?force", "add --force"),
            (
                ErrorCode::InvalidArgument,
                "add &on_death=count to count",
                "add --on-death count to count",
            ),
            (ErrorCode::Forbidden, "an administrator allows it", "an administrator allows it"),
            (
                ErrorCode::MembershipUnsafe,
                "GET /errors/membership-unsafe shows the next step",
                "holdfast explain membership-unsafe shows the next step",
            ),
            (
                ErrorCode::NotFound,
                "create it with PUT /v1/latches/{name}?count=N",
                "create it with PUT /v1/latches/{name}?count=N",
            ),
        ] {
            assert_eq!(common_hint(&rejected(code, server)).as_deref(), Some(shown), "{server}");
        }
        let limit = rejected(ErrorCode::LimitMismatch, "add limit=N");
        assert!(common_hint(&limit).unwrap().contains("--permits N/LIMIT"));
        let mut shards = Problem::new(ErrorCode::ShardsMismatch, "why");
        let hint = |problem: &Problem| {
            let error = Error::Rejected(Box::new(problem.clone()));
            common_hint(&error).map(Cow::into_owned).unwrap()
        };
        assert!(hint(&shards).starts_with("leave --shards"));
        shards.facts.shards = Some(3);
        assert!(hint(&shards).contains("add --shards N"));
        let overflow = rejected(ErrorCode::CounterOverflow, "PUT another value first");
        assert!(common_hint(&overflow).unwrap().starts_with("holdfast counter set"));
        let free = rejected(ErrorCode::NotHolder, "acquire it instead");
        assert_eq!(common_hint(&free).as_deref(), Some("acquire it instead"));
        assert!(
            tree_hint(&rejected(ErrorCode::NotEmpty, "add ?recursive"), false)
                .unwrap()
                .contains("--recursive")
        );
    }
}
