//! Computes the times of SIGTERM and SIGKILL from a deadline that renewals move.
//!
//! Invariant: the kill precedes the deadline, and no other session holds the lock before the deadline.

use std::time::Duration;

use holdfast_client::Moment;

/// The time between the kill and the deadline, for the delivery of the signal; shorter for a short lease.
const MARGIN: Duration = Duration::from_millis(100);

/// The distribution of the end of the command over the rest of the lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct KillTimeline {
    /// The time from SIGTERM to SIGKILL; `None` without SIGTERM.
    grace: Option<Duration>,
    margin: Duration,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillStep {
    /// Take no action before this moment.
    Wait(Moment),
    /// Send SIGTERM.
    Terminate,
    /// Send SIGKILL.
    Kill,
}

impl KillTimeline {
    /// Creates the timeline; `lease` is the rest of the lease after a renewal. The grace is at most a third of it,
    /// which leaves two thirds for renewals.
    pub(super) fn new(grace: Option<Duration>, lease: Duration) -> Self {
        Self { grace: grace.map(|grace| grace.min(lease / 3)), margin: MARGIN.min(lease / 20) }
    }

    fn kill_at(&self, deadline: Moment) -> Moment {
        deadline.minus(self.margin)
    }

    /// The time of the watchdog's kill: after the kill by this process, and before the deadline.
    pub(super) fn watchdog_at(&self, deadline: Moment) -> Moment {
        deadline.minus(self.margin / 2)
    }

    /// Returns the step at `now`. After SIGTERM (`terminated`) a late renewal does not cancel the kill.
    pub(super) fn step(&self, deadline: Moment, terminated: bool, now: Moment) -> KillStep {
        let kill_at = self.kill_at(deadline);
        let terminate_at = match self.grace {
            Some(grace) if !terminated => kill_at.minus(grace),
            Some(_) | None => kill_at,
        };
        if now >= kill_at {
            KillStep::Kill
        } else if now >= terminate_at {
            KillStep::Terminate
        } else {
            KillStep::Wait(terminate_at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn sigterm_comes_before_sigkill_and_both_before_the_deadline() {
        let timeline = KillTimeline::new(Some(Duration::from_secs(5)), LEASE);
        let deadline = at(30_000);
        assert_eq!(timeline.step(deadline, false, at(0)), KillStep::Wait(at(24_900)));
        assert_eq!(timeline.step(deadline, false, at(24_900)), KillStep::Terminate);
        assert_eq!(timeline.step(deadline, true, at(24_901)), KillStep::Wait(at(29_900)));
        assert_eq!(timeline.step(deadline, true, at(29_900)), KillStep::Kill);
        assert_eq!(timeline.step(deadline, false, at(60_000)), KillStep::Kill);
    }

    #[test]
    fn a_renewal_moves_both_times() {
        let timeline = KillTimeline::new(Some(Duration::from_secs(5)), LEASE);
        assert_eq!(timeline.step(at(40_000), false, at(25_000)), KillStep::Wait(at(34_900)));
    }

    #[test]
    fn the_grace_leaves_time_for_renewals_and_the_margin_fits_short_leases() {
        let timeline = KillTimeline::new(Some(Duration::from_mins(1)), Duration::from_secs(1));
        assert_eq!(timeline.kill_at(at(1_000)), at(950));
        assert_eq!(timeline.watchdog_at(at(1_000)), at(975));
        assert!(
            matches!(timeline.step(at(1_000), false, at(400)), KillStep::Wait(moment) if moment > at(600))
        );
    }

    #[test]
    fn without_a_grace_there_is_no_sigterm() {
        let timeline = KillTimeline::new(None, LEASE);
        assert_eq!(timeline.step(at(30_000), false, at(29_899)), KillStep::Wait(at(29_900)));
        assert_eq!(timeline.step(at(30_000), false, at(29_900)), KillStep::Kill);
    }
}
