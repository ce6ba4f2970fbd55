//! `holdfast top`: the locks that are waited for most, again and again on a terminal, once for everybody else.

use std::io::IsTerminal as _;
use std::time::Duration;

use holdfast_api::{ContentionBody, ExplainedBody, ListParams, Sort, TimesBody};

use super::asking::{Ask, Asking};
use super::for_people;
use super::naming::{holders_in_short, longest_held};
use crate::cli::{Format, TopArgs};
use crate::exit::Stop;
use crate::output::{answer_rows, table};

const EVERY: Duration = Duration::from_secs(1);
/// From the top left corner, and nothing below.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(super) async fn run(args: &TopArgs) -> Result<(), Stop> {
    let mut asking = Asking::new(&args.target, None)?;
    let params = ListParams {
        prefix: args.prefix.clone().unwrap_or_default(),
        limit: args.count,
        sort: Sort::Contention,
        ..ListParams::default()
    };
    let ask = Ask::get(format!("/v1/locks?{}", params.to_query()));
    let live = args.target.output == Format::Table && std::io::stdout().is_terminal();
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let body: ContentionBody = asking.json(&ask).await?;
        let name = |lock: &ExplainedBody| lock.lock.lock.to_string();
        let clear = if live { CLEAR } else { "" };
        let people = || format!("{clear}{}", show(&body));
        answer_rows(args.target.output, &body, &body.locks, name, people);
        if !live {
            return Ok(());
        }
    }
}

fn show(body: &ContentionBody) -> String {
    let header =
        ["lock", "waiting", "held by", "for", "waits", "p50", "p99", "holds", "p50", "p99"];
    table(header, body.locks.iter().map(row))
}

fn row(explained: &ExplainedBody) -> [String; 10] {
    let lock = &explained.lock;
    let none = || "-".to_owned();
    let [waits, waits_p50, waits_p99] = times(explained.wait.as_ref());
    let [holds, holds_p50, holds_p99] = times(explained.hold.as_ref());
    [
        lock.lock.to_string(),
        lock.waiters.to_string(),
        holders_in_short(lock).unwrap_or_else(none),
        longest_held(lock).map_or_else(none, for_people),
        waits,
        waits_p50,
        waits_p99,
        holds,
        holds_p50,
        holds_p99,
    ]
}

fn times(times: Option<&TimesBody>) -> [String; 3] {
    match times {
        Some(times) => {
            [times.count.to_string(), for_people(times.p50_ms), for_people(times.p99_ms)]
        }
        None => ["0", "-", "-"].map(str::to_owned),
    }
}
