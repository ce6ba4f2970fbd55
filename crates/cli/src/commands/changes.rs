//! The changes of the tree after a revision, for `watch` and `wait`.

use std::time::Duration;

use holdfast_api::parameters::watch;
use holdfast_api::{Query, WatchBody};
use holdfast_client::{Call, Client, Error};
use holdfast_types::Revision;

/// How long one call waits for a change.
pub(super) const WAIT: Duration = Duration::from_secs(20);

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
