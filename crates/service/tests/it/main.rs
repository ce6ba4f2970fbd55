//! Tests of the service with real nodes in one process, over real TCP and real disks.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "in a test, any unexpected reply is a failure"
)]

mod client;
mod disconnect;
mod leases;
mod lock;
mod lock_calls;
mod nodes;
mod racing;
mod streams;
mod timers;
mod waiting;
mod watch_streams;
mod watches;
