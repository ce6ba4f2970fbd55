//! The clients against their real servers: each excludes without faults, and each fails as it is documented to.
//!
//! Owns nothing but its modules: a campaign that every lock has to pass, and for every limitation the test that shows it.
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
mod until;
