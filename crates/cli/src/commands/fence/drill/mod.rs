//! `holdfast fence drill`: tests whether a store rejects a stale token.
//!
//! A first holder gets a token, a second holder writes, then the first holder writes with its old token. Two sessions
//! acquire the real lock, and the second session holds it while it writes, so the drill does not disturb other
//! holders.

mod store;

use std::time::Duration;

use clap::{ArgGroup, Args};
use holdfast_client::{Client, Error, FencingToken, Guard};
use holdfast_types::LockName;
use serde_json::json;

use self::store::{DrilledStore, WriteResult};
use crate::arguments::{ClusterArgs, Format, text_or_file};
use crate::exit::CommandFailure;
use crate::output::{answer, print};

/// The maximum wait for the lock.
const WAIT: Duration = Duration::from_secs(10);
/// The exit code of an unclear result.
const UNCLEAR: u8 = 3;
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("store").args(["url", "postgres"]).required(true))]
#[command(group = ArgGroup::new("write").args(["table", "sql"]))]
pub(crate) struct DrillArgs {
    /// Your endpoint, which should reject stale tokens. {token} in it becomes the number.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Your database in libpq form: host=... user=... dbname=..., or a URL. Without TLS. @FILE reads it from a file.
    #[arg(long, value_name = "URL", requires = "write", value_parser = text_or_file)]
    postgres: Option<String>,
    /// The table with the trigger to test; the drill writes with a statement that changes no data.
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pub(super) table: Option<String>,
    /// The statements that your program writes with: no row is a rejection. {token} becomes the number.
    #[arg(long, value_name = "SQL", conflicts_with = "url")]
    pub(super) sql: Option<String>,
    /// The lock that protects the resource; the drill acquires it twice.
    #[arg(long, value_name = "NAME", default_value = "fence-drill")]
    lock: LockName,
    /// The protected resource: a parameter of the header Fencing-Token, by default none; in the trigger, by default the name of the lock.
    #[arg(long, value_name = "NAME")]
    pub(super) resource: Option<String>,
    /// The method of the writes.
    #[arg(long, default_value = "PUT", conflicts_with = "postgres")]
    pub(super) method: String,
    /// The body of the writes. {token} in it becomes the number.
    #[arg(long, default_value = "", conflicts_with = "postgres")]
    pub(super) body: String,
    /// Another header of the writes. {token} in it becomes the number. @FILE reads it from a file.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header, conflicts_with = "postgres")]
    pub(super) header: Vec<(String, String)>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl DrillArgs {
    pub(super) fn resource(&self) -> &str {
        self.resource.as_deref().unwrap_or(self.lock.as_str())
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text_or_file(text)?.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        Some(_) | None => Err("write 'NAME: VALUE'".to_owned()),
    }
}

/// The results of the writes, in their order.
#[derive(Debug)]
struct DrillWrites {
    newer: WriteResult,
    older: WriteResult,
    newer_again: WriteResult,
    without: WriteResult,
}

#[derive(Debug, PartialEq, Eq)]
enum DrillVerdict {
    Guarded,
    NotGuarded(String),
    Unclear(String),
}

pub(super) async fn run(args: &DrillArgs) -> Result<(), CommandFailure> {
    let store = DrilledStore::of(args)?;
    let (first_client, first) = acquire(args).await?;
    let stale = first.token();
    release(&first_client, first).await?;
    let (second_client, second) = acquire(args).await?;
    let token = second.token();
    let writes = DrillWrites {
        newer: store.write(Some(token)).await,
        older: store.write(Some(stale)).await,
        newer_again: store.write(Some(token)).await,
        without: store.write(None).await,
    };
    let still_held = second.is_held();
    release(&second_client, second).await?;
    let request = store.request(token);
    let verdict = if still_held {
        judge(&writes, &format!("{request}; {}", store.options()))
    } else {
        DrillVerdict::Unclear("the lock was lost during the drill: run it again".to_owned())
    };
    let format = args.cluster.format();
    let body = json!({ "verdict": verdict.word(), "lock": args.lock,
        "older": { "token": stale.0, "write": writes.older.to_string() },
        "newer": { "token": token.0, "write": writes.newer.to_string(), "again": writes.newer_again.to_string() },
        "without": { "write": writes.without.to_string() }, "request": request });
    answer(format, &body, verdict.word(), &story(&writes, [stale, token], &args.lock));
    match verdict {
        DrillVerdict::Guarded if format == Format::Table => print(&guarded(&writes)),
        DrillVerdict::Guarded => {}
        DrillVerdict::NotGuarded(answer) => {
            return Err(CommandFailure::failed(format!(
                "NOT guarded: the store accepted the write of a holder that had lost the lock ({answer}); the write was {}; {}",
                store.request(stale),
                store.fix().await
            )));
        }
        DrillVerdict::Unclear(reason) => return Err(unclear(reason)),
    }
    Ok(())
}

/// Acquires the lock with a new session.
async fn acquire(args: &DrillArgs) -> Result<(Client, Guard), CommandFailure> {
    let client = args.cluster.nodes.client_with(|builder| builder.session_prefix("fence-drill"));
    let client = client.map_err(|failure| {
        if let CommandFailure::Usage(_) = failure { failure } else { unclear(failure) }
    })?;
    let guard = client.lock(args.lock.as_str()).timeout(WAIT).acquire().await;
    Ok((client, guard.map_err(no_lock)?))
}

async fn release(client: &Client, guard: Guard) -> Result<(), CommandFailure> {
    guard.release().await.map_err(no_lock)?;
    client.close().await.map_err(no_lock)
}

fn no_lock(error: Error) -> CommandFailure {
    unclear(format!("the drill needs the lock: {}", CommandFailure::from(error)))
}

fn unclear(reason: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Code(UNCLEAR, Some(format!("the result is unclear: {reason}")))
}

fn judge(writes: &DrillWrites, options: &str) -> DrillVerdict {
    use WriteResult::{Accepted, Failed, Rejected};
    match (&writes.newer, &writes.older, &writes.newer_again) {
        (Rejected(answer) | Failed(answer), _, _) => DrillVerdict::Unclear(format!(
            "the write of the current holder was not accepted ({answer}): {options}"
        )),
        (Accepted(_), Accepted(answer), _) => DrillVerdict::NotGuarded(answer.clone()),
        (Accepted(_), Failed(answer), _) => DrillVerdict::Unclear(format!(
            "the stale write was neither accepted nor rejected ({answer})"
        )),
        (Accepted(_), Rejected(_), Accepted(_)) => DrillVerdict::Guarded,
        (Accepted(_), Rejected(_), Rejected(answer) | Failed(answer)) => {
            DrillVerdict::Unclear(format!(
                "the next write of the current holder was not accepted ({answer}): \
                 does the store compare tokens (equal or larger passes), or does it accept each write only once?"
            ))
        }
    }
}

impl DrillVerdict {
    fn word(&self) -> &'static str {
        match self {
            Self::Guarded => "guarded",
            Self::NotGuarded(_) => "not-guarded",
            Self::Unclear(_) => "unclear",
        }
    }
}

fn guarded(writes: &DrillWrites) -> String {
    let verdict =
        "guarded: the write of the former holder was rejected, and no other write with a token";
    match writes.without {
        WriteResult::Accepted(_) => format!(
            "{verdict}\nbut a write without any token was accepted: a program that leaves it out is not fenced"
        ),
        WriteResult::Rejected(_) | WriteResult::Failed(_) => verdict.to_owned(),
    }
}

fn story(writes: &DrillWrites, [stale, token]: [FencingToken; 2], lock: &LockName) -> String {
    [
        format!("A got {lock} with token {stale}, and was paused"),
        format!("B got {lock} with token {token}, and wrote: {}", writes.newer),
        format!("A resumed, and wrote with token {stale}: {}", writes.older),
        format!("B wrote again with token {token}: {}", writes.newer_again),
        format!("a write without a token: {}", writes.without),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn secrets_can_be_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("@{}", path.display())
        };
        let parsed = |words: &[&str]| {
            let command = DrillArgs::augment_args(clap::Command::new("drill"));
            let matches = command.try_get_matches_from([&["drill"][..], words].concat());
            matches.and_then(|matches| DrillArgs::from_arg_matches(&matches))
        };
        let url = file("url", "postgres://me:secret@db\n");
        let args = parsed(&["--postgres", &url, "--table", "t"]).unwrap();
        assert_eq!(args.postgres.as_deref(), Some("postgres://me:secret@db"));
        let header = file("header", "Authorization: Bearer secret\n");
        let args = parsed(&["--url", "http://a/", "-H", &header, "-H", "a: b"]).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(args.header, [pair("Authorization", "Bearer secret"), pair("a", "b")]);
        let wrong = file("wrong", "secret");
        let error = parsed(&["--url", "http://a/", "-H", &wrong]).unwrap_err().to_string();
        assert!(error.contains("write 'NAME: VALUE'") && !error.contains("secret"), "{error}");
        assert!(parsed(&["--postgres", "@/nosuch", "--table", "t"]).is_err());
    }

    fn verdict(newer: &str, older: &str, again: &str) -> &'static str {
        let result = |word: &str| match word {
            "yes" => WriteResult::Accepted("200 OK".to_owned()),
            "no" => WriteResult::Rejected("412 Precondition Failed".to_owned()),
            _ => WriteResult::Failed("500 Internal Server Error".to_owned()),
        };
        let (newer, older, newer_again) = (result(newer), result(older), result(again));
        judge(&DrillWrites { newer, older, newer_again, without: result("no") }, "").word()
    }

    #[test]
    fn only_the_rejection_of_the_stale_write_alone_is_a_guard() {
        assert_eq!(verdict("yes", "no", "yes"), "guarded");
        assert_eq!(verdict("yes", "yes", "yes"), "not-guarded");
        assert_eq!(verdict("yes", "yes", "no"), "not-guarded");
        for unclear in [
            ("no", "no", "no"),
            ("?", "no", "yes"),
            ("yes", "?", "yes"),
            ("yes", "no", "no"),
            ("yes", "no", "?"),
        ] {
            assert_eq!(verdict(unclear.0, unclear.1, unclear.2), "unclear", "{unclear:?}");
        }
    }
}
