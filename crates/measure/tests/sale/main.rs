//! The flash sale with real servers and processes: its counts under locks with and without exclusion, and without a
//! lock.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod counts;
mod program;
#[path = "../adapters/skip.rs"]
mod skip;

use std::path::PathBuf;

use holdfast_measure::safety::SaleSettings;
use holdfast_measure::servers::ServerKind;

/// The program, which is also the worker program.
pub(crate) fn compare() -> PathBuf {
    env!("CARGO_BIN_EXE_measure").into()
}

/// The settings of a small sale.
pub(crate) fn sale() -> SaleSettings {
    SaleSettings { workers: 3, pieces: 40, ..SaleSettings::new(compare()) }
}

/// Returns `true` if all of these servers are installed.
pub(crate) fn are_here(kinds: &[ServerKind]) -> bool {
    // `is_here` names every missing server.
    kinds.iter().filter(|kind| !skip::is_here(**kind)).count() == 0
}
