//! Wait and hold times of locks, as recorded by this node: the busiest locks, and estimates for waiters.
//!
//! Counts start at zero when the node starts, and are halved every [`HALVE_INTERVAL`]. They are only informational. The hold
//! recorder writes them outside of the apply step.
//!
//! Bound: [`LOCKS_MAX`] locks. A further lock replaces the half with the shortest total waits.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use holdfast_types::{LockName, Stamp};
use parking_lot::Mutex;

const LOCKS_MAX: usize = 1_000;
const HALVE_INTERVAL: Duration = Duration::from_mins(10);
/// The first bucket ends at 1 ms, each further bucket at twice the previous end; the last has no end.
const BUCKETS: usize = 24;
/// The maximum number of recent holds that an estimate uses.
const RECENT: usize = 16;

/// Durations in buckets of doubling width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    buckets: [u32; BUCKETS],
    longest_ms: u64,
}

/// The expected wait of a waiter, from recent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEstimate {
    /// Milliseconds from now.
    pub ms: u64,
    /// The number of recent holds that the estimate uses.
    pub holds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockTimes {
    /// Waits that ended with a grant.
    pub waits: DurationHistogram,
    pub holds: DurationHistogram,
}

#[derive(Debug, Default)]
struct LockContention {
    times: LockTimes,
    /// Total milliseconds of waits, halved with the counts.
    waited_ms: u64,
    recent: [u64; RECENT],
    seen: usize,
}

#[derive(Debug)]
struct ContentionState {
    by_lock: HashMap<LockName, LockContention>,
    halved_at: Instant,
}

#[derive(Debug)]
pub(crate) struct Contention(Mutex<ContentionState>);

impl DurationHistogram {
    fn note(&mut self, ms: u64) {
        // 0 and 1 ms are in bucket 0, 2 ms in bucket 1, 3 and 4 ms in bucket 2, and so on.
        let log = ms.saturating_sub(1).checked_ilog2();
        let bucket = log.and_then(|log| usize::try_from(log + 1).ok()).unwrap_or(0);
        if let Some(count) = self.buckets.get_mut(bucket.min(BUCKETS - 1)) {
            *count = count.saturating_add(1);
        }
        self.longest_ms = self.longest_ms.max(ms);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|count| u64::from(*count)).sum()
    }

    pub fn longest_ms(&self) -> u64 {
        self.longest_ms
    }

    /// Returns the upper end of the bucket that contains this percentile, at most the longest duration.
    pub fn percentile_ms(&self, percent: u64) -> u64 {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut sum = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            sum += u64::from(*count);
            if sum >= wanted {
                return (1_u64 << bucket).min(self.longest_ms);
            }
        }
        self.longest_ms
    }

    fn halve(&mut self) {
        self.buckets.iter_mut().for_each(|count| *count /= 2);
    }
}

impl LockContention {
    /// Orders locks by their total wait, then by their number of holds.
    fn weight(&self) -> u64 {
        self.waited_ms.saturating_mul(1_000).saturating_add(self.times.holds.count())
    }
}

impl Default for Contention {
    fn default() -> Self {
        Self(Mutex::new(ContentionState { by_lock: HashMap::new(), halved_at: Instant::now() }))
    }
}

impl Contention {
    pub(crate) fn waited(&self, lock: &LockName, ms: u64) {
        self.0.lock().with(lock, |lock_times| {
            lock_times.times.waits.note(ms);
            lock_times.waited_ms = lock_times.waited_ms.saturating_add(ms.max(1));
        });
    }

    pub(crate) fn held(&self, lock: &LockName, ms: u64) {
        self.0.lock().with(lock, |lock_times| {
            lock_times.times.holds.note(ms);
            if let Some(slot) = lock_times.recent.get_mut(lock_times.seen % RECENT) {
                *slot = ms;
            }
            lock_times.seen += 1;
        });
    }

    /// Halves the counts if [`HALVE_INTERVAL`] has passed.
    pub(crate) fn halve_if_due(&self, now: Instant) {
        let mut inner = self.0.lock();
        if now.saturating_duration_since(inner.halved_at) >= HALVE_INTERVAL {
            inner.halved_at = now;
            inner.halve();
        }
    }

    pub(crate) fn of(&self, lock: &LockName) -> Option<LockTimes> {
        self.0.lock().by_lock.get(lock).map(|lock_times| lock_times.times.clone())
    }

    /// Returns the locks with the longest total waits, in descending order.
    pub(crate) fn busiest(&self, prefix: &str, count_max: usize) -> Vec<LockName> {
        let inner = self.0.lock();
        let of_prefix = inner.by_lock.iter().filter(|(lock, _)| lock.as_str().starts_with(prefix));
        let mut busiest: Vec<_> =
            of_prefix.map(|(lock, times)| Reverse((times.weight(), lock))).collect();
        busiest.sort_unstable();
        busiest.into_iter().take(count_max).map(|Reverse((_, lock))| lock.clone()).collect()
    }

    /// Returns the expected wait at a position if every hold lasts as long as the mean of the recent holds.
    pub(crate) fn estimate(
        &self,
        lock: &LockName,
        position: u32,
        held_since: Option<(Stamp, Stamp)>,
    ) -> Option<WaitEstimate> {
        let inner = self.0.lock();
        let lock_times = inner.by_lock.get(lock).filter(|lock_times| lock_times.seen > 0)?;
        let known = lock_times.seen.min(RECENT);
        let sum: u64 = lock_times.recent.iter().take(known).sum();
        let known = u32::try_from(known).unwrap_or(1);
        let mean = sum / u64::from(known);
        let held_ms = held_since.map_or(0, |(since, now)| now.0.saturating_sub(since.0));
        let before = u64::from(position.saturating_sub(1));
        let ms = mean.saturating_mul(before).saturating_add(mean.saturating_sub(held_ms));
        Some(WaitEstimate { ms, holds: known })
    }
}

impl ContentionState {
    fn with(&mut self, lock: &LockName, change: impl FnOnce(&mut LockContention)) {
        if let Some(lock_times) = self.by_lock.get_mut(lock) {
            return change(lock_times);
        }
        if self.by_lock.len() >= LOCKS_MAX {
            self.forget_half();
        }
        change(self.by_lock.entry(lock.clone()).or_default());
    }

    /// Keeps the half with the longest total waits.
    fn forget_half(&mut self) {
        let mut locks: Vec<_> = self.by_lock.drain().collect();
        locks.sort_by_cached_key(|(_, lock_times)| Reverse(lock_times.weight()));
        locks.truncate(LOCKS_MAX / 2);
        self.by_lock.extend(locks);
    }

    fn halve(&mut self) {
        self.by_lock.retain(|_, lock_times| {
            lock_times.times.waits.halve();
            lock_times.times.holds.halve();
            lock_times.waited_ms /= 2;
            lock_times.weight() > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn percentiles_are_the_upper_ends_of_buckets() {
        let mut times = DurationHistogram::default();
        (0..98).for_each(|_| times.note(3));
        times.note(700);
        times.note(900);
        assert_eq!(times.count(), 100);
        assert_eq!(times.percentile_ms(50), 4);
        assert_eq!(times.percentile_ms(99), 900);
        assert_eq!(times.longest_ms(), 900);
        assert_eq!(DurationHistogram::default().percentile_ms(99), 0);
        for (ms, end) in [(0, 0), (1, 1), (2, 2), (4, 4), (5, 5), (u64::MAX, 1 << 23)] {
            let mut one = DurationHistogram::default();
            one.note(ms);
            assert_eq!(one.percentile_ms(50), end, "{ms}");
        }
    }

    #[test]
    fn the_locks_with_the_longest_waits_come_first_and_are_kept() {
        let contention = Contention::default();
        for number in 0..2 * LOCKS_MAX {
            contention.held(&lock(&format!("quiet-{number}")), 5);
        }
        contention.waited(&lock("hot"), 50);
        contention.waited(&lock("hotter"), 80);
        for number in 0..2 * LOCKS_MAX {
            contention.held(&lock(&format!("new-{number}")), 5);
        }
        assert!(contention.0.lock().by_lock.len() <= LOCKS_MAX);
        assert_eq!(contention.busiest("hot", 10), [lock("hotter"), lock("hot")]);
    }

    #[test]
    fn an_estimate_counts_the_waiters_ahead_and_the_rest_of_the_current_hold() {
        let contention = Contention::default();
        assert_eq!(contention.estimate(&lock("a"), 1, None), None);
        contention.held(&lock("a"), 100);
        contention.held(&lock("a"), 300);
        let since = Some((Stamp(1_000), Stamp(1_150)));
        let estimate = contention.estimate(&lock("a"), 3, since);
        assert_eq!(estimate, Some(WaitEstimate { ms: 450, holds: 2 }));
        let overdue = Some((Stamp(1_000), Stamp(9_000)));
        assert_eq!(contention.estimate(&lock("a"), 1, overdue).unwrap().ms, 0);
    }

    #[test]
    fn a_lock_without_new_holds_is_removed() {
        let contention = Contention::default();
        contention.held(&lock("a"), 100);
        let later = Instant::now() + HALVE_INTERVAL;
        contention.halve_if_due(later);
        assert_eq!(contention.of(&lock("a")), None);
    }
}
