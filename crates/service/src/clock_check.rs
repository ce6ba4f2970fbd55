//! Compares the wall clocks of the nodes, for the alarm `clock-skew`. The leader asks all other members.
//!
//! No promise depends on wall clocks. Times in replies and logs do, and so does the expiry of certificates and access
//! tokens.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_types::{NodeId, Stamp, millis};
use tokio::time::MissedTickBehavior;

use crate::service::Service;
use crate::service_call::{PEER_READS_LEVEL, ReadClock};

const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Compares the clocks until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut period = tokio::time::interval(COMPARE_INTERVAL);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = service.stopped().cancelled() => return,
            _ = period.tick() => {}
        }
        let leads = service.leader() == Some(service.node());
        let offsets = if leads && service.has_level(PEER_READS_LEVEL) {
            read_offsets(&service).await
        } else {
            BTreeMap::new()
        };
        *service.parts.clock_offsets.lock() = offsets;
    }
}

async fn read_offsets(service: &Service) -> BTreeMap<NodeId, i64> {
    let others = service.members().into_keys().filter(|id| *id != service.node());
    let reads = others.map(|id| read_offset(service, id));
    futures_util::future::join_all(reads).await.into_iter().flatten().collect()
}

async fn read_offset(service: &Service, node: NodeId) -> Option<(NodeId, i64)> {
    let (began, sent) = (Instant::now(), service.raft().wall_clock());
    let theirs = service.call_service(node, ReadClock, began + CALL_TIMEOUT).await.ok()?;
    Some((node, certain_offset(sent, began.elapsed(), theirs)))
}

/// How far a clock is ahead of this node's, milliseconds; negative if it is behind. The peer read its clock at an unknown
/// time of the call, which took `took`. Only the difference that this does not explain counts.
fn certain_offset(sent: Stamp, took: Duration, theirs: Stamp) -> i64 {
    let received = sent.0.saturating_add(millis(took));
    let ahead = theirs.0.saturating_sub(received).cast_signed();
    let behind = sent.0.saturating_sub(theirs.0).cast_signed();
    ahead - behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_duration_of_the_call_is_not_a_difference() {
        let offset =
            |theirs| certain_offset(Stamp(1_000), Duration::from_millis(40), Stamp(theirs));
        assert_eq!([1_000, 1_020, 1_040].map(offset), [0, 0, 0]);
        assert_eq!([990, 1_041, 3_040].map(offset), [-10, 1, 2_000]);
    }
}
