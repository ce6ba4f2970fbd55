//! `--stale`: reads of one node's own state, which need no majority. stderr has the age of the state.

use clap::Args;
use holdfast_api::parameters::STALE;
use holdfast_api::{
    HOLDFAST_APPLIED_REVISION, HOLDFAST_LEADER_CONTACT_MS, HOLDFAST_NODE, JsonBody, Query,
};
use holdfast_client::http::HttpResponse;
use holdfast_client::{Call, Client, Error};

use crate::output::{short_time, write_stderr};

/// No node runs this long without a message from a leader: ten years.
const CONTACT_MAX_MS: u64 = 10 * 365 * 24 * 3_600 * 1_000;

/// Whether one node's own state is enough.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct StaleArgs {
    /// Read the state of one node, which needs no majority and may be old. stderr has its age.
    #[arg(long)]
    pub(crate) stale: bool,
}

impl StaleArgs {
    /// A linearizable read.
    pub(crate) const NO: Self = Self { stale: false };

    /// Adds the parameter to a read.
    pub(crate) fn query(self, query: Query) -> Query {
        query.with_flag(&STALE, self.stale)
    }

    /// Sends a read, and prints the age of a stale state.
    pub(crate) async fn read<T: JsonBody>(self, client: &Client, call: &Call) -> Result<T, Error> {
        let answer = client.call_raw(call).await?;
        if self.stale {
            write_stderr(&format!("holdfast: {}", age(&answer)));
        }
        answer.json().map_err(|error| Error::UnexpectedResponse(error.to_string()))
    }
}

/// `the state of node 3 at revision 812; its last message from a leader was 42s ago`
fn age(answer: &HttpResponse) -> String {
    let header = |name: &str| answer.headers.get(name);
    let node = header(HOLDFAST_NODE).unwrap_or("?");
    let revision = header(HOLDFAST_APPLIED_REVISION).unwrap_or("?");
    let contact = header(HOLDFAST_LEADER_CONTACT_MS).and_then(|ms| ms.parse().ok());
    // A node without any message reports the greatest time.
    let contact = match contact.filter(|ms| *ms < CONTACT_MAX_MS).map(short_time) {
        Some(time) => format!("its last message from a leader was {time} ago"),
        None => "it has not had a leader since its start".to_owned(),
    };
    format!("the state of node {node} at revision {revision}; {contact}")
}
