//! The median and the extremes of repeated measurements, and curves of them over a growing load.

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

/// All curves of one measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadGrowth {
    /// The number of measurements of each point.
    pub rounds: u32,
    pub curves: Vec<LoadCurve>,
}

/// Cycles/s, p99 and processor time over one growing quantity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadCurve {
    /// What grows, with its unit.
    pub over: String,
    pub points: Vec<LoadPoint>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadPoint {
    pub at: u32,
    pub cycles_per_second: Spread,
    pub p99_ms: Spread,
    /// `None` if it is unknown.
    pub processor_us_per_cycle: Option<Spread>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
