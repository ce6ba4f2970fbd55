//! Latches, barriers, double barriers and counters: one file for each recipe.
//!
//! A waiting call returns 200 when the awaited event has happened and 423 when the wait times out. It returns 409 when
//! the event can no longer happen.

pub(crate) mod barrier;
pub(crate) mod counter;
pub(crate) mod double_barrier;
pub(crate) mod latch;
pub(crate) mod list;
