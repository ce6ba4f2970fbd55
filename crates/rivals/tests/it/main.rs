//! The rivals against their real servers: each excludes without faults, and each fails as it is documented to.
//!
//! Owns nothing but its modules: a campaign that every lock has to pass, and for every caveat the test that shows it.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod campaign;
mod caveats;
#[cfg(all(feature = "zookeeper", feature = "etcd", feature = "holdfast"))]
mod clusters;
mod judge;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redisson;
#[cfg(feature = "redis")]
mod redlock;
mod skip;
#[cfg(any(feature = "postgres", feature = "mariadb"))]
mod sql;
mod until;
