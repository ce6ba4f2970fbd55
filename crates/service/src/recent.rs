//! The figures of this node in the last quarter of an hour, for readers without a monitoring system.
//!
//! Once a second, `recent_sampler` copies the counters of the metrics and the sizes of the state into a row. Nothing else counts or
//! writes figures, so they cost a call nothing. Bound: [`ROWS_MAX`] rows of one value for each [`RecentMetric`], about 108 KiB.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use holdfast_types::{RecentMetric, RecentUnit, Stamp};
use parking_lot::Mutex;

use crate::metrics::SecondsCounts;

/// The time between two rows.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// One value for each [`RecentMetric`], in their order; `None` without a measurement.
type FigureRow = [Option<u32>; RecentMetric::ALL.len()];
/// The number of rows: a quarter of an hour.
const ROWS_MAX: usize = 900;

/// The counters and sizes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FigureReading {
    pub(crate) grants: u64,
    pub(crate) holds_ended: u64,
    pub(crate) sessions_expired: u64,
    pub(crate) acquires_busy: u64,
    pub(crate) acquires_timed_out: u64,
    pub(crate) keepalives: u64,
    pub(crate) log_entries: u64,
    pub(crate) locks_held: u64,
    pub(crate) lock_waiters: u64,
    pub(crate) sessions: u64,
    pub(crate) parked_calls: u64,
    pub(crate) waits: SecondsCounts,
    pub(crate) holds: SecondsCounts,
}

/// The newest rows.
#[derive(Debug, Default)]
pub(crate) struct RecentRows(Mutex<RowsState>);

#[derive(Debug, Default)]
struct RowsState {
    /// The oldest first.
    rows: VecDeque<FigureRow>,
    last: Option<(Instant, Stamp, FigureReading)>,
}

/// The values of one figure, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentValues {
    pub metric: RecentMetric,
    /// `None` where this node has no value: it did not run, was paused, or nothing of the kind happened.
    pub values: Vec<Option<u32>>,
}

/// The figures of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentFigures {
    /// The wall clock at the newest value; `None` before the first.
    pub ends_at: Option<Stamp>,
    pub figures: Vec<RecentValues>,
}

impl FigureReading {
    fn value(&self, metric: RecentMetric, before: &Self, passed: Duration) -> Option<u32> {
        let rate = |now: u64, before: u64| {
            let (events, ms) = (u128::from(now.saturating_sub(before)), passed.as_millis().max(1));
            Some((events * 1_000 + ms / 2) / ms)
        };
        let count = |count: u64| Some(u128::from(count));
        let percentile = |now: &SecondsCounts, before: &SecondsCounts, percent| {
            now.since(before).percentile_ms(percent).map(u128::from)
        };
        let value = match metric {
            RecentMetric::Grants => rate(self.grants, before.grants),
            RecentMetric::HoldsEnded => rate(self.holds_ended, before.holds_ended),
            RecentMetric::SessionsExpired => rate(self.sessions_expired, before.sessions_expired),
            RecentMetric::AcquiresBusy => rate(self.acquires_busy, before.acquires_busy),
            RecentMetric::AcquiresTimedOut => {
                rate(self.acquires_timed_out, before.acquires_timed_out)
            }
            RecentMetric::Keepalives => rate(self.keepalives, before.keepalives),
            RecentMetric::LogEntries => rate(self.log_entries, before.log_entries),
            RecentMetric::LocksHeld => count(self.locks_held),
            RecentMetric::LockWaiters => count(self.lock_waiters),
            RecentMetric::Sessions => count(self.sessions),
            RecentMetric::ParkedCalls => count(self.parked_calls),
            RecentMetric::WaitP50 => percentile(&self.waits, &before.waits, 50),
            RecentMetric::WaitP99 => percentile(&self.waits, &before.waits, 99),
            RecentMetric::HoldP50 => percentile(&self.holds, &before.holds, 50),
            RecentMetric::HoldP99 => percentile(&self.holds, &before.holds, 99),
        };
        value.map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    }
}

impl RecentRows {
    /// Adds a row from a reading at `now`. Seconds without a reading become rows without values.
    pub(crate) fn add(&self, reading: FigureReading, now: Instant, wall: Stamp) {
        let RowsState { rows, last } = &mut *self.0.lock();
        if let Some((at, _, before)) = last {
            let passed = now.saturating_duration_since(*at);
            let seconds = (passed + INTERVAL / 2).as_secs();
            let missed = usize::try_from(seconds.saturating_sub(1)).unwrap_or(ROWS_MAX);
            rows.extend(std::iter::repeat_n(FigureRow::default(), missed.min(ROWS_MAX)));
            rows.push_back(RecentMetric::ALL.map(|metric| reading.value(metric, before, passed)));
        }
        *last = Some((now, wall, reading));
        rows.drain(..rows.len().saturating_sub(ROWS_MAX));
    }

    /// Returns the values of the newest `rows_max` rows. A value stands for `step` rows: the mean of a rate, the largest of
    /// other figures.
    pub(crate) fn read(
        &self,
        metrics: &[RecentMetric],
        rows_max: usize,
        step: usize,
    ) -> RecentFigures {
        let state = self.0.lock();
        let skipped = state.rows.len().saturating_sub(rows_max);
        let rows: Vec<&FigureRow> = state.rows.iter().skip(skipped).collect();
        let figures = metrics.iter().map(|metric| {
            let values = rows.rchunks(step.max(1)).rev().map(|rows| joined(*metric, rows));
            RecentValues { metric: *metric, values: values.collect() }
        });
        RecentFigures {
            ends_at: state.last.as_ref().map(|(_, wall, _)| *wall),
            figures: figures.collect(),
        }
    }
}

/// The value of one figure for several rows.
fn joined(metric: RecentMetric, rows: &[&FigureRow]) -> Option<u32> {
    let column = RecentMetric::ALL.iter().position(|of| *of == metric)?;
    let values = rows.iter().filter_map(|row| *row.get(column)?);
    match metric.unit() {
        RecentUnit::Count | RecentUnit::Milliseconds => values.max(),
        RecentUnit::PerSecond => {
            let count = u64::try_from(values.clone().count()).unwrap_or(u64::MAX);
            let sum: u64 = values.map(u64::from).sum();
            u32::try_from((sum + count / 2).checked_div(count)?).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(
        rows: &RecentRows,
        metric: RecentMetric,
        rows_max: usize,
        step: usize,
    ) -> Vec<Option<u32>> {
        rows.read(&[metric], rows_max, step).figures.remove(0).values
    }

    /// One reading each second, with these numbers of grants.
    fn readings(grants: &[u64]) -> RecentRows {
        let (rows, start) = (RecentRows::default(), Instant::now());
        for (second, grants) in (0_u32..).zip(grants) {
            let reading =
                FigureReading { grants: *grants, locks_held: *grants, ..FigureReading::default() };
            rows.add(reading, start + INTERVAL * second, Stamp(u64::from(second)));
        }
        rows
    }

    #[test]
    fn a_rate_is_the_difference_of_two_readings_and_a_count_is_the_last_one() {
        let rows = readings(&[5, 7, 7, 1_000]);
        assert_eq!(values(&rows, RecentMetric::Grants, 900, 1), [Some(2), Some(0), Some(993)]);
        assert_eq!(values(&rows, RecentMetric::LocksHeld, 2, 1), [Some(7), Some(1_000)]);
        assert_eq!(rows.read(&RecentMetric::ALL, 900, 1).ends_at, Some(Stamp(3)));
        assert_eq!(values(&readings(&[5]), RecentMetric::Grants, 900, 1), [], "no rate yet");
    }

    #[test]
    fn a_step_joins_the_newest_rows_by_the_mean_of_rates_and_the_largest_count() {
        let rows = readings(&[0, 4, 4, 6, 9, 10]);
        assert_eq!(values(&rows, RecentMetric::Grants, 900, 2), [Some(4), Some(1), Some(2)]);
        assert_eq!(values(&rows, RecentMetric::LocksHeld, 900, 2), [Some(4), Some(6), Some(10)]);
    }

    #[test]
    fn a_second_without_a_reading_has_no_value_and_rates_count_the_whole_gap() {
        let (rows, start) = (RecentRows::default(), Instant::now());
        for (ms, grants) in [(0, 0), (1_000, 10), (4_000, 40), (4_990, 139)] {
            let at = start + Duration::from_millis(ms);
            rows.add(FigureReading { grants, ..FigureReading::default() }, at, Stamp(ms));
        }
        let expected = [Some(10), None, None, Some(10), Some(100)];
        assert_eq!(values(&rows, RecentMetric::Grants, 900, 1), expected);
        assert_eq!(values(&rows, RecentMetric::Grants, 900, 3), [Some(10), Some(55)]);
    }

    #[test]
    fn the_rows_have_a_bound_even_after_a_long_pause() {
        let (rows, start) = (RecentRows::default(), Instant::now());
        rows.add(FigureReading::default(), start, Stamp(0));
        rows.add(FigureReading::default(), start + Duration::from_hours(24), Stamp(1));
        assert_eq!(values(&rows, RecentMetric::Grants, usize::MAX, 1).len(), ROWS_MAX);
        assert!(size_of::<FigureRow>() * ROWS_MAX <= 108 * 1_000, "the bound in the documents");
    }

    #[test]
    fn a_percentile_is_that_of_the_waits_in_the_second() {
        let (rows, start) = (RecentRows::default(), Instant::now());
        let seconds = crate::metrics::Seconds::default();
        for (second, waits) in (0_u32..).zip([vec![1_000_000], vec![200; 100], vec![]]) {
            for ms in waits {
                seconds.note_ms(ms);
            }
            let reading = FigureReading { waits: seconds.counts(), ..FigureReading::default() };
            rows.add(reading, start + INTERVAL * second, Stamp(0));
        }
        let p50 = values(&rows, RecentMetric::WaitP50, 900, 1);
        assert_eq!(p50, [Some(300), None], "the middle of the bucket from 100 to 500 ms");
    }
}
