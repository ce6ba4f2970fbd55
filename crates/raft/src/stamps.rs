//! The clock that stamps entries: time in the log flows at the rate of this machine's monotonic clock.
//!
//! Owns the rule that a step of the wall clock is no step of the log's time. The wall clock is taken as it is when the
//! process starts; from there on it is approached by one part in a thousand, so that a stepped clock neither ends at
//! once what was to last, nor stops time for whoever leads after one that ran ahead: a stamp is never less than
//! the last one applied plus the time since. Pure: both clocks are arguments. Refuses to know who leads.

use std::time::{Duration, Instant};

use holdfast_types::Stamp;
use parking_lot::Mutex;

/// The clock moves towards the wall clock by at most this part of the time that passes: faster than any
/// working oscillator drifts.
const SLEW: u32 = 1_000;

/// A reading of one time scale, and when it was taken.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Since the Unix epoch.
    time: Duration,
    at: Instant,
}

impl Reading {
    fn after(self, now: Instant) -> Duration {
        self.time.saturating_add(now.saturating_duration_since(self.at))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// This node's own time; none before the first look at a clock.
    own: Option<Reading>,
    /// The largest stamp applied.
    applied: Option<Reading>,
}

impl State {
    fn read(&mut self, now: Instant, wall: Stamp) -> Stamp {
        let wall = Duration::from_millis(wall.0);
        let own = self.own.map_or(wall, |own| {
            let free = own.after(now);
            let most = now.saturating_duration_since(own.at) / SLEW;
            wall.clamp(free.saturating_sub(most), free.saturating_add(most))
        });
        self.own = Some(Reading { time: own, at: now });
        let least = self.applied.map_or(Duration::ZERO, |applied| applied.after(now));
        stamp(own.max(least))
    }

    fn saw(&mut self, applied: Stamp, now: Instant) {
        let time = Duration::from_millis(applied.0);
        if self.applied.is_none_or(|before| before.after(now) < time) {
            self.applied = Some(Reading { time, at: now });
        }
    }
}

fn stamp(time: Duration) -> Stamp {
    Stamp(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// The clock of one node, shared by whoever stamps and whoever applies.
#[derive(Debug, Default)]
pub(crate) struct Stamps(Mutex<State>);

impl Stamps {
    /// The stamp of an entry proposed now.
    pub(crate) fn read(&self, now: Instant, wall: Stamp) -> Stamp {
        self.0.lock().read(now, wall)
    }

    /// An entry was applied, whoever stamped it.
    pub(crate) fn saw(&self, applied: Stamp, now: Instant) {
        self.0.lock().saw(applied, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_process_begins_with_the_wall_clock() {
        let mut state = State::default();
        assert_eq!(state.read(Instant::now(), Stamp(5 * HOUR)), Stamp(5 * HOUR));
    }

    #[test]
    fn a_wall_clock_that_is_set_forward_ends_nothing_early() {
        let (mut state, start) = (State::default(), Instant::now());
        state.read(start, Stamp(HOUR));
        assert_eq!(state.read(after(start, 2_000), Stamp(10 * HOUR)), Stamp(HOUR + 2_002));
    }

    #[test]
    fn a_wall_clock_that_is_set_back_does_not_stop_time() {
        let (mut state, start) = (State::default(), Instant::now());
        state.read(start, Stamp(10 * HOUR));
        assert_eq!(state.read(after(start, 2_000), Stamp(HOUR)), Stamp(10 * HOUR + 1_998));
    }

    #[test]
    fn a_small_difference_is_made_good_in_small_steps_too() {
        let (mut state, start) = (State::default(), Instant::now());
        state.read(start, Stamp(HOUR));
        let fast = |ms: u64| Stamp(HOUR + ms + 50);
        for ms in 1..=60_000 {
            state.read(after(start, ms), fast(ms));
        }
        assert_eq!(state.read(after(start, 60_000), fast(60_000)), fast(60_000));
    }

    #[test]
    fn after_a_leader_that_ran_ahead_time_goes_on_from_its_last_stamp() {
        let (mut state, start) = (State::default(), Instant::now());
        state.read(start, Stamp(HOUR));
        state.saw(Stamp(9 * HOUR), after(start, 1_000));
        assert_eq!(state.read(after(start, 4_000), Stamp(HOUR + 4_000)), Stamp(9 * HOUR + 3_000));
        // What comes late from the same leader takes nothing back.
        state.saw(Stamp(9 * HOUR + 500), after(start, 5_000));
        assert_eq!(state.read(after(start, 6_000), Stamp(HOUR + 6_000)), Stamp(9 * HOUR + 5_000));
    }
}
