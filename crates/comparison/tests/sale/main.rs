//! The flash sale with real servers and processes: what it counts under locks that hold, that do not, and that are none.
//!
//! Owns the harness: a store and a lock's servers for one test each, and the program as a user calls it.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod counts;
mod program;

use std::path::PathBuf;

use holdfast_comparison::safety::Sale;
use holdfast_comparison::servers::ServerKind;

/// The program, which becomes a worker when it is told to.
pub(crate) fn compare() -> PathBuf {
    env!("CARGO_BIN_EXE_compare").into()
}

/// A small one.
pub(crate) fn sale() -> Sale {
    Sale { workers: 3, pieces: 40, ..Sale::of(compare()) }
}

/// Whether these servers are there. Says so if not; with `HOLDFAST_REQUIRE_<KIND>=1` that is a failure.
#[expect(clippy::print_stderr, reason = "a test that is left out has to say so")]
pub(crate) fn are_here(kinds: &[ServerKind]) -> bool {
    let mut here = true;
    for kind in kinds {
        let Some(missing) = kind.missing() else { continue };
        let variable = format!("HOLDFAST_REQUIRE_{}", kind.name().to_uppercase().replace('-', "_"));
        assert!(std::env::var_os(&variable).is_none(), "{variable} is set, but {missing}");
        eprintln!("skipped: {missing}");
        here = false;
    }
    here
}
