//! `holdfast tree watch`: the changes below a path of the tree, one line each, until ^C.
//!
//! If the node fails, the watch continues at another node.

use std::time::Duration;

use clap::Args;
use holdfast_api::parameters::watch;
use holdfast_api::{ChangeBody, Query, WatchBody};
use holdfast_client::{Call, Client, Error};
use holdfast_types::Revision;

use crate::arguments::{ClusterArgs, UserArgs};
use crate::exit::CommandFailure;
use crate::output::{answer, check};

/// How long one call waits for a change.
pub(super) const WAIT: Duration = Duration::from_secs(20);

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
pub(super) async fn changes(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_line() {
        let read = |json: &str| line(&serde_json::from_str(json).unwrap());
        let created = r#"{"revision":12,"kind":"created","path":"/cfg/x"}"#;
        assert_eq!(read(created), "12  created  /cfg/x");
        let granted = r#"{"revision":13,"kind":"granted","path":"/locks/a","lock":"a","token":4,"session":"me"}"#;
        assert_eq!(read(granted), "13  granted  /locks/a  token 4  me");
    }
}
