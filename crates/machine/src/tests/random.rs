//! The settings and the seeded generator of the property tests.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The defaults of proptest without a file of failed cases. `PROPTEST_CASES` sets the number of cases.
pub(super) fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

/// A runner that makes the same cases in each run. The tests of `mutations.toml` need it.
pub(super) fn seeded_runner() -> TestRunner {
    TestRunner::new_with_rng(config(), TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}
