//! When the command is told to end, and when it is made to: pure arithmetic on a deadline that moves.
//!
//! Invariant: the kill comes before the deadline, and the deadline before anybody else can have the lock.

use std::time::Duration;

use holdfast_client::Moment;

/// The kill comes so long before the deadline, for the time a signal takes; less for a short lease.
const MARGIN: Duration = Duration::from_millis(100);

/// How the end is spread over what is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// From the request to end to the kill; none if there is no request.
    grace: Option<Duration>,
    margin: Duration,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing before this moment.
    Wait(Moment),
    /// Ask the command to end.
    Terminate,
    /// Make it end.
    Kill,
}

impl Timeline {
    /// For a lease of which `lease` is left after a renewal. The grace is cut to a third of it: two thirds must be left
    /// for renewals, which come after the first one.
    pub(super) fn new(grace: Option<Duration>, lease: Duration) -> Self {
        Self { grace: grace.map(|grace| grace.min(lease / 3)), margin: MARGIN.min(lease / 20) }
    }

    /// The moment of the kill.
    fn kill_at(&self, deadline: Moment) -> Moment {
        deadline.minus(self.margin)
    }

    /// The moment at which the leash kills, should we not have done so: a little later, and before the deadline too.
    pub(super) fn leash_at(&self, deadline: Moment) -> Moment {
        deadline.minus(self.margin / 2)
    }

    /// What is due, `asked` being whether the command was already asked to end. Once asked, a renewal that comes late
    /// does not bring the lock's protection back: the command is ending.
    pub(super) fn due(&self, deadline: Moment, asked: bool, now: Moment) -> Due {
        let kill_at = self.kill_at(deadline);
        let ask_at = match self.grace {
            Some(grace) if !asked => kill_at.minus(grace),
            Some(_) | None => kill_at,
        };
        if now >= kill_at {
            Due::Kill
        } else if now >= ask_at {
            Due::Terminate
        } else {
            Due::Wait(ask_at)
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
    fn first_it_is_asked_then_it_is_killed_and_both_before_the_deadline() {
        let timeline = Timeline::new(Some(Duration::from_secs(5)), LEASE);
        let deadline = at(30_000);
        assert_eq!(timeline.due(deadline, false, at(0)), Due::Wait(at(24_900)));
        assert_eq!(timeline.due(deadline, false, at(24_900)), Due::Terminate);
        assert_eq!(timeline.due(deadline, true, at(24_901)), Due::Wait(at(29_900)));
        assert_eq!(timeline.due(deadline, true, at(29_900)), Due::Kill);
        assert_eq!(timeline.due(deadline, false, at(60_000)), Due::Kill);
    }

    #[test]
    fn a_renewal_moves_both() {
        let timeline = Timeline::new(Some(Duration::from_secs(5)), LEASE);
        assert_eq!(timeline.due(at(40_000), false, at(25_000)), Due::Wait(at(34_900)));
    }

    #[test]
    fn the_grace_leaves_time_for_renewals_and_the_margin_fits_short_leases() {
        let timeline = Timeline::new(Some(Duration::from_mins(1)), Duration::from_secs(1));
        assert_eq!(timeline.kill_at(at(1_000)), at(950));
        assert_eq!(timeline.leash_at(at(1_000)), at(975));
        assert!(
            matches!(timeline.due(at(1_000), false, at(400)), Due::Wait(moment) if moment > at(600))
        );
    }

    #[test]
    fn without_a_grace_it_is_not_asked() {
        let timeline = Timeline::new(None, LEASE);
        assert_eq!(timeline.due(at(30_000), false, at(29_899)), Due::Wait(at(29_900)));
        assert_eq!(timeline.due(at(30_000), false, at(29_900)), Due::Kill);
    }
}
