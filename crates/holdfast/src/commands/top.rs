//! `holdfast top`: the locks that are waited for most, again and again on a terminal, once for everybody else.

use std::io::IsTerminal as _;
use std::time::Duration;

use holdfast_api::parameters::LIMIT;
use holdfast_api::parameters::lock::{PREFIX, SORT};
use holdfast_api::{ContentionBody, ExplainedBody, Query, TimesBody};

use super::asking::{Ask, Asking};
use super::for_people;
use super::naming::{longest_held, sessions_in_short};
use crate::cli::{Format, TopArgs};
use crate::exit::Stop;
use crate::output::{answer_rows, check, table};

const EVERY: Duration = Duration::from_secs(1);
/// From the top left corner, and nothing below.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(super) async fn run(args: &TopArgs) -> Result<(), Stop> {
    let mut asking = Asking::new(&args.target, None)?;
    let query = Query::default()
        .with(&SORT, &"contention")
        .with(&LIMIT, &args.count)
        .with_some(&PREFIX, args.prefix.as_ref().filter(|prefix| !prefix.is_empty()));
    let ask = Ask::get(query.target("/v1/locks"));
    let live = args.target.output == Format::Table && std::io::stdout().is_terminal();
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let body: ContentionBody = asking.json(&ask).await?;
        let name = |lock: &ExplainedBody| lock.lock.lock.to_string();
        let clear = if live { CLEAR } else { "" };
        let people = || format!("{clear}{}", show(&body));
        answer_rows(args.target.output, &body, &body.locks, name, people);
        check()?;
        if !live {
            return Ok(());
        }
    }
}

/// Locks that are held or waited for: of the others there is nothing to watch.
fn show(body: &ContentionBody) -> String {
    let used = || body.locks.iter().filter(|lock| lock.lock.held || lock.lock.waiters > 0);
    if used().next().is_none() {
        return "no locks are held or waited for".to_owned();
    }
    let header = ["lock", "queue", "held by", "for", "wait p50/p99", "hold p50/p99"];
    table(header, used().map(row))
}

fn row(explained: &ExplainedBody) -> [String; 6] {
    let lock = &explained.lock;
    let none = || "-".to_owned();
    [
        lock.lock.to_string(),
        lock.waiters.to_string(),
        sessions_in_short(lock).unwrap_or_else(none),
        longest_held(lock).map_or_else(none, for_people),
        times(explained.wait.as_ref()),
        times(explained.hold.as_ref()),
    ]
}

fn times(times: Option<&TimesBody>) -> String {
    times.filter(|times| times.count > 0).map_or_else(
        || "-".to_owned(),
        |times| format!("{}/{}", for_people(times.p50_ms), for_people(times.p99_ms)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_that_are_used_are_shown_in_short_lines() {
        let lock = |name: &str, held: bool, holders: &str| {
            format!(
                r#"{{"lock":"{name}","mode":"exclusive","held":{held},"holders":[{holders}],"holders_total":0,"waiters":0,"queue":[],"last_token":9,"wait":{{"count":3,"p50_ms":12,"p99_ms":40,"max_ms":50}}}}"#
            )
        };
        let holder = r#"{"session":"web-3-812-0011223344556677","token":1,"since_ms":5000,"entries":1,"labels":{"host":"web-3","pid":"812","user":"alice"},"mode":"exclusive"}"#;
        let json = format!(
            r#"{{"locks":[{},{}],"revision":1}}"#,
            lock("holdfast-doctor", false, ""),
            lock("shop/orders", true, holder)
        );
        let shown = show(&serde_json::from_str(&json).unwrap());
        assert!(!shown.contains("holdfast-doctor") && shown.contains("12ms/40ms"), "{shown}");
        let longest = shown.lines().map(str::len).max();
        assert!(longest <= Some(80), "{shown}");
        assert_eq!(
            show(&serde_json::from_str(r#"{"locks":[],"revision":1}"#).unwrap()),
            "no locks are held or waited for"
        );
    }
}
