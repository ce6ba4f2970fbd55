//! The last entry that each peer must have: it has acknowledged the entry, and the entry is committed.
//!
//! No correct log ever loses such an entry. Two nodes tell each other these positions in the handshake. A node whose log ends
//! before its position runs in an older copy of its directory, or its disk has lost entries: it stops. A node learns the
//! positions while it leads, and forgets them when its process ends.
//!
//! Bound: one record for each member.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use holdfast_types::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::state_machine::Raft;

/// The interval between two observations of the followers.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct AcknowledgedEntries {
    /// Set once openraft runs.
    raft: OnceLock<Raft>,
    peers: Mutex<BTreeMap<NodeId, PeerProgress>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PeerProgress {
    /// The last entry that the peer must have, and the time at which this node learned it.
    must_have: Option<(u64, Instant)>,
    /// The last entry that it acknowledged to this leader, and the time of the last progress; `None` without a leadership.
    matched: Option<(Option<u64>, Instant)>,
    /// Whether it has all entries.
    is_current: bool,
}

/// The entries of a leader and its followers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replication {
    /// The last entry that each follower acknowledged; empty unless this node leads.
    pub(crate) matched: BTreeMap<NodeId, Option<u64>>,
    pub(crate) applied: Option<u64>,
    pub(crate) last: Option<u64>,
}

impl AcknowledgedEntries {
    pub(crate) fn start(&self, raft: Raft) {
        self.raft.set(raft).ok();
    }

    /// Observes the followers until the drop of the future.
    pub(crate) async fn run(&self) {
        loop {
            self.observe();
            tokio::time::sleep(OBSERVE_INTERVAL).await;
        }
    }

    /// Returns the last entry that a peer must have.
    pub(crate) fn must_have(&self, node: NodeId) -> Option<u64> {
        self.observe();
        self.peers.lock().get(&node)?.must_have.map(|(index, _)| index)
    }

    /// Returns `true` if this node has learned within `time` that a peer must have one more entry. The peer may have sent the end
    /// of its log before.
    pub(crate) fn has_grown_within(&self, node: NodeId, time: Duration) -> bool {
        let learned = self.peers.lock().get(&node).and_then(|peer| peer.must_have);
        learned.is_some_and(|(_, at)| at.elapsed() < time)
    }

    /// Returns how long a follower of this leader has been behind without progress.
    pub(crate) fn stalled_for(&self, node: NodeId) -> Option<Duration> {
        let peers = self.peers.lock();
        let peer = peers.get(&node).filter(|peer| !peer.is_current)?;
        peer.matched.map(|(_, since)| since.elapsed())
    }

    fn observe(&self) {
        let Some(raft) = self.raft.get() else { return };
        let replication = {
            let metrics = raft.metrics();
            let metrics = metrics.borrow_watched();
            let matched = metrics.replication.iter().flatten();
            Replication {
                matched: matched.map(|(id, at)| (NodeId(*id), at.map(|at| at.index))).collect(),
                applied: metrics.last_applied.map(|id| id.index),
                last: metrics.last_log_index,
            }
        };
        self.record(&replication, Instant::now());
    }

    pub(crate) fn record(&self, replication: &Replication, now: Instant) {
        let mut peers = self.peers.lock();
        peers.retain(|node, peer| {
            if !replication.matched.contains_key(node) {
                peer.matched = None;
            }
            peer.must_have.is_some() || peer.matched.is_some()
        });
        for (node, matched) in &replication.matched {
            let peer = peers.entry(*node).or_default();
            // What is applied is committed.
            let kept =
                matched.zip(replication.applied).map(|(matched, applied)| matched.min(applied));
            if kept > peer.must_have.map(|(index, _)| index) {
                peer.must_have = kept.map(|kept| (kept, now));
            }
            peer.is_current = *matched >= replication.last;
            match &mut peer.matched {
                Some((before, _)) if before == matched && !peer.is_current => {}
                progress => *progress = Some((*matched, now)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(2);

    fn leader(matched: Option<u64>, applied: u64, last: u64) -> Replication {
        let matched = BTreeMap::from([(NODE, matched)]);
        Replication { matched, applied: Some(applied), last: Some(last) }
    }

    #[tokio::test]
    async fn a_peer_must_have_what_it_acknowledged_and_what_is_committed() {
        let entries = AcknowledgedEntries::default();
        let after = |replication: &Replication| {
            entries.record(replication, Instant::now());
            entries.must_have(NODE)
        };
        assert_eq!(entries.must_have(NODE), None);
        assert_eq!(after(&leader(None, 5, 9)), None);
        assert_eq!(after(&leader(Some(7), 5, 9)), Some(5), "entry 7 may still be removed");
        assert_eq!(after(&leader(Some(7), 9, 9)), Some(7));
        // Another leader starts from nothing, and this node remembers.
        assert_eq!(after(&Replication::default()), Some(7));
        assert_eq!(after(&leader(None, 9, 9)), Some(7));
        assert_eq!(after(&leader(Some(3), 9, 9)), Some(7));
    }

    #[tokio::test]
    async fn the_time_of_an_acknowledgement_is_that_of_the_last_new_entry() {
        let entries = AcknowledgedEntries::default();
        let minute = Duration::from_mins(1);
        let long_ago = Instant::now().checked_sub(minute).unwrap();
        assert!(!entries.has_grown_within(NODE, minute));
        entries.record(&leader(Some(5), 5, 5), long_ago);
        entries.record(&leader(Some(5), 5, 5), Instant::now());
        assert!(!entries.has_grown_within(NODE, minute), "entry 5 is old");
        entries.record(&leader(Some(6), 6, 6), Instant::now());
        assert!(entries.has_grown_within(NODE, minute));
    }

    #[tokio::test]
    async fn a_follower_is_stalled_while_it_is_behind_and_acknowledges_nothing() {
        let entries = AcknowledgedEntries::default();
        let long_ago = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
        let stalls =
            || entries.stalled_for(NODE).is_some_and(|time| time >= Duration::from_mins(1));
        assert_eq!(entries.stalled_for(NODE), None);
        entries.record(&leader(Some(3), 5, 5), long_ago);
        assert!(stalls());
        entries.record(&leader(Some(3), 6, 6), Instant::now());
        assert!(stalls(), "new entries are no progress");
        entries.record(&leader(Some(4), 6, 6), Instant::now());
        assert!(!stalls());
        entries.record(&leader(Some(6), 6, 6), Instant::now());
        assert_eq!(entries.stalled_for(NODE), None, "it has all entries");
        entries.record(&leader(Some(6), 6, 7), Instant::now());
        assert!(!stalls(), "the time begins with the first missing entry");
        entries.record(&Replication::default(), Instant::now());
        assert_eq!(entries.stalled_for(NODE), None, "this node does not lead");
    }
}
