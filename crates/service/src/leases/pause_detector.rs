//! Detects times in which this process did not run: a paused process, a stalled host, or a starved runtime.
//!
//! The caller checks with the same instant by which it then expires leases, and also checks during its other waits. So
//! a pause is never counted as time in which a client could have renewed. The caller passes all instants in.

use std::time::{Duration, Instant};

use holdfast_types::SessionId;

use crate::leases::lease::Leases;

/// A check that is late by more than this counts as a pause.
const LATE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct PauseDetector {
    last: Instant,
    period: Duration,
}

impl PauseDetector {
    /// Expects a check every `period`, starting at `now`.
    pub(crate) fn new(now: Instant, period: Duration) -> Self {
        Self { last: now, period }
    }

    /// Extends all leases by the time since the last check if that time was a pause, and returns the pause.
    pub(crate) fn check(&mut self, now: Instant, leases: &mut Leases) -> Option<Duration> {
        let gap = now.saturating_duration_since(self.last);
        self.last = self.last.max(now);
        if gap <= self.period + LATE {
            return None;
        }
        leases.extend(gap);
        Some(gap)
    }

    /// Checks for a pause first, then takes the overdue leases: see [`Leases::overdue`].
    pub(crate) fn overdue(
        &mut self,
        now: Instant,
        leases: &mut Leases,
        count_max: usize,
    ) -> (Option<Duration>, Vec<(SessionId, u64)>) {
        let gap = self.check(now, leases);
        (gap, leases.overdue(now, count_max))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Ttl;

    use super::*;

    const TICK: Duration = Duration::from_millis(50);
    const PAUSE: Duration = Duration::from_mins(1);
    const EARLY: SessionId = SessionId(1);
    const OTHER: SessionId = SessionId(2);

    /// The loop of the leader's timers, in single steps, with a pause of the process before one step. A proposal takes
    /// five ticks, with a check at each. `run` returns the running time of the node after which each session was
    /// overdue.
    struct Loop {
        now: Instant,
        steps: usize,
        pause_before: usize,
        pauses: PauseDetector,
        leases: Leases,
    }

    impl Loop {
        fn new(pause_before: usize) -> Self {
            let now = Instant::now();
            let mut leases = Leases::default();
            let ttl = |ms| Ttl::from_millis(ms).unwrap();
            leases.reset(
                [(EARLY, ttl(1_000), 1), (OTHER, ttl(2_000), 1)].into_iter(),
                std::iter::empty(),
                now,
            );
            Self { now, steps: 0, pause_before, pauses: PauseDetector::new(now, TICK), leases }
        }

        fn step(&mut self, takes: Duration) -> Instant {
            if self.steps == self.pause_before {
                self.now += PAUSE;
            }
            self.steps += 1;
            self.now += takes;
            self.now
        }

        fn run(mut self) -> Vec<(SessionId, Duration)> {
            let (began, mut overdue) = (self.now, Vec::new());
            while overdue.len() < 2 {
                let now = self.step(TICK);
                let (_, found) = self.pauses.overdue(now, &mut self.leases, 10);
                let paused = if self.steps > self.pause_before { PAUSE } else { Duration::ZERO };
                overdue.extend(
                    found
                        .iter()
                        .map(|(id, _)| (*id, now.duration_since(began).saturating_sub(paused))),
                );
                for _ in 0..if found.is_empty() { 0 } else { 5 } {
                    let now = self.step(TICK);
                    self.pauses.check(now, &mut self.leases);
                }
            }
            overdue
        }
    }

    #[test]
    fn a_pause_at_any_point_of_the_loop_expires_no_session_early() {
        for pause_before in 0..50 {
            for (session, after) in Loop::new(pause_before).run() {
                let ttl = Duration::from_millis(if session == EARLY { 1_000 } else { 2_000 });
                assert!(after >= ttl, "{session:?} after {after:?}, paused before {pause_before}");
                assert!(after <= ttl + TICK * 8, "expired too late: {after:?}");
            }
        }
    }

    #[test]
    fn a_check_in_time_is_no_pause_and_time_never_runs_back() {
        let t0 = Instant::now();
        let mut pauses = PauseDetector::new(t0, TICK);
        let mut leases = Leases::default();
        assert_eq!(pauses.check(t0 + TICK + LATE, &mut leases), None);
        assert_eq!(pauses.check(t0, &mut leases), None);
        assert_eq!(pauses.check(t0 + PAUSE, &mut leases), PAUSE.checked_sub(TICK + LATE));
    }
}
