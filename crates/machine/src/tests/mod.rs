//! Golden scripts, the model, and the properties. `mutations.toml` names the tests that must fail for each mutation.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the numbers of tests are small"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    clippy::needless_pass_by_value,
    clippy::needless_for_each,
    reason = "what a test does not expect is a failure anyway, and short is better than fast"
)]

mod bounds;
mod bundles;
mod bytes;
mod changes;
mod custody;
mod deadlocks;
mod dealings;
mod explain;
mod history;
mod judge;
mod kinds;
mod large;
mod late_copies;
mod model;
mod promises;
mod properties;
mod recipes;
mod render;
mod scenes;
mod scripts;
mod segments;
mod snapshots;
mod wishes;
mod words;
