//! Whether a stream may reply: the age of its session's last confirmed renewal.
//!
//! A reply tells the client that its session is alive. So a reply leaves only if a renewal that a quorum confirmed began at
//! most [`slack`] ago. The session's TTL in the log is longer than the client's TTL by the same time. A client that counts
//! its TTL from the sending of the last answered request therefore gives up before the server does (promise 5).
//!
//! One renewal serves all activity of a short time, and `renewals.rs` renews many streams in one call. An active client that
//! cannot be renewed is cut off while its session still lives, so that it can use another node. The session of a silent
//! client expires.

use std::time::{Duration, Instant};

use holdfast_types::{SessionId, SessionName, Ttl};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The greatest age of a confirmed renewal when a reply leaves.
pub(crate) fn slack(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 4).min(Duration::from_secs(1))
}

#[derive(Clone, Copy, Debug)]
struct LivenessState {
    /// When the last confirmed renewal began.
    renewed: Instant,
    /// The last activity of the client.
    heard: Instant,
    /// Since when a renewal is due: the client was active, and the last confirmed renewal is too old.
    owed: Option<Instant>,
    /// A renewal is queued or in flight.
    asked: bool,
    /// The stream has ended.
    over: bool,
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
    /// Begins with the command that opened or attached the session, proposed at `since`.
    pub(crate) fn new(id: SessionId, session: SessionName, ttl: Ttl, since: Instant) -> Self {
        let state =
            LivenessState { renewed: since, heard: since, owed: None, asked: false, over: false };
        Self { id, session, ttl, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Notes activity of the client. Returns whether the caller must send a renewal.
    pub(crate) fn heard(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.heard = state.heard.max(now);
        if state.over || self.covers(&state, now) {
            return false;
        }
        let newly_owed = state.owed.is_none();
        state.owed.get_or_insert(now);
        let send = !std::mem::replace(&mut state.asked, true);
        drop(state);
        if newly_owed {
            self.changed.notify_waiters();
        }
        send
    }

    /// Whether the last renewal covers activity at this time.
    fn covers(&self, state: &LivenessState, heard: Instant) -> bool {
        heard.saturating_duration_since(state.renewed) < slack(self.ttl) / 2
    }

    /// Notes a confirmed renewal that began at `began`.
    pub(crate) fn renewed(&self, began: Instant) {
        let mut state = self.state.lock();
        state.renewed = state.renewed.max(began);
        state.owed = (!self.covers(&state, state.heard)).then_some(state.heard);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Notes the end of a renewal. Returns whether the caller must send another one.
    pub(crate) fn settled(&self) -> bool {
        let mut state = self.state.lock();
        state.asked = state.owed.is_some() && !state.over;
        state.asked
    }

    /// Ends the renewals.
    pub(crate) fn over(&self) {
        self.state.lock().over = true;
        self.changed.notify_waiters();
    }

    /// Whether a reply may leave now.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let state = self.state.lock();
        now.saturating_duration_since(state.renewed) <= slack(self.ttl)
    }

    /// When the stream is cut off without a confirmed renewal: two thirds of the TTL after the last one, and at least one
    /// third after it became due.
    fn cut_off_at(&self) -> Option<Instant> {
        let (state, ttl) = (*self.state.lock(), self.ttl.as_duration());
        let owed = state.owed.filter(|_| !state.over)?;
        Some((state.renewed + ttl * 2 / 3).max(owed + ttl / 3))
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

#[cfg(test)]
mod tests {
    use super::*;

    const T0_TO: fn(Instant, u64) -> Instant = |t0, ms| t0 + Duration::from_millis(ms);

    fn liveness(t0: Instant) -> Liveness {
        let session = SessionName::new("zk-1").unwrap();
        Liveness::new(SessionId(1), session, Ttl::from_millis(12_000).unwrap(), t0)
    }

    #[test]
    fn signs_of_life_close_to_each_other_cost_one_renewal() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert!(!liveness.heard(T0_TO(t0, 400)), "covered by the opening");
        assert!(liveness.heard(T0_TO(t0, 600)));
        assert!(!liveness.heard(T0_TO(t0, 700)), "asked for already");
        liveness.renewed(T0_TO(t0, 700));
        assert!(!liveness.settled());
        assert!(!liveness.heard(T0_TO(t0, 1_100)));
        assert!(liveness.heard(T0_TO(t0, 1_300)));
    }

    /// "So much longer that a reply which leaves without a new renewal is covered."
    #[test]
    fn no_reply_leaves_on_a_renewal_older_than_the_slack() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert!(liveness.is_fresh(T0_TO(t0, 1_000)));
        assert!(!liveness.is_fresh(T0_TO(t0, 1_001)));
        liveness.renewed(T0_TO(t0, 900));
        assert!(liveness.is_fresh(T0_TO(t0, 1_900)));
    }

    #[test]
    fn a_client_heard_during_a_long_renewal_gets_another_one() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert!(liveness.heard(T0_TO(t0, 600)));
        assert!(!liveness.heard(T0_TO(t0, 3_000)));
        liveness.renewed(T0_TO(t0, 601));
        assert!(liveness.settled(), "what was heard at 3 s is not covered by a renewal of 0.6 s");
    }

    #[test]
    fn a_client_that_cannot_be_renewed_is_cut_off_at_two_thirds_of_its_time() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert_eq!(liveness.cut_off_at(), None);
        liveness.heard(T0_TO(t0, 4_000));
        assert_eq!(liveness.cut_off_at(), Some(T0_TO(t0, 8_000)));
        liveness.renewed(T0_TO(t0, 4_001));
        assert_eq!(liveness.cut_off_at(), None);
    }

    #[test]
    fn a_silent_client_is_left_alone_and_one_that_speaks_up_late_has_time_to_be_renewed() {
        let t0 = Instant::now();
        let liveness = liveness(t0);
        assert_eq!(liveness.cut_off_at(), None);
        liveness.heard(T0_TO(t0, 11_000));
        assert_eq!(liveness.cut_off_at(), Some(T0_TO(t0, 15_000)));
        liveness.over();
        assert_eq!(liveness.cut_off_at(), None);
        assert!(!liveness.heard(T0_TO(t0, 12_000)) && !liveness.settled());
    }
}
