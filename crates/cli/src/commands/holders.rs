//! `holdfast who`: the holders of a lock, the locks that block them, and the queue; with `--watch` again after each change.
//! `holdfast history`: the past and present holds of a lock, with their tokens and end causes.

use std::io::IsTerminal as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use holdfast_api::parameters::LIMIT;
use holdfast_api::{
    ExplainedBody, HistoryBody, HolderBody, LockBody, PastHoldBody, PolicyBody, Query, Rfc3339Time,
    ShardBody, WaiterBody, escape_query, format_time, history_path, lock_path, parse_duration,
    parse_time,
};
use holdfast_client::Call;
use holdfast_types::{CooldownCause, FencingToken, Ticket};
use serde::Serialize;

use super::calls::StaleArgs;
use super::lock_details::show;
use super::top::{TopView, screen};
use crate::arguments::{Format, OneLockArgs, list_length};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, check, short_time, table_or};

/// The time between two readings of a watched lock.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Show the holders of a lock and its queue.
#[derive(Debug, clap::Args)]
pub(crate) struct WhoArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// Repeat it after each change, until ^C; on a terminal as a full screen, until q.
    #[arg(long, conflicts_with = "stale")]
    watch: bool,
    #[command(flatten)]
    stale: StaleArgs,
}

/// One line of `-o jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum WhoRow<'a> {
    Holder(&'a HolderBody),
    Waiter(&'a WaiterBody),
    Shard(&'a ShardBody),
}

pub(crate) async fn who(args: WhoArgs) -> Result<(), CommandFailure> {
    let WhoArgs { lock: args, watch, stale } = args;
    if watch {
        return watch_lock(&args).await;
    }
    let call = Call::get(stale.query(Query::default()).target(&lock_path(&args.name)));
    let body: ExplainedBody = stale.read(&args.cluster.quick_client()?, &call).await?;
    print(&args, &body);
    Ok(())
}

/// Shows a lock until the user ends it: on a terminal as a screen, otherwise once and after each change.
async fn watch_lock(args: &OneLockArgs) -> Result<(), CommandFailure> {
    let client = args.cluster.quick_client()?;
    if args.cluster.format() == Format::Table && std::io::stdout().is_terminal() {
        return screen::show(client, None, TopView::of_lock(args.name.clone())).await;
    }
    let call = Call::get(lock_path(&args.name));
    let mut printed = None;
    loop {
        let body: ExplainedBody = client.call(&call).await?;
        let state = LockStateKey::of(&body);
        if printed.as_ref() != Some(&state) {
            print(args, &body);
            check()?;
            printed = Some(state);
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// What is printed again if it changes. Ages do not count.
#[derive(Debug, PartialEq, Eq)]
struct LockStateKey {
    holders: Vec<(FencingToken, bool)>,
    waiters: (u32, Vec<Ticket>),
    policy: Option<PolicyBody>,
    cooldown: Option<CooldownCause>,
    shards: Vec<ShardBody>,
}

impl LockStateKey {
    fn of(body: &ExplainedBody) -> Self {
        let LockBody { holders, queue, waiters, policy, cooldown, shards, .. } = &body.lock;
        Self {
            holders: holders.iter().map(|holder| (holder.token, holder.upgrading)).collect(),
            waiters: (*waiters, queue.iter().map(|waiter| waiter.ticket).collect()),
            policy: *policy,
            cooldown: cooldown.map(|cooldown| cooldown.cause),
            shards: shards.clone(),
        }
    }
}

fn print(args: &OneLockArgs, body: &ExplainedBody) {
    let LockBody { holders, queue, shards, .. } = &body.lock;
    let rows = holders.iter().map(WhoRow::Holder);
    let rows = rows.chain(queue.iter().map(WhoRow::Waiter));
    let rows = rows.chain(shards.iter().map(WhoRow::Shard));
    let sessions = holders.iter().map(|holder| &holder.session);
    let sessions = sessions.chain(shards.iter().filter_map(|shard| shard.session.as_ref()));
    answer_rows(args.cluster.format(), body, rows, sessions, &show(body));
}

/// Show the holds of a lock, with the token, the time and the cause of the end of each.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// Only the holds at this time: 2026-03-01T14:05:09Z, `5m` ago, or milliseconds of the Unix epoch.
    #[arg(long, value_name = "TIME", value_parser = time_of_day)]
    at: Option<String>,
    /// The number of past holds.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = list_length)]
    limit: usize,
    #[command(flatten)]
    stale: StaleArgs,
}

pub(crate) async fn history(args: HistoryArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.lock;
    let query = args.stale.query(Query::default().with(&LIMIT, &args.limit));
    let mut target = query.target(&history_path(name));
    if let Some(at) = &args.at {
        target = format!("{target}&at={}", escape_query(at));
    }
    let body: HistoryBody = args.stale.read(&cluster.quick_client()?, &Call::get(target)).await?;
    let tokens = body.holds.iter().map(|hold| hold.token);
    answer_rows(cluster.format(), &body, &body.holds, tokens, &history_text(&body, now_ms()));
    Ok(())
}

/// Formats the table. The leader's clock set the times; ages are relative to the local clock.
fn history_text(body: &HistoryBody, now_ms: u64) -> String {
    let header = ["token", "session", "granted", "held for", "ended", "why"];
    let none = "no holds of this lock are recorded";
    let holds = table_or(none, header, body.holds.iter().map(|hold| row(hold, now_ms)));
    match body.complete_since_revision.0 {
        0 => holds,
        after => format!("{holds}\n\nholds that ended up to revision {after} may be missing"),
    }
}

fn row(hold: &PastHoldBody, now_ms: u64) -> [String; 6] {
    let at = |moment: Rfc3339Time| {
        let age = short_time(now_ms.saturating_sub(moment.0.0));
        format!("{} ({age} ago)", format_time(moment.0))
    };
    let ended_ms = hold.ended_at.map_or(now_ms, |ended| ended.0.0);
    let session = match &hold.owner {
        Some(owner) => format!("{} {owner}", hold.session),
        None => hold.session.to_string(),
    };
    [
        hold.token.to_string(),
        session,
        at(hold.granted_at),
        short_time(ended_ms.saturating_sub(hold.granted_at.0.0)),
        cell(hold.ended_at.map(at)),
        hold.cause.clone().unwrap_or_else(|| "still held".to_owned()),
    ]
}

/// Checks the time, so that the error shows the option of the command line.
fn time_of_day(text: &str) -> Result<String, String> {
    let form =
        "write 2026-03-01T14:05:09Z, 5m for five minutes ago, or milliseconds of the Unix epoch";
    let is_time =
        text.parse::<u64>().is_ok() || parse_time(text).is_some() || parse_duration(text).is_ok();
    if is_time { Ok(text.to_owned()) } else { Err(form.to_owned()) }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    holdfast_types::millis(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_holders_or_queue_is_printed_again_and_an_age_is_not() {
        let key = |token: u32, age: u32, ticket: u32| {
            let json = format!(
                r#"{{"lock":"a","mode":"exclusive","held":true,"holders":[{{"session":"s1","token":{token},"held_for_ms":{age},"hold_count":1,"labels":{{}}}}],"holders_total":1,"waiters":1,"queue":[{{"session":"w","ticket":{ticket},"waiting_for_ms":{age},"labels":{{}}}}],"last_token":5}}"#
            );
            LockStateKey::of(&serde_json::from_str(&json).unwrap())
        };
        assert_eq!(key(4, 1, 9), key(4, 1_000, 9));
        assert_ne!(key(4, 1, 9), key(5, 1, 9));
        assert_ne!(key(4, 1, 9), key(4, 1, 10));
    }

    #[test]
    fn a_history_is_a_table_with_a_note_about_missing_holds() {
        let json = r#"{"lock":"a","revision":9,"complete_since_revision":4,"holds":[
            {"token":7,"session":"you","granted_at":"1970-01-01T00:01:00Z"},
            {"token":5,"session":"me","owner":"t1","granted_at":"1970-01-01T00:00:01Z","ended_at":"1970-01-01T00:00:31Z","ended_revision":8,"cause":"released"}]}"#;
        let shown = history_text(&serde_json::from_str(json).unwrap(), 61_000);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert!(lines[1].contains("1s ago") && lines[1].ends_with("still held"), "{shown}");
        assert!(lines[2].contains("me t1") && lines[2].contains("30s ago"), "{shown}");
        assert!(lines[2].contains("1970-01-01T00:00:31Z (30s ago)"), "{shown}");
        assert!(lines[4].contains("revision 4 may be missing"), "{shown}");
    }
}
