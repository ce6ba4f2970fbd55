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
    /// The requested time from SIGTERM to SIGKILL; `None` without SIGTERM.
    grace: Option<Duration>,
    /// The longest rest of the lease after a renewal so far.
    lease: Duration,
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
    /// Creates the timeline; `lease` is the rest of the lease.
    pub(super) fn new(grace: Option<Duration>, lease: Duration) -> Self {
        Self { grace, lease }
    }

    /// Takes over the rest of the lease after a renewal. The command may have started with a short rest.
    pub(super) fn renewed(&mut self, lease: Duration) {
        self.lease = self.lease.max(lease);
    }

    /// At most a third of the lease, which leaves two thirds for renewals.
    fn grace(&self) -> Option<Duration> {
        self.grace.map(|grace| grace.min(self.lease / 3))
    }

    fn margin(&self) -> Duration {
        MARGIN.min(self.lease / 20)
    }

    fn kill_at(&self, deadline: Moment) -> Moment {
        deadline.minus(self.margin())
    }

    /// The time of the watchdog's kill: after the kill by this process, and before the deadline.
    pub(super) fn watchdog_at(&self, deadline: Moment) -> Moment {
        deadline.minus(self.margin() / 2)
    }

    /// Returns the step at `now`. After SIGTERM (`terminated`) a late renewal does not cancel the kill.
    pub(super) fn step(&self, deadline: Moment, terminated: bool, now: Moment) -> KillStep {
        let kill_at = self.kill_at(deadline);
        let terminate_at = match self.grace() {
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

/// The times at which all processes of the command get SIGTERM and SIGKILL although the lock is safe: after a signal
/// that requests the end, and after a command that left processes running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StopTimeline {
    pub(super) terminate_at: Option<Moment>,
    pub(super) kill_at: Option<Moment>,
}

impl StopTimeline {
    /// A signal requests the end: SIGKILL follows after the grace. A second signal does not extend it.
    pub(super) fn requested(&mut self, grace: Duration, now: Moment) {
        let kill_at = now.plus(grace);
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }

    /// The command has ended. The processes that it left running have the grace to end by themselves, and once more
    /// after SIGTERM; if the end was requested, they get SIGTERM at once and have the rest of the grace.
    pub(super) fn command_ended(&mut self, grace: Duration, now: Moment) {
        if self.kill_at.is_some() {
            self.terminate_at = Some(now);
        } else {
            self.terminate_at = Some(now.plus(grace));
            self.kill_at = Some(now.plus(grace).plus(grace));
        }
    }

    /// Returns the step at `now`; `None` without a time.
    pub(super) fn step(&self, now: Moment) -> Option<KillStep> {
        match (self.terminate_at, self.kill_at) {
            (_, Some(kill_at)) if now >= kill_at => Some(KillStep::Kill),
            (Some(terminate_at), _) if now >= terminate_at => Some(KillStep::Terminate),
            (terminate_at, kill_at) => terminate_at.or(kill_at).map(KillStep::Wait),
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
    fn after_a_renewal_a_short_rest_at_the_start_shortens_nothing() {
        let mut timeline =
            KillTimeline::new(Some(Duration::from_secs(5)), Duration::from_millis(300));
        assert_eq!(timeline.kill_at(at(300)), at(285));
        timeline.renewed(LEASE);
        timeline.renewed(Duration::from_secs(1));
        assert_eq!(timeline.step(at(30_000), false, at(0)), KillStep::Wait(at(24_900)));
        assert_eq!(timeline.watchdog_at(at(30_000)), at(29_950));
    }

    #[test]
    fn without_a_grace_there_is_no_sigterm() {
        let timeline = KillTimeline::new(None, LEASE);
        assert_eq!(timeline.step(at(30_000), false, at(29_899)), KillStep::Wait(at(29_900)));
        assert_eq!(timeline.step(at(30_000), false, at(29_900)), KillStep::Kill);
    }

    #[test]
    fn a_requested_end_comes_after_one_grace_and_left_processes_get_two() {
        let (grace, mut stop) = (Duration::from_secs(5), StopTimeline::default());
        assert_eq!(stop.step(at(0)), None);
        stop.command_ended(grace, at(1_000));
        assert_eq!(stop.step(at(1_000)), Some(KillStep::Wait(at(6_000))));
        assert_eq!(stop.step(at(6_000)), Some(KillStep::Terminate));
        stop.terminate_at = None;
        assert_eq!(stop.step(at(6_000)), Some(KillStep::Wait(at(11_000))));
        assert_eq!(stop.step(at(11_000)), Some(KillStep::Kill));
        let mut stop = StopTimeline::default();
        stop.requested(grace, at(0));
        stop.requested(grace, at(3_000));
        stop.command_ended(grace, at(4_000));
        assert_eq!(stop.step(at(4_000)), Some(KillStep::Terminate));
        assert_eq!(stop.step(at(5_000)), Some(KillStep::Kill));
    }
}
