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
    let query = query.with(&watch::WAIT, &wait).with_some(&watch::SINCE, since.as_ref());
    let call = Call { headers, ..Call::get(query.target("/v1/watch")) };
    client.call(&call.wait(wait)).await
}
