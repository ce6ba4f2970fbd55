//! Skips tests that cannot run on this machine, with a printed line, and only where permitted.

use holdfast_measure::servers::ServerKind;

/// Returns `true` if the servers of this kind are installed, and otherwise prints a line. With
/// `HOLDFAST_REQUIRE_<KIND>=1` a missing server is a failure.
#[expect(clippy::print_stderr, reason = "a test that is left out has to say so")]
pub(crate) fn is_here(kind: ServerKind) -> bool {
    let Some(missing) = kind.missing() else { return true };
    let variable = format!("HOLDFAST_REQUIRE_{}", kind.name().to_uppercase().replace('-', "_"));
    assert!(std::env::var_os(&variable).is_none(), "{variable} is set, but {missing}");
    eprintln!("SKIPPED: {missing}");
    false
}
