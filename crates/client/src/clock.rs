//! Moments on a clock that goes on while the machine sleeps.
//!
//! Owns the reading of that clock, and nothing is decided here. A lease goes on at the server while a laptop lid is
//! closed or a virtual machine is suspended, but `std::time::Instant` stands still then on Linux; so deadlines are
//! counted on `CLOCK_BOOTTIME`. Timers still use the runtime's clock, and whoever wakes looks here before it believes.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often a program that waits for a deadline looks at the clock, because timers stand still in a suspension.
pub(crate) const CLOCK_CHECK: Duration = Duration::from_millis(500);
/// The two clocks are read one after the other: this much apart they show no suspension.
const READING: Duration = Duration::from_millis(20);

/// The clock that goes on in a suspension, and the one of the timers, read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    moment: Moment,
    monotonic: Instant,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        Self { moment: Moment::now(), monotonic: Instant::now() }
    }

    /// Whether the machine was suspended between the two readings.
    pub(crate) fn is_after_suspension(self, before: Self) -> bool {
        let passed = self.moment.left(before.moment);
        passed > self.monotonic.saturating_duration_since(before.monotonic) + READING
    }
}

/// A point in time of this machine, comparable only with others of the same machine since its last start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self(since_boot().unwrap_or_else(since_first_use))
    }

    /// The moment so long after the clock's origin: for tests, and to hand a moment to another process.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's origin this is.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// So much later; the end of time if that is too far.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// So much earlier; the origin if that is too far.
    #[must_use]
    pub const fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }

    /// What is left from `now` until this moment; zero if it has passed.
    pub const fn left(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Option<Duration> {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_BOOTTIME).ok().map(Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<Duration> {
    None
}

/// Where there is no such clock: the monotonic one.
fn since_first_use() -> Duration {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_go_back() {
        let before = Moment::now();
        let after = Moment::now();
        assert!(after >= before);
        assert_eq!(before.left(after), Duration::ZERO);
    }

    #[test]
    fn a_suspension_is_where_the_clock_of_the_timers_is_held_back() {
        let before = Clocks::now();
        let after = |moment: u64, monotonic: u64| Clocks {
            moment: before.moment.plus(Duration::from_millis(moment)),
            monotonic: before.monotonic + Duration::from_millis(monotonic),
        };
        assert!(!after(500, 500).is_after_suspension(before));
        assert!(!after(515, 500).is_after_suspension(before), "read one after the other");
        assert!(!after(500, 515).is_after_suspension(before));
        assert!(after(9_000, 500).is_after_suspension(before));
    }

    #[test]
    fn what_is_left_is_counted_from_now() {
        let now = Moment::from_origin(Duration::from_secs(100));
        assert_eq!(now.plus(Duration::from_secs(3)).left(now), Duration::from_secs(3));
        assert_eq!(now.minus(Duration::from_secs(3)).left(now), Duration::ZERO);
        assert_eq!(now.plus(Duration::MAX).since_origin(), Duration::MAX);
    }
}
