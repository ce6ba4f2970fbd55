//! The progress of a change of the members, as lines on stderr until it is finished.

use std::time::{Duration, Instant};

use holdfast_api::ClusterBody;
use holdfast_client::Client;
use holdfast_types::NodeId;

use crate::exit::CommandFailure;
use crate::output::write_stderr;

/// The time between two reads of the cluster. Only a change prints a line.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until no change of the member is unfinished.
pub(super) async fn wait(
    client: &Client,
    node: NodeId,
    longest: Duration,
) -> Result<(), CommandFailure> {
    let began = Instant::now();
    let client = client.clone().request_timeout(INTERVAL * 4);
    let mut printed = String::new();
    loop {
        // A removed node may have been the one that replied.
        if let Ok(body) = client.cluster().await {
            let Some(state) = state(&body, node) else { return Ok(()) };
            if state != printed {
                write_stderr(&state);
                printed = state;
            }
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
