//! `holdfast top`: the locks that are waited for most, again and again on a terminal, once for everybody else.

use std::io::IsTerminal as _;
use std::time::Duration;

use holdfast_api::{ContentionBody, ExplainedBody, ListParams, Sort, TimesBody};

use super::asking::{Ask, Asking};
use super::{for_people, name_of};
use crate::cli::{Format, TopArgs};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

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
        match args.target.output {
            Format::Json => print_json(&body),
            Format::Value => body.locks.iter().for_each(|lock| print(lock.lock.lock.as_str())),
            Format::Table if live => print(&format!("{CLEAR}{}", show(&body))),
            Format::Table => print(&show(&body)),
        }
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
        lock.holder().map_or_else(none, name_of),
        lock.holder().map_or_else(none, |holder| for_people(holder.since_ms)),
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
