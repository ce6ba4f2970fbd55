//! `holdfast fence drill`: a holder gets a token and is away, a second one writes, the first one wakes and writes.
//!
//! Owns the order of the drill and its verdict. The locks are real: the tokens come from two sessions of the cluster,
//! and the second one holds the lock while it writes, so that nobody who plays by the rules is disturbed.

use std::time::Duration;

use holdfast_client::{Client, FencingToken, Guard};
use serde_json::json;

use super::database::Database;
use super::endpoint::{Endpoint, Said};
use crate::cli::{DrillArgs, Format};
use crate::commands::stop;
use crate::exit::Stop;
use crate::output::{print, print_json};

/// How long the drill queues for the lock.
const WAIT: Duration = Duration::from_secs(10);
/// The exit code of a drill that could not tell.
const UNCLEAR: u8 = 3;

/// What was seen.
#[derive(Debug)]
struct Seen {
    newer: Said,
    older: Said,
    newer_again: Said,
    without: Said,
}

/// What it means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Guarded,
    NotGuarded(String),
    Unclear(String),
}

/// Where the writes land.
enum Store<'a> {
    Http(Endpoint<'a>),
    Postgres(Box<Database<'a>>),
}

impl<'a> Store<'a> {
    fn of(args: &'a DrillArgs) -> Result<Self, Stop> {
        match (&args.url, &args.postgres) {
            (Some(url), _) => Endpoint::new(url, args).map(Self::Http),
            (None, Some(url)) => {
                Database::new(url, args).map(|store| Self::Postgres(Box::new(store)))
            }
            (None, None) => Err(Stop::failed("say what to drill: --url or --postgres")),
        }
    }

    async fn write(&self, token: Option<FencingToken>) -> Said {
        match self {
            Self::Http(endpoint) => endpoint.write(token).await,
            Self::Postgres(database) => database.write(token).await,
        }
    }

    /// How the present holder's write may be made to pass.
    fn options(&self) -> &'static str {
        match self {
            Self::Http(_) => "see --method, --body and --header",
            Self::Postgres(_) => "see --lock, --resource and --sql",
        }
    }

    /// What to do if a stale write was accepted.
    async fn fix(&self) -> String {
        match self {
            Self::Http(_) => "the endpoint has to compare Fencing-Token where the data is written, and answer 412: \
                docs/fencing.md".to_owned(),
            Self::Postgres(database) => database.fix().await,
        }
    }
}

pub(super) async fn run(args: &DrillArgs) -> Result<(), Stop> {
    let store = Store::of(args)?;
    let (paused, older) = hold(args).await?;
    let stale = older.token();
    give_back(args, &paused, older).await?;
    let (present, newer) = hold(args).await?;
    let token = newer.token();
    let seen = Seen {
        newer: store.write(Some(token)).await,
        older: store.write(Some(stale)).await,
        newer_again: store.write(Some(token)).await,
        without: store.write(None).await,
    };
    let still_held = newer.is_held();
    give_back(args, &present, newer).await?;
    let verdict = if still_held {
        judge(&seen, store.options())
    } else {
        Verdict::Unclear("the lock was lost during the drill: run it again".to_owned())
    };
    match args.target.output {
        Format::Table => print(&story(&seen, [stale.0, token.0], &args.lock)),
        Format::Json | Format::Jsonl => {
            print_json(&json!({ "verdict": verdict.word(), "lock": args.lock,
            "older": { "token": stale.0, "write": seen.older.words() },
            "newer": { "token": token.0, "write": seen.newer.words(), "again": seen.newer_again.words() },
            "without": { "write": seen.without.words() } }));
        }
        Format::Value => print(verdict.word()),
    }
    verdict.end(&seen, &store, args.target.output).await
}

/// Takes the lock under a session of its own.
async fn hold(args: &DrillArgs) -> Result<(Client, Guard), Stop> {
    let builder = Client::builder(&args.target.addr).session_prefix("fence-drill");
    let client = builder
        .build()
        .map_err(|error| unclear(format!("{error}; see --addr and HOLDFAST_ADDR")))?;
    let guard = client.lock(&args.lock).wait(WAIT).acquire().await;
    let guard = guard.map_err(|error| no_lock(args, &error))?;
    Ok((client, guard))
}

async fn give_back(args: &DrillArgs, client: &Client, guard: Guard) -> Result<(), Stop> {
    guard.release().await.map_err(|error| no_lock(args, &error))?;
    client.close().await.map_err(|error| no_lock(args, &error))
}

fn no_lock(args: &DrillArgs, error: &holdfast_client::Error) -> Stop {
    unclear(format!("no lock to drill with: {}", stop(&args.target, error)))
}

fn unclear(reason: impl std::fmt::Display) -> Stop {
    Stop::Code(UNCLEAR, Some(format!("could not tell: {reason}")))
}

fn judge(seen: &Seen, options: &str) -> Verdict {
    match (&seen.newer, &seen.older, &seen.newer_again) {
        (Said::Refused(how) | Said::Nothing(how), _, _) => Verdict::Unclear(format!(
            "the present holder's own write was not accepted ({how}): {options}"
        )),
        (Said::Accepted(_), Said::Accepted(how), _) => Verdict::NotGuarded(how.clone()),
        (Said::Accepted(_), Said::Nothing(how), _) => {
            Verdict::Unclear(format!("the stale write was neither accepted nor refused ({how})"))
        }
        (Said::Accepted(_), Said::Refused(_), Said::Accepted(_)) => Verdict::Guarded,
        (Said::Accepted(_), Said::Refused(_), Said::Refused(how) | Said::Nothing(how)) => {
            Verdict::Unclear(format!(
                "after the stale write the present holder was not accepted again either ({how}): \
                 does it compare tokens (equal or larger passes), or does it take each write once?"
            ))
        }
    }
}

impl Verdict {
    /// For programs.
    fn word(&self) -> &'static str {
        match self {
            Self::Guarded => "guarded",
            Self::NotGuarded(_) => "not-guarded",
            Self::Unclear(_) => "unclear",
        }
    }

    async fn end(self, seen: &Seen, store: &Store<'_>, output: Format) -> Result<(), Stop> {
        match self {
            Self::Guarded => {
                if output == Format::Table {
                    print(&guarded(seen));
                }
                Ok(())
            }
            Self::NotGuarded(how) => Err(Stop::failed(format!(
                "NOT guarded: the store accepted the write of a holder that had lost the lock ({how}); {}",
                store.fix().await
            ))),
            Self::Unclear(reason) => Err(unclear(reason)),
        }
    }
}

fn guarded(seen: &Seen) -> String {
    let verdict = "guarded: the holder that was away was refused, and nobody else";
    match seen.without {
        Said::Accepted(_) => format!(
            "{verdict}\nbut a write without any token was accepted: whoever forgets it is not fenced"
        ),
        Said::Refused(_) | Said::Nothing(_) => verdict.to_owned(),
    }
}

fn story(seen: &Seen, [stale, token]: [u64; 2], lock: &str) -> String {
    [
        format!("A got {lock} with token {stale}, and was away"),
        format!("B got {lock} with token {token}, and wrote: {}", seen.newer.words()),
        format!("A woke, and wrote with token {stale}: {}", seen.older.words()),
        format!("B wrote again with token {token}: {}", seen.newer_again.words()),
        format!("somebody wrote without a token: {}", seen.without.words()),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(newer: &str, older: &str, again: &str) -> &'static str {
        let said = |word: &str| match word {
            "yes" => Said::Accepted("200 OK".to_owned()),
            "no" => Said::Refused("412 Precondition Failed".to_owned()),
            _ => Said::Nothing("500 Internal Server Error".to_owned()),
        };
        let (newer, older, newer_again) = (said(newer), said(older), said(again));
        judge(&Seen { newer, older, newer_again, without: said("no") }, "").word()
    }

    #[test]
    fn only_a_refusal_of_the_stale_write_alone_is_a_guard() {
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
