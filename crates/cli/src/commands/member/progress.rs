//! The progress of a change of the members, as lines on stderr until it is finished.

use std::time::{Duration, Instant};

use holdfast_api::ClusterBody;
use holdfast_client::Client;
use holdfast_types::NodeId;

use crate::exit::CommandFailure;
use crate::output::write_stderr;

/// The time between two reads of the cluster. Only a change prints a line.
const INTERVAL: Duration = Duration::from_millis(500);
/// Without an answer for this long, the wait ends.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Waits until no change of the member is unfinished.
pub(super) async fn wait(
    client: &Client,
    node: NodeId,
    longest: Duration,
) -> Result<(), CommandFailure> {
    let began = Instant::now();
    let client = client.clone().request_timeout(INTERVAL * 4);
    let mut printed = String::new();
    let mut answered = began;
    loop {
        if let Ok(body) = client.cluster().await {
            answered = Instant::now();
            let Some(state) = state(&body, node) else { return Ok(()) };
            if state != printed {
                write_stderr(&state);
                printed = state;
            }
        }
        // A removed node may have been the only one in --addr.
        if answered.elapsed() > SILENCE_MAX {
            return Err(CommandFailure::failed(format!(
                "no node of --addr answers any more: the change of node {node} continues, and holdfast member ls --addr with other nodes \
                 shows it"
            )));
        }
        if began.elapsed() > longest {
            return Err(CommandFailure::failed(format!(
                "the change of node {node} is not finished yet: it continues, and holdfast member ls shows it"
            )));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The unfinished change in words.
fn state(body: &ClusterBody, node: NodeId) -> Option<String> {
    let change = body.nodes.iter().find(|one| one.id == node)?.change.as_ref()?;
    let reason = body.change_waits_for.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("node {node}: {change}{reason}"))
}
