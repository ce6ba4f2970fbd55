//! `holdfast who`: the holders of a lock, the locks that block them, and the queue; with `--watch` again after each change.

use std::io::IsTerminal as _;
use std::time::Duration;

use holdfast_api::{
    ExplainedBody, HolderBody, LockBody, PolicyBody, Query, ShardBody, WaiterBody, lock_path,
};
use holdfast_client::Call;
use holdfast_types::{CooldownCause, FencingToken, Ticket};
use serde::Serialize;

use super::lock_details::show;
use super::stale::StaleArgs;
use super::top::{TopView, live};
use crate::arguments::{Format, OneLockArgs};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, check};

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

pub(crate) async fn run(args: WhoArgs) -> Result<(), CommandFailure> {
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
        return live::show(client, None, TopView::of_lock(args.name.clone())).await;
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
}
