//! Whether a peer can be reached, said in one line when it changes.
//!
//! Owns the moment a peer was lost and the lines about it; all lanes to a peer share one. A line comes when the peer is
//! lost, when it is back, and, at most every [`AGAIN`], when the reason is another one. Knows nothing of connections.

use std::time::Duration;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Lanes may fail for different reasons; they are not told in turn.
const AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Lost {
    since: Instant,
    told: Instant,
    reason: String,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Reach {
    peer: NodeId,
    address: String,
    lost: Mutex<Option<Lost>>,
}

impl Reach {
    pub(crate) fn new(peer: NodeId, address: String) -> Self {
        Self { peer, address, lost: Mutex::new(None) }
    }

    /// An attempt failed.
    pub(crate) fn lost(&self, reason: &str) {
        let (peer, address) = (self.peer, &self.address);
        if let Some(since) = self.note_lost(reason, Instant::now()) {
            let for_ms = holdfast_types::millis(since);
            tracing::warn!(peer = peer.0, address, reason, for_ms, "peer unreachable");
        }
    }

    /// An attempt succeeded.
    pub(crate) fn found(&self) {
        let (peer, address) = (self.peer, &self.address);
        if let Some(after) = self.note_found(Instant::now()) {
            let after_ms = holdfast_types::millis(after);
            tracing::info!(peer = peer.0, address, after_ms, "peer reachable again");
        }
    }

    /// For how long it has been lost, if that is news.
    fn note_lost(&self, reason: &str, now: Instant) -> Option<Duration> {
        let mut lost = self.lost.lock();
        match &mut *lost {
            None => {
                *lost = Some(Lost { since: now, told: now, reason: reason.to_owned() });
                Some(Duration::ZERO)
            }
            Some(lost) if lost.reason != reason && now >= lost.told + AGAIN => {
                lost.told = now;
                reason.clone_into(&mut lost.reason);
                Some(now - lost.since)
            }
            Some(_) => None,
        }
    }

    /// After how long it is back, if it was lost.
    fn note_found(&self, now: Instant) -> Option<Duration> {
        self.lost.lock().take().map(|lost| now - lost.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_however_often_it_is_noticed() {
        let reach = Reach::new(NodeId(2), "h:1".into());
        let t0 = Instant::now();
        assert_eq!(reach.note_found(t0), None);
        assert_eq!(reach.note_lost("refused", t0), Some(Duration::ZERO));
        for heartbeat in 1..1_000 {
            let now = t0 + Duration::from_millis(150 * heartbeat);
            assert_eq!(reach.note_lost("refused", now), None);
        }
        let back = t0 + Duration::from_mins(5);
        assert_eq!(reach.note_found(back), Some(Duration::from_mins(5)));
        assert_eq!(reach.note_found(back), None);
        assert_eq!(reach.note_lost("refused", back), Some(Duration::ZERO));
    }

    #[test]
    fn another_reason_is_told_but_not_in_turn_with_the_first() {
        let reach = Reach::new(NodeId(2), "h:1".into());
        let t0 = Instant::now();
        reach.note_lost("refused", t0);
        assert_eq!(reach.note_lost("another cluster", t0 + AGAIN / 2), None);
        assert_eq!(reach.note_lost("another cluster", t0 + AGAIN), Some(AGAIN));
        assert_eq!(reach.note_lost("refused", t0 + AGAIN * 3 / 2), None);
    }
}
