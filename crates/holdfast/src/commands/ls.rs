//! `holdfast ls`: the locks that are held, waited for or closed, page by page, in the order asked for.

use std::cmp::Reverse;

use holdfast_api::LockBody;
use holdfast_client::LockQuery;
use holdfast_types::SessionName;

use super::naming::{holders_in_short, holders_total, longest_held};
use super::{LOOK_MAX, connect, for_people, stop};
use crate::cli::{LsArgs, LsSort};
use crate::exit::Stop;
use crate::output::{answer_rows, table};

/// So many tokens are shown of a lock with several holders.
const TOKENS_MAX: usize = 3;

pub(super) async fn run(args: &LsArgs) -> Result<(), Stop> {
    let client = connect(&args.target)?.request_timeout(LOOK_MAX);
    let session = args.session.as_ref().map(SessionName::new).transpose().map_err(Stop::usage)?;
    let query = LockQuery {
        prefix: args.prefix.clone(),
        held: args.held,
        waiting: args.waiting,
        session,
        ..LockQuery::default()
    };
    let mut locks: Vec<LockBody> = Vec::new();
    let visited = client.each_lock(query, |lock| {
        if is_of_interest(&lock) {
            locks.push(lock);
        }
    });
    visited.await.map_err(|error| stop(&args.target, &error))?;
    sort(&mut locks, args.sort);
    locks.truncate(args.count.unwrap_or(usize::MAX));
    let name = |lock: &LockBody| lock.lock.to_string();
    answer_rows(args.target.output, &locks, &locks, name, || show(&locks));
    Ok(())
}

/// Locks that nobody uses are swept after a while, and are of no interest until then.
fn is_of_interest(lock: &LockBody) -> bool {
    lock.held || lock.waiters > 0 || lock.closed.is_some()
}

/// They come sorted by name; equals stay so.
fn sort(locks: &mut [LockBody], by: LsSort) {
    match by {
        LsSort::Name => {}
        LsSort::Waiting => locks.sort_by_key(|lock| Reverse(lock.waiters)),
        LsSort::Held => locks.sort_by_key(|lock| Reverse(longest_held(lock))),
        LsSort::Holders => locks.sort_by_key(|lock| Reverse(holders_total(lock))),
    }
}

fn show(locks: &[LockBody]) -> String {
    let header = ["lock", "how", "token", "held by", "for", "waiting"];
    table(header, locks.iter().map(row))
}

fn row(lock: &LockBody) -> [String; 6] {
    let none = || "-".to_owned();
    let closed = lock.closed.filter(|_| !lock.held);
    let closed = closed.map(|closed| format!("closed for {}", for_people(closed.opens_in_ms)));
    [
        lock.lock.to_string(),
        if lock.held { how(lock) } else { closed.unwrap_or_else(none) },
        tokens(lock),
        holders_in_short(lock).unwrap_or_else(none),
        longest_held(lock).map_or_else(none, for_people),
        lock.waiters.to_string(),
    ]
}

/// `exclusive`, `3 shared`, `5 of 8 permits`.
fn how(lock: &LockBody) -> String {
    let limit = lock.policy.and_then(|policy| policy.limit);
    match (lock.permits_held, limit, holders_total(lock)) {
        (Some(held), Some(limit), _) => format!("{held} of {limit} permits"),
        (_, _, 0 | 1) => lock.mode.as_str().to_owned(),
        (_, _, several) => format!("{several} shared"),
    }
}

fn tokens(lock: &LockBody) -> String {
    let shown: Vec<String> =
        lock.holders.iter().take(TOKENS_MAX).map(|holder| holder.token.to_string()).collect();
    match (shown.len(), holders_total(lock)) {
        (0, _) => "-".to_owned(),
        (shown_count, total) if shown_count < total => format!("{},…", shown.join(",")),
        (_, _) => shown.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, waiters: u32, held_ms: &[u64], more: &str) -> LockBody {
        let holders: Vec<String> = held_ms
            .iter()
            .zip(7..)
            .map(|(ms, token)| {
                format!(r#"{{"session":"s{token}","token":{token},"since_ms":{ms},"entries":1,"labels":{{}},"mode":"shared"}}"#)
            })
            .collect();
        let json = format!(
            r#"{{"lock":"{name}","mode":"shared","held":{},"holders":[{}],"holders_total":{},"waiters":{waiters},"queue":[],"last_token":9{more}}}"#,
            !held_ms.is_empty(),
            holders.join(","),
            held_ms.len()
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn every_order_is_what_it_says() {
        let locks = [lock("a", 1, &[5, 9], ""), lock("b", 3, &[], ""), lock("c", 0, &[70], "")];
        let sorted = |by| {
            let mut locks = locks.to_vec();
            sort(&mut locks, by);
            locks.iter().map(|lock| lock.lock.to_string()).collect::<String>()
        };
        assert_eq!(sorted(LsSort::Name), "abc");
        assert_eq!(sorted(LsSort::Waiting), "bac");
        assert_eq!(sorted(LsSort::Held), "cab");
        assert_eq!(sorted(LsSort::Holders), "acb");
    }

    #[test]
    fn a_row_shows_all_holders_in_short() {
        let shared = row(&lock("a", 2, &[1_000, 9_000, 3, 4], ""));
        assert_eq!(shared, ["a", "4 shared", "7,8,9,…", "s7, s8, s9 and 1 other", "9s", "2"]);
        let closed = row(&lock("a", 0, &[], r#","closed":{"why":"cooldown","opens_in_ms":9000}"#));
        assert_eq!(closed, ["a", "closed for 9s", "-", "-", "-", "0"]);
        let policy = r#","permits_held":5,"policy":{"limit":8,"order":"fifo","ageing_ms":1,"lock_delay_ms":0,"cooldown_ms":0,"detect_deadlocks":true}"#;
        assert_eq!(row(&lock("a", 0, &[5], policy))[1], "5 of 8 permits");
    }
}
