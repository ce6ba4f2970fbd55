//! `holdfast ls`: the locks that are held, have waiters or are in cooldown.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use holdfast_api::{LockBody, LocksBody};
use holdfast_client::LockQuery;
use holdfast_types::SessionName;

use super::calls::StaleArgs;
use super::lock_text::{cooldown_text, holders_text, holders_total, limit};
use crate::arguments::{ClusterArgs, list_length};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, short_time, table_or};

/// The maximum number of tokens in a row.
const TOKENS_MAX: usize = 3;

/// List the locks that are held or have waiters.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Only locks whose names start with this; a `*` at its end means the same.
    prefix: Option<String>,
    /// Only locks that are held.
    #[arg(long)]
    held: bool,
    /// Only locks with waiters.
    #[arg(long)]
    waiting: bool,
    /// Only locks that this session holds or waits for.
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionName>,
    /// The order of the list.
    #[arg(long, value_enum, default_value_t = LockOrder::Name)]
    sort: LockOrder,
    /// The maximum number of locks.
    #[arg(short = 'n', long, value_name = "N", value_parser = list_length)]
    limit: Option<usize>,
    #[command(flatten)]
    stale: StaleArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The order of a list of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LockOrder {
    /// By name.
    Name,
    /// The most waiters first.
    Waiting,
    /// The longest wait first.
    Wait,
    /// The longest hold first.
    Held,
    /// The most holders first.
    Holders,
}

pub(crate) async fn run(args: LsArgs) -> Result<(), CommandFailure> {
    let prefix = args.prefix.as_deref().map(|prefix| prefix.strip_suffix('*').unwrap_or(prefix));
    let empty = empty_text(prefix);
    let mut query = LockQuery {
        prefix: prefix.map(str::to_owned),
        held: args.held,
        waiting: args.waiting,
        session: args.session,
        stale: args.stale.stale,
        ..LockQuery::default()
    };
    let mut locks = Vec::new();
    let client = args.cluster.quick_client()?;
    let revision = loop {
        let page: LocksBody = args.stale.read(&client, &query.call()).await?;
        locks.extend(page.locks);
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            break page.revision;
        }
    };
    // The cluster deletes unused locks after a while; the list omits them until then.
    locks.retain(|lock| lock.held || lock.waiters > 0 || lock.cooldown.is_some());
    sort(&mut locks, args.sort);
    locks.truncate(args.limit.unwrap_or(usize::MAX));
    let body = LocksBody { locks, next_page_token: None, revision };
    let names = body.locks.iter().map(|lock| &lock.lock);
    let header = ["lock", "mode", "token", "held by", "for", "waiting", "longest wait"];
    let text = table_or(&empty, header, body.locks.iter().map(row));
    answer_rows(args.cluster.format(), &body, &body.locks, names, &text);
    Ok(())
}

/// Sorts the locks by `by`; the cluster sorts by name, and locks with equal keys keep that order.
fn sort(locks: &mut [LockBody], by: LockOrder) {
    match by {
        LockOrder::Name => {}
        LockOrder::Waiting => locks.sort_by_key(|lock| Reverse(lock.waiters)),
        LockOrder::Wait => locks.sort_by_key(|lock| Reverse(lock.longest_wait_ms)),
        LockOrder::Held => locks.sort_by_key(|lock| Reverse(lock.oldest_hold_ms)),
        LockOrder::Holders => locks.sort_by_key(|lock| Reverse(holders_total(lock))),
    }
}

fn empty_text(prefix: Option<&str>) -> String {
    let below = prefix.filter(|prefix| !prefix.is_empty());
    let below = below.map(|prefix| format!(" whose names start with \"{prefix}\""));
    format!("no locks{} are held, waited for or in cooldown", below.unwrap_or_default())
}

fn row(lock: &LockBody) -> [String; 7] {
    [
        lock.lock.to_string(),
        if lock.held { mode(lock) } else { cell(cooldown_text(lock)) },
        tokens(lock),
        cell(holders_text(lock)),
        cell(lock.oldest_hold_ms.map(short_time)),
        lock.waiters.to_string(),
        cell(lock.longest_wait_ms.map(short_time)),
    ]
}

/// `exclusive`, `3 shared`, `5 of 8 permits`.
fn mode(lock: &LockBody) -> String {
    match (lock.permits_held, limit(lock), holders_total(lock)) {
        (Some(held), Some(limit), _) => format!("{held} of {limit} permits"),
        (_, _, 0 | 1) => lock.mode.as_str().to_owned(),
        (_, _, holders) => format!("{holders} shared"),
    }
}

fn tokens(lock: &LockBody) -> String {
    let shown: Vec<String> =
        lock.holders.iter().take(TOKENS_MAX).map(|holder| holder.token.to_string()).collect();
    let more = if shown.len() < holders_total(lock) { ",…" } else { "" };
    cell(Some(shown.join(",")).filter(|shown| !shown.is_empty()).map(|shown| shown + more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, waiters: u32, held_ms: &[u64], more: &str) -> LockBody {
        let holders: Vec<String> = held_ms
            .iter()
            .zip(7..)
            .map(|(ms, token)| {
                format!(r#"{{"session":"s{token}","token":{token},"held_for_ms":{ms},"hold_count":1,"labels":{{}},"mode":"shared"}}"#)
            })
            .collect();
        let oldest = held_ms.iter().max().map(|ms| format!(r#","oldest_hold_ms":{ms}"#));
        let json = format!(
            r#"{{"lock":"{name}","mode":"shared","held":{},"holders":[{}],"holders_total":{},"waiters":{waiters},"queue":[],"last_token":9{}{more}}}"#,
            !held_ms.is_empty(),
            holders.join(","),
            held_ms.len(),
            oldest.unwrap_or_default()
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn locks_are_sorted_by_each_key() {
        let wait = |ms: u64| format!(r#","longest_wait_ms":{ms}"#);
        let locks =
            [lock("a", 1, &[5, 9], &wait(8)), lock("b", 3, &[], &wait(7)), lock("c", 0, &[70], "")];
        let sorted = |by| {
            let mut locks = locks.to_vec();
            sort(&mut locks, by);
            locks.iter().map(|lock| lock.lock.to_string()).collect::<String>()
        };
        assert_eq!(sorted(LockOrder::Name), "abc");
        assert_eq!(sorted(LockOrder::Waiting), "bac");
        assert_eq!(sorted(LockOrder::Wait), "abc");
        assert_eq!(sorted(LockOrder::Held), "cab");
        assert_eq!(sorted(LockOrder::Holders), "acb");
    }

    #[test]
    fn a_row_shows_the_first_holders() {
        let wait = r#","longest_wait_ms":3000"#;
        let shared = row(&lock("a", 2, &[1_000, 9_000, 3, 4], wait));
        assert_eq!(shared, ["a", "4 shared", "7,8,9,…", "s7, s8, s9 and 1 other", "9s", "2", "3s"]);
        let free = row(&lock("a", 0, &[], r#","cooldown":{"cause":"cooldown","ends_in_ms":9000}"#));
        assert_eq!(free, ["a", "unavailable for 9s (cooldown)", "-", "-", "-", "0", "-"]);
        let policy = r#","permits_held":5,"policy":{"limit":8,"order":"fifo","ageing_ms":1,"lock_delay_ms":0,"cooldown_ms":0,"detect_deadlocks":true}"#;
        assert_eq!(row(&lock("a", 0, &[5], policy))[1], "5 of 8 permits");
    }
}
