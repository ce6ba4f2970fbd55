//! Curves of a growing load, as `holdfast bench growth --output json` prints them.

use serde::{Deserialize, Serialize};

use super::Spread;

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
