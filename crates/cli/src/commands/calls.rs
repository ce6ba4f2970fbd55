//! The calls of commands: changes that the cluster executes once, and `--stale` reads of one node's own state.
//!
//! A late copy of a change undoes no later change of somebody else. The command has a session for its changes, and closes it
//! at the end. A stale read needs no majority; stderr has the age of the state.

use std::time::{Duration, Instant};

use clap::Args;
use holdfast_api::parameters::STALE;
use holdfast_api::{
    ClusterBody, HOLDFAST_APPLIED_REVISION, HOLDFAST_LEADER_CONTACT_MS, HOLDFAST_NODE, JsonBody,
    Query,
};
use holdfast_client::http::HttpResponse;
use holdfast_client::{Call, Client, Error};

use crate::exit::CommandFailure;
use crate::output::{short_time, write_stderr};

/// The time limit for closing the session at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a command waits for a leader.
const LEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two views of the cluster.
const VIEW_INTERVAL: Duration = Duration::from_millis(200);

/// Makes a change with this client, and closes its session.
pub(super) async fn closing<T, E>(
    client: &Client,
    change: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = change.await;
    let _in_time = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    result
}

/// As [`send`], for a change that a sealed cluster accepts. It opens no session for a number, so there the change has none.
pub(super) async fn send_also_sealed(
    client: &Client,
    call: Call,
) -> Result<HttpResponse, CommandFailure> {
    match view_of_leader(client).await?.seal {
        Some(_) => Ok(client.call_raw(&call).await?),
        None => Ok(closing(client, client.call_once_raw(call)).await?),
    }
}

/// The view of a node that knows the leader: without one, a node may have an old view. An election may be running.
pub(super) async fn view_of_leader(client: &Client) -> Result<ClusterBody, CommandFailure> {
    let began = Instant::now();
    loop {
        let body = client.cluster().await?;
        if body.leader.is_some() {
            return Ok(body);
        }
        if began.elapsed() > LEADER_TIMEOUT {
            let reason = "no node knows a leader: start more nodes, or name others with --addr";
            return Err(CommandFailure::failed(reason));
        }
        tokio::time::sleep(VIEW_INTERVAL).await;
    }
}

/// Sends a change that the cluster executes once.
pub(super) async fn send(client: &Client, call: Call) -> Result<(), CommandFailure> {
    Ok(closing(client, client.call_once_raw(call)).await.map(drop)?)
}

/// As [`send`], and returns the body of the response.
pub(super) async fn receive<T: JsonBody>(client: &Client, call: Call) -> Result<T, CommandFailure> {
    Ok(closing(client, client.call_once(call)).await?)
}

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
