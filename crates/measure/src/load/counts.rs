//! The counts of a client of the load generator, and their sum over all clients.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::{Counter, Histogram};

use super::LoadPhase;

/// Creates a histogram of microseconds with three significant digits. Times above ten minutes count as ten minutes.
///
/// # Errors
/// Never in practice: the bounds are constants.
pub fn load_histogram<C: Counter>() -> Result<Histogram<C>, String> {
    Histogram::new_with_bounds(1, 600_000_000, 3).map_err(|error| error.to_string())
}

/// The requests that a client has caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadUsage {
    /// Requests to servers. A request to several servers counts once for each.
    pub round_trips: u64,
    /// Attempts that found the lock held.
    pub polls: u64,
    /// Times that a server woke the client, with or without the lock.
    pub wakeups: u64,
}

impl LoadUsage {
    fn add(&mut self, more: Self) {
        self.round_trips += more.round_trips;
        self.polls += more.polls;
        self.wakeups += more.wakeups;
    }

    fn since(self, before: Self) -> Self {
        Self {
            round_trips: self.round_trips.saturating_sub(before.round_trips),
            polls: self.polls.saturating_sub(before.polls),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

#[derive(Debug)]
pub struct LoadCounts {
    /// Times of cycles that began while the load was measured, microseconds; in an open loop from the scheduled start.
    pub times: Histogram<u32>,
    /// The same for [`LoadPhase::Separate`].
    pub separate_times: Histogram<u32>,
    /// Cycles that ended while the load was measured.
    pub ended: u64,
    /// Acquires whose cost is in `usage`.
    pub acquires: u64,
    pub usage: LoadUsage,
    /// Cycles that an open loop scheduled in its window.
    pub scheduled: u64,
    /// Cycles that were abandoned or failed. `times` has their time until then.
    pub abandoned: u64,
    pub errors: BTreeMap<String, u64>,
}

impl LoadCounts {
    /// # Errors
    /// As [`load_histogram`].
    pub fn new() -> Result<Self, String> {
        Ok(Self {
            times: load_histogram()?,
            separate_times: load_histogram()?,
            ended: 0,
            acquires: 0,
            usage: LoadUsage::default(),
            scheduled: 0,
            abandoned: 0,
            errors: BTreeMap::new(),
        })
    }

    /// Records a cycle of a closed loop by the phases at its start and its end.
    pub(super) fn end(&mut self, before: LoadPhase, after: LoadPhase, took: Duration) {
        match (before, after) {
            (LoadPhase::Separate, LoadPhase::Separate | LoadPhase::Measuring)
            | (_, LoadPhase::Separate) => self.separate_times.saturating_record(micros(took)),
            // A cycle that began in the window counts when it ends later, too: otherwise the longest would be left out.
            (LoadPhase::Measuring, _) => self.time(took),
            (LoadPhase::Warming | LoadPhase::Separate | LoadPhase::Ending, _) => {}
        }
        let began_apart = before == LoadPhase::Separate;
        self.ended += u64::from(after == LoadPhase::Measuring && !began_apart);
    }

    pub(super) fn time(&mut self, took: Duration) {
        self.times.saturating_record(micros(took));
    }

    pub(super) fn acquire(&mut self, before: LoadUsage, after: LoadUsage) {
        self.acquires += 1;
        self.usage.add(after.since(before));
    }

    /// Records an abandoned cycle with its time so far, because omitting it would improve the quantiles.
    pub(super) fn abandon(&mut self, so_far: Duration) {
        self.abandoned += 1;
        self.time(so_far);
    }

    pub(super) fn error(&mut self, kind: &str) {
        *self.errors.entry(kind.to_owned()).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<(), String> {
        self.times.add(&other.times).map_err(|error| error.to_string())?;
        self.separate_times.add(&other.separate_times).map_err(|error| error.to_string())?;
        self.ended += other.ended;
        self.acquires += other.acquires;
        self.usage.add(other.usage);
        self.abandoned += other.abandoned;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }
}

/// Rounds up, to at least 1 µs.
fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(millis: impl IntoIterator<Item = u64>) -> LoadCounts {
        let mut counts = LoadCounts::new().unwrap();
        for took in millis {
            let measuring = LoadPhase::Measuring;
            counts.end(measuring, measuring, Duration::from_millis(took));
        }
        counts
    }

    #[test]
    fn the_sum_over_two_clients_has_the_cycles_of_both() {
        let (mut all, mut other) = (counts(1..=50), counts(51..=100));
        other.error("busy");
        let usage = LoadUsage { round_trips: 3, polls: 1, wakeups: 2 };
        other.acquire(LoadUsage::default(), usage);
        all.add(&other).unwrap();
        assert_eq!((all.ended, all.times.len(), all.errors["busy"]), (100, 100, 1));
        assert_eq!((all.acquires, all.usage), (1, usage));
        assert!(all.times.value_at_quantile(0.5).abs_diff(50_000) < 500);
    }

    #[test]
    fn an_abandoned_cycle_makes_the_quantiles_worse() {
        let mut counts = counts((0..90).map(|_| 1));
        for _ in 0..10 {
            counts.abandon(Duration::from_secs(3));
        }
        assert_eq!((counts.ended, counts.abandoned), (90, 10));
        assert!(counts.times.value_at_quantile(0.99) >= 2_900_000);
    }

    #[test]
    fn a_cycle_counts_for_the_phases_that_it_touches() {
        use LoadPhase::{Ending, Measuring, Separate, Warming};
        // Whether its time counts, whether it counts apart, and whether it counts for the rate.
        for (before, after, expected) in [
            (Warming, Warming, (0, 0, 0)),
            (Warming, Measuring, (0, 0, 1)),
            (Warming, Ending, (0, 0, 0)),
            (Measuring, Measuring, (1, 0, 1)),
            (Measuring, Ending, (1, 0, 0)),
            (Measuring, Separate, (0, 1, 0)),
            (Separate, Separate, (0, 1, 0)),
            (Separate, Measuring, (0, 1, 0)),
            (Separate, Ending, (0, 0, 0)),
        ] {
            let mut counts = LoadCounts::new().unwrap();
            counts.end(before, after, Duration::from_millis(1));
            let found = (counts.times.len(), counts.separate_times.len(), counts.ended);
            assert_eq!(found, expected, "{before:?} to {after:?}");
        }
    }
}
