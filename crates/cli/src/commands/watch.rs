//! `holdfast tree watch`: the changes below a path of the tree, one line each, until ^C. `holdfast wait`: waits until a lock
//! is free, or until it is held, without acquiring it.
//!
//! If the node fails, the watch continues at another node. After a wait, the state may change again before the caller acts.

use std::time::{Duration, Instant};

use clap::Args;
use holdfast_api::parameters::watch;
use holdfast_api::{ChangeBody, ErrorCode, Query, WatchBody};
use holdfast_client::{Call, Client, Error};
use holdfast_types::{Revision, ZnodePath};

use crate::arguments::{ClusterArgs, Format, OneLockArgs, UserArgs, duration};
use crate::exit::CommandFailure;
use crate::output::{answer, check};

/// How long one call waits for a change.
const WAIT: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The start of the paths: '/cfg/' for the znodes below /cfg, '/' for all znodes. A lock is '/locks/NAME'.
    prefix: String,
    /// Also print the changes after this revision; by default only new changes.
    #[arg(long, value_name = "REVISION")]
    since: Option<u64>,
    /// Stop after this number of changes.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: WatchArgs) -> Result<(), CommandFailure> {
    let client = args.cluster.client()?;
    let prefix = format!("/{}", args.prefix.strip_prefix('/').unwrap_or(&args.prefix));
    let poll = async |since, wait| {
        let query = Query::default().with(&watch::PREFIX, &prefix);
        let body = changes(&client, query, args.user.headers(), since, wait).await;
        body.map_err(|error| CommandFailure::of_tree_call(error, false))
    };
    let mut since = match args.since {
        Some(since) => Revision(since),
        // The current revision.
        None => poll(None, Duration::ZERO).await?.revision,
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let body = poll(Some(since), WAIT).await?;
        for change in body.events {
            if left > 0 {
                answer(args.cluster.format(), &change, &change.path, &line(&change));
                check()?;
                left -= 1;
            }
        }
        since = body.revision;
    }
    Ok(())
}

/// Returns the changes after `since`, or the next changes within `wait`; without `since` only the current revision.
async fn changes(
    client: &Client,
    query: Query,
    headers: Vec<(String, String)>,
    since: Option<Revision>,
    wait: Duration,
) -> Result<WatchBody, Error> {
    let query = query.with_some(&watch::SINCE, since.as_ref());
    let call = |wait| {
        let target = query.clone().with(&watch::WAIT, &wait).target("/v1/watch");
        Call { headers: headers.clone(), ..Call::get(target).wait(wait) }
    };
    match client.call(&call(wait)).await {
        // The node that held the call is gone. Another one answers, unless the cluster is unavailable.
        Err(Error::Unavailable(_)) if !wait.is_zero() => client.call(&call(Duration::ZERO)).await,
        result => result,
    }
}

/// `12  granted  /locks/orders  token 4  me`
fn line(change: &ChangeBody) -> String {
    let mut line = format!("{}  {}  {}", change.revision, change.kind.as_str(), change.path);
    if let Some(token) = change.token {
        line = format!("{line}  token {token}");
    }
    if let Some(session) = &change.session {
        line = format!("{line}  {session}");
    }
    line
}

/// A wait that is not longer also limits the time to look for a node.
const SHORT: Duration = Duration::from_secs(3);

/// Wait until a lock is free, or held, without acquiring it.
#[derive(Debug, Args)]
#[group(id = "wanted", multiple = false, args = ["free", "held"])]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// Until the lock is free, which is the default.
    #[arg(long)]
    free: bool,
    /// Until the lock is held.
    #[arg(long)]
    held: bool,
    /// How long to wait; by default without limit. Exit code 75 at a timeout.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
}

pub(crate) async fn wait(args: WaitArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.lock;
    let is_short = args.wait.is_some_and(|wait| wait <= SHORT);
    let client = if is_short { cluster.quick_client() } else { cluster.client() }?;
    let until = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let body = client.lock_state(name).await?;
        if let count @ 1.. = body.shards.len() {
            return Err(CommandFailure::failed(format!(
                "{name} has {count} shards: wait for one of them, such as {name}/0"
            )));
        }
        if body.held == args.held {
            if matches!(cluster.format(), Format::Json | Format::Jsonl) {
                answer(cluster.format(), &body, "", "");
            }
            return Ok(());
        }
        let left = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            let wanted = if args.held { "held" } else { "free" };
            return Err(CommandFailure::NotAcquired(format!("{name} is not {wanted} yet")));
        }
        let query = Query::default().with(&watch::PATH, &ZnodePath::of_lock(name));
        let since = Some(body.revision.unwrap_or_default());
        match changes(&client, query, Vec::new(), since, left.min(WAIT)).await {
            // No node has the changes since the read: the next read has the state after them.
            Err(Error::Rejected(problem)) if problem.code == ErrorCode::RevisionCompacted => {}
            changed => drop(changed?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::client_command::{block_on, parse, scripted_node};

    #[test]
    fn a_change_is_one_line() {
        let read = |json: &str| line(&serde_json::from_str(json).unwrap());
        let created = r#"{"revision":12,"kind":"created","path":"/cfg/x"}"#;
        assert_eq!(read(created), "12  created  /cfg/x");
        let granted = r#"{"revision":13,"kind":"granted","path":"/locks/a","lock":"a","token":4,"session":"me"}"#;
        assert_eq!(read(granted), "13  granted  /locks/a  token 4  me");
    }

    #[test]
    fn a_wait_reads_the_lock_again_if_its_changes_are_gone() {
        let was_read = Cell::new(false);
        let (address, lines) = scripted_node(move |line| {
            if line.starts_with("GET /v1/watch?") {
                let gone = r#"{"type":"/errors/revision-compacted","title":"gone","status":410,"code":"revision-compacted","retryable":false}"#;
                return (410, gone.to_owned());
            }
            let held = !was_read.replace(true);
            let body = format!(
                r#"{{"lock":"a","mode":"exclusive","held":{held},"holders":[],"waiters":0,"queue":[],"last_token":7,"revision":9}}"#
            );
            (200, body)
        });
        let args = parse::<WaitArgs>(&format!("wait a --wait 1m --addr {address}")).unwrap();
        block_on(wait(args)).unwrap();
        assert_eq!(lines.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_wait_is_for_one_of_two_states() {
        let args = parse::<WaitArgs>("wait a --free --wait 1s").unwrap();
        assert!(args.free && !args.held && args.wait == Some(Duration::from_secs(1)));
        assert!(!parse::<WaitArgs>("wait a").unwrap().held);
        assert!(parse::<WaitArgs>("wait a --free --held").is_err());
    }
}
