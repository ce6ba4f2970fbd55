//! The age of a session's last confirmed renewal, which decides whether its stream may reply.
//!
//! A reply confirms to the client that its session is alive. So a reply is sent only if a renewal that a quorum
//! confirmed began at most [`slack`] ago. The session's TTL in the log is longer than the client's TTL by the same
//! time. A client that counts its TTL from sending the last request with a reply therefore expires before the session
//! does (guarantee 5).
//!
//! One renewal covers all activity of a short time, and `renewals.rs` renews many streams in one call. If the session
//! of an active client cannot be renewed, the stream is cut off before the session expires. The client can then use
//! another node. The session of a silent client expires.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_types::{SessionId, SessionName, Ttl};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The maximum number of sessions in one batch.
const BATCH_MAX: usize = 16_384;

/// Returns the maximum age of a confirmed renewal when a reply is sent.
pub(crate) fn slack(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 4).min(Duration::from_secs(1))
}

#[derive(Clone, Copy, Debug)]
struct LivenessState {
    /// When the last confirmed renewal began.
    renewed: Instant,
    /// The last activity of the client.
    last_activity: Instant,
    /// The time since which a renewal is due: the client was active, and the last confirmed renewal is too old.
    renewal_due_since: Option<Instant>,
    /// A renewal is queued or in flight.
    renewal_pending: bool,
    /// The stream has ended.
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Liveness {
    pub(crate) id: SessionId,
    pub(crate) session: SessionName,
    ttl: Ttl,
    state: Mutex<LivenessState>,
    changed: Notify,
}

impl Liveness {
    /// Starts with the command that opened or attached the session, proposed at `since`.
    pub(crate) fn new(id: SessionId, session: SessionName, ttl: Ttl, since: Instant) -> Self {
        let state = LivenessState {
            renewed: since,
            last_activity: since,
            renewal_due_since: None,
            renewal_pending: false,
            ended: false,
        };
        Self { id, session, ttl, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Records activity of the client. Returns whether the caller must send a renewal.
    pub(crate) fn record_activity(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.last_activity = state.last_activity.max(now);
        if state.ended || self.covers(&state, now) {
            return false;
        }
        let newly_due = state.renewal_due_since.is_none();
        state.renewal_due_since.get_or_insert(now);
        let send = !std::mem::replace(&mut state.renewal_pending, true);
        drop(state);
        if newly_due {
            self.changed.notify_waiters();
        }
        send
    }

    /// Returns whether the last renewal covers activity at this time.
    fn covers(&self, state: &LivenessState, last_activity: Instant) -> bool {
        last_activity.saturating_duration_since(state.renewed) < slack(self.ttl) / 2
    }

    /// Records a confirmed renewal that began at `began`.
    pub(crate) fn renewed(&self, began: Instant) {
        let mut state = self.state.lock();
        state.renewed = state.renewed.max(began);
        state.renewal_due_since =
            (!self.covers(&state, state.last_activity)).then_some(state.last_activity);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Records the end of a renewal. Returns whether the caller must send another renewal.
    pub(crate) fn renewal_ended(&self) -> bool {
        let mut state = self.state.lock();
        state.renewal_pending = state.renewal_due_since.is_some() && !state.ended;
        state.renewal_pending
    }

    /// Ends the renewals.
    pub(crate) fn stop(&self) {
        self.state.lock().ended = true;
        self.changed.notify_waiters();
    }

    /// Returns whether a reply may be sent now.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let state = self.state.lock();
        now.saturating_duration_since(state.renewed) <= slack(self.ttl)
    }

    /// Returns when the stream is cut off without a confirmed renewal. This is two thirds of the TTL after the last
    /// renewal, and at least one third after the next renewal became due.
    fn cut_off_at(&self) -> Option<Instant> {
        let (state, ttl) = (*self.state.lock(), self.ttl.as_duration());
        let renewal_due_since = state.renewal_due_since.filter(|_| !state.ended)?;
        Some((state.renewed + ttl * 2 / 3).max(renewal_due_since + ttl / 3))
    }

    /// Resolves after the next change.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// Resolves when the stream must be cut off.
    pub(crate) async fn lost(&self) {
        loop {
            let changed = self.changed.notified();
            let Some(at) = self.cut_off_at() else {
                changed.await;
                continue;
            };
            if Instant::now() >= at {
                return;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(at.into()) => {}
            }
        }
    }
}

/// Streams that wait for a renewal of their sessions. Bounds: one entry per stream, [`BATCH_MAX`] sessions in a batch.
#[derive(Debug, Default)]
pub(crate) struct RenewalQueue {
    waiting: Mutex<BTreeMap<SessionId, Vec<Arc<Liveness>>>>,
    filled: Notify,
}

impl RenewalQueue {
    /// Adds a stream. The caller adds a stream only once until its renewal has ended.
    pub(crate) fn add(&self, liveness: Arc<Liveness>) {
        self.waiting.lock().entry(liveness.id).or_default().push(liveness);
        self.filled.notify_one();
    }

    /// Takes the next batch; waits for its first stream.
    pub(crate) async fn take(&self) -> BTreeMap<SessionId, Vec<Arc<Liveness>>> {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.waiting.lock();
                let rest = match waiting.keys().nth(BATCH_MAX).copied() {
                    Some(first) => waiting.split_off(&first),
                    None => BTreeMap::new(),
                };
                let batch = std::mem::replace(&mut *waiting, rest);
                if !batch.is_empty() {
                    return batch;
                }
            }
            filled.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(Instant, u64) -> Instant = |t0, ms| t0 + Duration::from_millis(ms);

    fn liveness(t0: Instant) -> Liveness {
        let session = SessionName::new("zk-1").unwrap();
        Liveness::new(SessionId(1), session, Ttl::from_millis(12_000).unwrap(), t0)
    }

    #[test]
    fn activity_within_a_short_time_costs_one_renewal() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert!(!liveness.record_activity(AT(t0, 400)), "the opening covers the activity");
        assert!(liveness.record_activity(AT(t0, 600)));
        assert!(!liveness.record_activity(AT(t0, 700)), "a renewal is already queued");
        liveness.renewed(AT(t0, 700));
        assert!(!liveness.renewal_ended());
        assert!(!liveness.record_activity(AT(t0, 1_100)));
        assert!(liveness.record_activity(AT(t0, 1_300)));
    }

    /// The session's TTL exceeds the client's by the slack, so it covers a reply without a new renewal.
    #[test]
    fn no_reply_leaves_on_a_renewal_older_than_the_slack() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert!(liveness.is_fresh(AT(t0, 1_000)));
        assert!(!liveness.is_fresh(AT(t0, 1_001)));
        liveness.renewed(AT(t0, 900));
        assert!(liveness.is_fresh(AT(t0, 1_900)));
    }

    #[test]
    fn activity_during_a_long_renewal_causes_another_renewal() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert!(liveness.record_activity(AT(t0, 600)));
        assert!(!liveness.record_activity(AT(t0, 3_000)));
        liveness.renewed(AT(t0, 601));
        assert!(
            liveness.renewal_ended(),
            "a renewal that began at 0.6 s does not cover activity at 3 s"
        );
    }

    #[test]
    fn a_client_without_a_renewal_is_cut_off_at_two_thirds_of_its_ttl() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert_eq!(liveness.cut_off_at(), None);
        liveness.record_activity(AT(t0, 4_000));
        assert_eq!(liveness.cut_off_at(), Some(AT(t0, 8_000)));
        liveness.renewed(AT(t0, 4_001));
        assert_eq!(liveness.cut_off_at(), None);
    }

    #[test]
    fn a_silent_client_is_not_cut_off_and_late_activity_leaves_time_for_a_renewal() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert_eq!(liveness.cut_off_at(), None);
        liveness.record_activity(AT(t0, 11_000));
        assert_eq!(liveness.cut_off_at(), Some(AT(t0, 15_000)));
        liveness.stop();
        assert_eq!(liveness.cut_off_at(), None);
        assert!(!liveness.record_activity(AT(t0, 12_000)) && !liveness.renewal_ended());
    }
}
