//! Logs the loss and the return of a peer, and remembers the present failure.
//!
//! All channels to a peer share one [`Reachability`]. It logs one line at the loss of the peer, one line at its
//! return, and at most one line every [`REPEAT_AFTER`] when the reason changes.

use std::time::Duration;

use holdfast_types::{Address, NodeId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The minimum time between two lines for a changed reason. Channels to one peer may fail for different reasons at
/// once.
const REPEAT_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Lost {
    since: Instant,
    logged_at: Instant,
    reason: String,
}

/// The last connection attempt to a peer.
#[derive(Debug, Default)]
struct LastAttempt {
    /// The address of the last connection.
    connected_to: Option<Address>,
    /// The address and the reason, if the last attempt failed.
    failed: Option<(Option<Address>, String)>,
}

#[derive(Debug)]
pub(crate) struct Reachability {
    peer: NodeId,
    lost: Mutex<Option<Lost>>,
    last: Mutex<LastAttempt>,
}

impl Reachability {
    pub(crate) fn new(peer: NodeId) -> Self {
        Self { peer, lost: Mutex::new(None), last: Mutex::default() }
    }

    pub(crate) fn peer(&self) -> NodeId {
        self.peer
    }

    /// Records a failed connection attempt.
    pub(crate) fn record_failure(&self, address: Option<Address>, reason: &str) {
        self.last.lock().failed = Some((address.clone(), reason.to_owned()));
        if let Some(since) = self.note_lost(reason, Instant::now()) {
            let (peer, address) = (self.peer, address.map(tracing::field::display));
            let for_ms = holdfast_types::millis(since);
            tracing::warn!(peer = peer.0, address, reason, for_ms, "peer unreachable");
        }
    }

    /// Records a successful connection attempt.
    pub(crate) fn record_success(&self, address: Option<Address>) {
        *self.last.lock() = LastAttempt { connected_to: address.clone(), failed: None };
        if let Some(after) = self.note_found(Instant::now()) {
            let (peer, address) = (self.peer, address.map(tracing::field::display));
            let after_ms = holdfast_types::millis(after);
            tracing::info!(peer = peer.0, address, after_ms, "peer reachable again");
        }
    }

    /// The address and the reason of the last attempt, and the time since the first failure, if the peer is lost.
    pub(crate) fn failure(&self) -> Option<(String, Duration)> {
        let since = self.lost.lock().as_ref()?.since;
        let (address, reason) = self.last.lock().failed.clone()?;
        let at = address.map_or_else(String::new, |address| format!("{address}: "));
        Some((format!("{at}{reason}"), since.elapsed()))
    }

    /// The address of the last attempt, if it failed.
    pub(crate) fn failed_at(&self) -> Option<Address> {
        self.last.lock().failed.as_ref()?.0.clone()
    }

    /// The address of the last connection.
    pub(crate) fn connected_to(&self) -> Option<Address> {
        self.last.lock().connected_to.clone()
    }

    /// Returns the time since the loss of the peer, if it must be logged.
    fn note_lost(&self, reason: &str, now: Instant) -> Option<Duration> {
        let mut lost = self.lost.lock();
        match &mut *lost {
            None => {
                *lost = Some(Lost { since: now, logged_at: now, reason: reason.to_owned() });
                Some(Duration::ZERO)
            }
            Some(lost) if lost.reason != reason && now >= lost.logged_at + REPEAT_AFTER => {
                lost.logged_at = now;
                reason.clone_into(&mut lost.reason);
                Some(now - lost.since)
            }
            Some(_) => None,
        }
    }

    /// Returns the duration of the loss, if the peer was lost.
    fn note_found(&self, now: Instant) -> Option<Duration> {
        self.lost.lock().take().map(|lost| now - lost.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_change_is_logged_once() {
        let reachability = Reachability::new(NodeId(2));
        let t0 = Instant::now();
        assert_eq!(reachability.note_found(t0), None);
        assert_eq!(reachability.note_lost("refused", t0), Some(Duration::ZERO));
        for heartbeat in 1..1_000 {
            let now = t0 + Duration::from_millis(150 * heartbeat);
            assert_eq!(reachability.note_lost("refused", now), None);
        }
        let back = t0 + Duration::from_mins(5);
        assert_eq!(reachability.note_found(back), Some(Duration::from_mins(5)));
        assert_eq!(reachability.note_found(back), None);
        assert_eq!(reachability.note_lost("refused", back), Some(Duration::ZERO));
    }

    #[test]
    fn another_reason_is_logged_but_two_reasons_do_not_alternate() {
        let reachability = Reachability::new(NodeId(2));
        let t0 = Instant::now();
        reachability.note_lost("refused", t0);
        assert_eq!(reachability.note_lost("another cluster", t0 + REPEAT_AFTER / 2), None);
        assert_eq!(
            reachability.note_lost("another cluster", t0 + REPEAT_AFTER),
            Some(REPEAT_AFTER)
        );
        assert_eq!(reachability.note_lost("refused", t0 + REPEAT_AFTER * 3 / 2), None);
    }
}
