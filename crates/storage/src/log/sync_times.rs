//! How long the syncs of the log take: a histogram since the start, and the slow ones of the last minute.
//!
//! Bound: [`SLOTS`] slots of [`SLOT`] each; a new slot replaces the oldest.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds of the buckets of every latency histogram of a node, seconds: from 100 µs to 30 s.
pub const LATENCY_BUCKETS: [f64; 17] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// A sync that takes longer is slow.
pub const SLOW_SYNC: Duration = Duration::from_millis(50);

const SLOTS: usize = 6;
const SLOT: Duration = Duration::from_secs(10);

/// The syncs of the last minute, in steps of ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentSyncs {
    pub count: u64,
    /// The syncs that took longer than [`SLOW_SYNC`].
    pub slow: u64,
}

pub(super) struct SyncTimes {
    pub(super) seconds: Histogram,
    start: Instant,
    /// Each slot has its number, counted from `start`.
    slots: Mutex<[(u64, RecentSyncs); SLOTS]>,
}

impl SyncTimes {
    pub(super) fn new() -> Self {
        Self {
            seconds: Histogram::new(LATENCY_BUCKETS),
            start: Instant::now(),
            slots: Mutex::default(),
        }
    }

    /// Records a sync that has just ended.
    pub(super) fn observe(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
        self.observe_at(Instant::now(), took);
    }

    fn observe_at(&self, now: Instant, took: Duration) {
        let number = self.number(now);
        let mut slots = self.slots.lock();
        let slot = &mut slots[usize::try_from(number % SLOTS as u64).unwrap_or_default()];
        if slot.0 != number {
            *slot = (number, RecentSyncs::default());
        }
        slot.1.count += 1;
        slot.1.slow += u64::from(took > SLOW_SYNC);
    }

    pub(super) fn recent(&self) -> RecentSyncs {
        self.recent_at(Instant::now())
    }

    fn recent_at(&self, now: Instant) -> RecentSyncs {
        let number = self.number(now);
        let slots = *self.slots.lock();
        let recent = slots.iter().filter(|(slot, _)| slot + SLOTS as u64 > number);
        recent.fold(RecentSyncs::default(), |sum, (_, slot)| RecentSyncs {
            count: sum.count + slot.count,
            slow: sum.slow + slot.slow,
        })
    }

    fn number(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs() / SLOT.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_syncs_are_forgotten_after_a_minute() {
        let times = SyncTimes::new();
        let at = |seconds| times.start + Duration::from_secs(seconds);
        times.observe_at(at(1), Duration::from_millis(51));
        times.observe_at(at(1), SLOW_SYNC);
        times.observe_at(at(45), Duration::from_millis(2));
        assert_eq!(times.recent_at(at(59)), RecentSyncs { count: 3, slow: 1 });
        assert_eq!(times.recent_at(at(61)), RecentSyncs { count: 1, slow: 0 });
        times.observe_at(at(62), Duration::from_secs(1));
        assert_eq!(times.recent_at(at(62)), RecentSyncs { count: 2, slow: 1 });
        assert_eq!(times.recent_at(at(600)), RecentSyncs::default());
    }
}
