//! The adapters against real servers: each excludes without faults, and each fails as documented.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod campaign;
mod clusters;
mod judge;
mod limitations;
mod redis;
mod redisson;
mod redlock;
mod skip;
mod sql;
