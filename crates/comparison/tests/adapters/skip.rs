//! Leaving out what cannot run on this machine, audibly, and only where that is allowed.

use holdfast_comparison::servers::ServerKind;

/// Whether the servers of this kind are there. Says so if not; with `HOLDFAST_REQUIRE_<KIND>=1` that is a failure.
#[expect(clippy::print_stderr, reason = "a test that is left out has to say so")]
pub(crate) fn is_here(kind: ServerKind) -> bool {
    let Some(missing) = kind.missing() else { return true };
    let variable = format!("HOLDFAST_REQUIRE_{}", kind.name().to_uppercase().replace('-', "_"));
    assert!(std::env::var_os(&variable).is_none(), "{variable} is set, but {missing}");
    eprintln!("skipped: {missing}");
    false
}
