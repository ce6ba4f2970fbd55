//! Quantiles, spreads, ratios and inversions. No function omits a value: an outlier is in the spread.

use serde::{Deserialize, Serialize};

/// The median, minimum and maximum of some repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// For an even number of values, the mean of the middle two.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub count: usize,
}

impl Spread {
    /// Computes the spread; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (lower, upper) = (sorted.get((sorted.len() - 1) / 2)?, sorted.get(sorted.len() / 2)?);
        Some(Self { median: f64::midpoint(*lower, *upper), min, max, count: sorted.len() })
    }

    /// Returns `true` if every value is greater than every value of the other.
    pub fn is_above(&self, other: &Self) -> bool {
        self.min > other.max
    }
}

/// Returns a quantile by the nearest rank; 0 without values.
pub fn quantile(values: &[f64], quantile: f64) -> f64 {
    let sorted = sorted(values);
    let ranks = sorted.iter().zip(1_u32..);
    let all = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
    let reached = ranks.filter(|(_, rank)| f64::from(*rank) >= (quantile * all).ceil());
    reached.map(|(value, _)| *value).next().or(sorted.last().copied()).unwrap_or(0.0)
}

/// Counts the pairs that are not in the order of their numbers.
pub fn inversions(order: &[u32]) -> u64 {
    let later = |at: usize| order.get(at + 1..).unwrap_or_default();
    let behind = order.iter().enumerate().map(|(at, first)| {
        let smaller = later(at).iter().filter(|second| *second < first);
        u64::try_from(smaller.count()).unwrap_or(u64::MAX)
    });
    behind.sum()
}

/// Returns the number of pairs of `count` values.
pub fn pairs(count: u32) -> u64 {
    u64::from(count) * u64::from(count.saturating_sub(1)) / 2
}

/// Returns a ratio; `None` if the whole is zero.
pub fn per(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts are far below 2^53, and are shown with few digits"
)]
pub fn number(count: u64) -> f64 {
    count as f64
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (at, expected) in [(0.5, 50.0), (0.99, 99.0), (0.999, 100.0), (1.0, 100.0), (0.0, 1.0)]
        {
            assert!((quantile(&hundred, at) - expected).abs() < f64::EPSILON, "{at}");
        }
        assert!(quantile(&[], 0.5).abs() < f64::EPSILON);
        assert!((quantile(&[7.0], 0.001) - 7.0).abs() < f64::EPSILON);
    }

    #[test]
    fn inversions_are_counted_in_pairs() {
        for (order, expected) in [
            (&[0, 1, 2, 3][..], 0),
            (&[1, 0, 2, 3], 1),
            (&[3, 2, 1, 0], 6),
            (&[1, 2, 3, 0], 3),
            (&[], 0),
        ] {
            assert_eq!(inversions(order), expected, "{order:?}");
        }
        assert_eq!([pairs(4), pairs(16), pairs(1), pairs(0)], [6, 120, 0, 0]);
    }

    #[test]
    fn a_ratio_to_zero_is_none() {
        assert_eq!(per(1.0, 0.0), None);
        assert_eq!(per(1.0, 4.0), Some(0.25));
    }

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        let odd = Spread::of(&[3.0, 1.0, 100.0]).unwrap();
        assert_eq!(odd, Spread { median: 3.0, min: 1.0, max: 100.0, count: 3 });
        assert!((Spread::of(&[4.0, 1.0, 2.0, 9.0]).unwrap().median - 3.0).abs() < f64::EPSILON);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn only_a_spread_that_does_not_overlap_is_above() {
        let [low, high] = [[1.0, 2.0], [2.5, 3.0]].map(|of| Spread::of(&of).unwrap());
        assert!(high.is_above(&low) && !low.is_above(&high));
        assert!(!Spread::of(&[1.5, 9.0]).unwrap().is_above(&low));
    }
}
