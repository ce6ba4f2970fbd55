//! Moments on a clock that also advances while the machine is suspended.
//!
//! The server keeps counting a lease while a laptop or a virtual machine is suspended. On Linux, `std::time::Instant`
//! stands still then. Deadlines therefore use `CLOCK_BOOTTIME`. Timers use the runtime's clock, so a task that wakes
//! compares its deadline with [`Moment::now`].

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The interval at which a task compares a deadline with the clock, because timers stand still during a suspension.
pub(crate) const CLOCK_CHECK: Duration = Duration::from_millis(500);
/// The two clocks are read in sequence, so a smaller difference shows no suspension.
const READ_GAP: Duration = Duration::from_millis(20);

/// Returns the end of a time limit that begins now, at most ten years later: `Duration::MAX` would overflow the clock.
pub(crate) fn end_of(limit: Duration) -> Instant {
    Instant::now() + limit.min(Duration::from_hours(24 * 3_650))
}

/// The clock that advances during a suspension, and the clock of the timers.
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
        passed > self.monotonic.saturating_duration_since(before.monotonic) + READ_GAP
    }
}

/// A point in time. Comparable only with moments of the same machine since its last boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Reads the clock.
    pub fn now() -> Self {
        Self(since_boot().unwrap_or_else(since_first_use))
    }

    /// Returns the moment `since` after the clock's origin: for tests, and to pass a moment to another process.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Returns a later moment; saturates.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// Returns an earlier moment; saturates at the origin.
    #[must_use]
    pub const fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }

    /// The time from `now` until this moment; zero if it has passed.
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

/// The monotonic clock, for systems without `CLOCK_BOOTTIME`.
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
    fn a_suspension_holds_back_the_clock_of_the_timers() {
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
    fn the_time_left_counts_from_now() {
        let now = Moment::from_origin(Duration::from_secs(100));
        assert_eq!(now.plus(Duration::from_secs(3)).left(now), Duration::from_secs(3));
        assert_eq!(now.minus(Duration::from_secs(3)).left(now), Duration::ZERO);
        assert_eq!(now.plus(Duration::MAX).since_origin(), Duration::MAX);
    }
}
