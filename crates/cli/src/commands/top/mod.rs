//! `holdfast top`: the locks in use. On a terminal a full screen with keys, otherwise one table of the most contended
//! locks.
//!
//! Enter opens one lock, as `holdfast who --watch` does. `reading` reads the cluster, `view` has the state of the screen,
//! `render` turns it into lines, and `screen` writes them and connects the four.

mod reading;
mod render;
pub(super) mod screen;
mod view;

pub(super) use view::TopView;

use std::io::IsTerminal as _;

use clap::Args;
use holdfast_api::parameters::LIMIT;
use holdfast_api::parameters::lock::{PREFIX, SORT};
use holdfast_api::{ContentionBody, DurationStatsBody, ExplainedBody, Query};
use holdfast_client::Call;

use super::lock_text::sessions_text;
use crate::arguments::{ClusterArgs, Format, list_length};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, short_time, table_or};

/// The number of locks in the table without `--limit`.
const COUNT_DEFAULT: usize = 20;

/// Show the most contended locks; on a terminal as a full screen with keys, until q.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys on a terminal: arrows or j and k select a lock, Enter shows its holders and its queue, Esc returns;\n\
                  s selects the next order; / filters by name, Enter keeps the filter, Esc clears it; q or ^C quits."
)]
pub(crate) struct TopArgs {
    /// Only locks whose names start with this.
    prefix: Option<String>,
    /// The maximum number of locks; by default 20, and on a terminal all.
    #[arg(short = 'n', long, value_name = "N", value_parser = list_length)]
    limit: Option<usize>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: TopArgs) -> Result<(), CommandFailure> {
    let format = args.cluster.format();
    if format == Format::Table && std::io::stdout().is_terminal() {
        let client = args.cluster.quick_client()?;
        let view = TopView::new(args.limit.unwrap_or(usize::MAX));
        return screen::show(client, args.prefix, view).await;
    }
    let query = Query::default()
        .with(&SORT, &"contention")
        .with(&LIMIT, &args.limit.unwrap_or(COUNT_DEFAULT))
        .with_some(&PREFIX, args.prefix.as_ref().filter(|prefix| !prefix.is_empty()));
    let call = Call::get(query.target("/v1/locks"));
    let body: ContentionBody = args.cluster.quick_client()?.call(&call).await?;
    let names = body.locks.iter().map(|explained| &explained.lock.lock);
    answer_rows(format, &body, &body.locks, names, &show(&body));
    Ok(())
}

fn show(body: &ContentionBody) -> String {
    let in_use = body.locks.iter().filter(|explained| reading::is_shown(&explained.lock));
    let header = ["lock", "queue", "held by", "for", "wait p50/p99", "hold p50/p99"];
    table_or("no locks are held or waited for", header, in_use.map(row))
}

fn row(explained: &ExplainedBody) -> [String; 6] {
    let lock = &explained.lock;
    [
        lock.lock.to_string(),
        lock.waiters.to_string(),
        cell(sessions_text(lock)),
        cell(lock.oldest_hold_ms.map(short_time)),
        times(explained.wait.as_ref()),
        times(explained.hold.as_ref()),
    ]
}

fn times(times: Option<&DurationStatsBody>) -> String {
    let times = times.filter(|times| times.count > 0);
    cell(times.map(|times| format!("{}/{}", short_time(times.p50_ms), short_time(times.p99_ms))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_in_use_are_shown_in_short_lines() {
        let lock = |name: &str, held: bool, holders: &str| {
            format!(
                r#"{{"lock":"{name}","mode":"exclusive","held":{held},"holders":[{holders}],"holders_total":0,"waiters":0,"queue":[],"last_token":9,"wait":{{"count":3,"p50_ms":12,"p99_ms":40,"max_ms":50}}}}"#
            )
        };
        let holder = r#"{"session":"web-3-812-0011223344556677","token":1,"held_for_ms":5000,"hold_count":1,"labels":{"host":"web-3","pid":"812","user":"alice"},"mode":"exclusive"}"#;
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
