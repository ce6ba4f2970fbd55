//! Moves the leadership to the voter with the highest priority.
//!
//! Each node has a priority in its configuration. The leader asks the others, and transfers the leadership to a connected
//! voter with a higher one. A node transfers it to the same voter at most once in [`PAUSE`]. So a voter that fails again and
//! again does not move the leadership each time.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use holdfast_types::NodeId;
use tokio::time::MissedTickBehavior;

use crate::service::Service;
use crate::service_call::ReadPriority;

const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a leader leads before it asks the others.
const STABLE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_mins(1);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// A follower that has acknowledged nothing for longer does not take over.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Runs until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut period = tokio::time::interval(CHECK_INTERVAL);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut led, mut last) = (None::<(u64, Instant)>, None::<(NodeId, Instant)>);
    loop {
        tokio::select! {
            () = service.stopped().cancelled() => return,
            _ = period.tick() => {}
        }
        let leads = service.leader() == Some(service.node());
        if !leads {
            led = None;
            continue;
        }
        let term = service.raft().status().term;
        let since = led.filter(|(of, _)| *of == term).map_or_else(Instant::now, |(_, since)| since);
        led = Some((term, since));
        if since.elapsed() < STABLE {
            continue;
        }
        let paused = last.filter(|(_, at)| at.elapsed() < PAUSE).map(|(voter, _)| voter);
        if let Some(successor) = successor(&service, paused).await {
            last = Some((successor, Instant::now()));
            tracing::info!(
                successor = successor.0,
                "transferring the leadership to a voter with a higher priority"
            );
            service.raft().transfer_leadership(Some(successor)).await;
        }
    }
}

/// The connected voter with the highest priority above this node's, other than `paused`; of several, the one with the lowest
/// id.
async fn successor(service: &Service, paused: Option<NodeId>) -> Option<NodeId> {
    let status = service.raft().status();
    let deadline = Instant::now() + CALL_TIMEOUT;
    let connected = status.peers.iter().filter(|(id, peer)| {
        let acknowledges = peer.contact.is_some_and(|contact| contact < SILENCE_MAX);
        status.voters.contains(id) && peer.connected && acknowledges && paused != Some(**id)
    });
    let reads = connected.map(async |(id, _)| {
        let priority = service.call_service(*id, ReadPriority, deadline).await.ok()?;
        Some((priority, Reverse(*id)))
    });
    let best = futures_util::future::join_all(reads).await.into_iter().flatten().max();
    best.filter(|(priority, _)| *priority > service.config().priority).map(|(_, Reverse(id))| id)
}
