//! What a client counts, and what becomes of the counts of all.
//!
//! Owns the histogram: microseconds up to ten minutes with three significant digits, what is longer counts as ten
//! minutes; memory grows with what is recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::LockUsage;
use hdrhistogram::Histogram;

use crate::record::Measured;
use crate::statistics::{number, per};

const MICROS_MAX: u64 = 600_000_000;
const DIGITS: u8 = 3;
/// Less processor time than this, seconds, cannot be told from the kernel's ticks of 10 ms.
const PROCESSOR_MIN: f64 = 0.05;

/// Counts of one client, or of all.
#[derive(Debug)]
pub(super) struct Counts {
    times: Histogram<u32>,
    /// Cycles that ended in the window.
    pub(super) ended: u64,
    /// Acquires whose usage is in `usage`.
    acquires: u64,
    usage: LockUsage,
    /// Grants while another client believed to hold.
    pub(super) overlaps: u64,
    /// Cycles of the open loop that were given up.
    unserved: u64,
    errors: BTreeMap<String, u64>,
}

impl Counts {
    /// None yet.
    pub(super) fn new() -> Result<Self, String> {
        let times = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS);
        Ok(Self {
            times: times.map_err(|error| error.to_string())?,
            ended: 0,
            acquires: 0,
            usage: LockUsage::default(),
            overlaps: 0,
            unserved: 0,
            errors: BTreeMap::new(),
        })
    }

    /// A cycle that counts, and how long it took.
    pub(super) fn cycle(&mut self, took: Duration) {
        self.times.saturating_record(micros(took));
    }

    /// An acquire that counts, by what the client had done before and after.
    pub(super) fn acquire(&mut self, before: LockUsage, after: LockUsage) {
        self.acquires += 1;
        self.usage.round_trips += after.round_trips.saturating_sub(before.round_trips);
        self.usage.polls += after.polls.saturating_sub(before.polls);
        self.usage.wakeups += after.wakeups.saturating_sub(before.wakeups);
    }

    /// A cycle of the open loop that was given up when it had taken so long: a quantile must not be better for it.
    pub(super) fn gave_up(&mut self, so_far: Duration) {
        self.unserved += 1;
        self.cycle(so_far);
    }

    /// An error of this kind.
    pub(super) fn error(&mut self, kind: &str) {
        *self.errors.entry(kind.to_owned()).or_default() += 1;
    }

    /// And those of another client.
    pub(super) fn add(&mut self, other: &Self) -> Result<(), String> {
        self.times.add(&other.times).map_err(|error| error.to_string())?;
        self.ended += other.ended;
        self.acquires += other.acquires;
        self.usage.round_trips += other.usage.round_trips;
        self.usage.polls += other.usage.polls;
        self.usage.wakeups += other.usage.wakeups;
        self.overlaps += other.overlaps;
        self.unserved += other.unserved;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }

    /// What they say about a window of this length, in which so many cycles were scheduled (0 in the closed loop) and
    /// the servers used so much of the processor.
    pub(super) fn measured(
        &self,
        window: Duration,
        scheduled: u64,
        processor_seconds: Option<f64>,
    ) -> Measured {
        let ms = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1_000.0;
        let at = |quantile| ms(self.times.value_at_quantile(quantile));
        let each = |count: u64| per(number(count), number(self.acquires));
        let seconds = window.as_secs_f64();
        Measured {
            seconds,
            cycles: self.times.len() - self.unserved,
            per_second: per(number(self.ended), seconds).unwrap_or(0.0),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: ms(self.times.max()),
            round_trips: each(self.usage.round_trips),
            polls: each(self.usage.polls),
            wakeups: each(self.usage.wakeups),
            cpu_seconds: processor_seconds
                .filter(|seconds| *seconds >= PROCESSOR_MIN)
                .and_then(|seconds| per(seconds * 1_000.0, number(self.ended))),
            overlaps: self.overlaps,
            scheduled,
            unserved: self.unserved,
            errors: self.errors.clone(),
        }
    }
}

/// Rounded up: what took time took some.
fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(2);

    fn counts(millis: impl IntoIterator<Item = u64>) -> Counts {
        let mut counts = Counts::new().unwrap();
        for took in millis {
            counts.cycle(Duration::from_millis(took));
            counts.ended += 1;
        }
        counts
    }

    #[test]
    fn counts_of_two_clients_are_those_of_both() {
        let mut all = counts(1..=50);
        let mut other = counts(51..=100);
        other.error("busy");
        other.acquire(LockUsage::default(), LockUsage { round_trips: 3, polls: 1, wakeups: 2 });
        all.add(&other).unwrap();
        let measured = all.measured(WINDOW, 0, Some(0.5));
        assert_eq!((measured.cycles, measured.errors["busy"]), (100, 1));
        assert!((measured.per_second - 50.0).abs() < 1e-9);
        assert!((measured.p50_ms / 50.0 - 1.0).abs() < 0.01, "{measured:?}");
        assert!((measured.p99_ms / 99.0 - 1.0).abs() < 0.01, "{measured:?}");
        assert_eq!((measured.round_trips, measured.polls), (Some(3.0), Some(1.0)));
        assert!((measured.cpu_seconds.unwrap() - 5.0).abs() < 1e-9, "0.5 s for 100 cycles");
    }

    #[test]
    fn what_was_given_up_is_no_cycle_but_makes_the_quantiles_worse() {
        let mut counts = counts((0..90).map(|_| 1));
        for _ in 0..10 {
            counts.gave_up(Duration::from_secs(3));
        }
        let measured = counts.measured(WINDOW, 100, None);
        assert_eq!((measured.cycles, measured.unserved, measured.scheduled), (90, 10, 100));
        assert!(measured.p99_ms >= 3_000.0 && measured.p50_ms < 2.0, "{measured:?}");
    }

    #[test]
    fn nothing_measured_is_no_ratio() {
        let measured = Counts::new().unwrap().measured(WINDOW, 0, Some(1.0));
        assert_eq!((measured.round_trips, measured.cpu_seconds), (None, None));
        assert_eq!(counts([1]).measured(WINDOW, 0, Some(0.01)).cpu_seconds, None, "one tick");
    }
}
