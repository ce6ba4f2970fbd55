//! The service of real nodes in one process, over real TCP and real disks.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "in a test an unexpected answer is a failure, whichever it is"
)]

mod client;
mod departure;
mod due;
mod following;
mod kinds;
mod leases;
mod lock;
mod nodes;
mod racing;
mod streams;
mod waiting;
mod watches;
