//! Golden scripts, the model, and the properties. `mutations.toml` names the tests that must fail for each mutation.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the numbers in tests are small"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    clippy::needless_pass_by_value,
    clippy::needless_for_each,
    reason = "an unexpected variant fails the test, and tests prefer short code to fast code"
)]

mod acquire_strategies;
mod audit;
mod auth;
mod bounds;
mod bypasses;
mod bytes;
mod changes;
mod clocks;
mod cluster_commands;
mod conversions;
mod credentials;
mod deadlock_cases;
mod deadlocks;
mod durable;
mod explain;
mod guarantees;
mod handovers;
mod history;
mod history_start;
mod large;
mod late_copies;
mod lease_records;
mod members;
mod model;
mod model_check;
mod multi_locks;
mod namespaces;
mod nesting;
mod once;
mod operator_commands;
mod operator_moves;
mod permits;
mod properties;
mod random;
mod recipe;
mod render;
mod restore;
mod restore_point;
mod script_commands;
mod scripts;
mod seal;
mod session_names;
mod shard_cases;
mod shards;
mod snapshots;
mod subject_limits;
