//! The front-end as ZooKeeper clients see it, with one real node and a client that sends the frames of the protocol.
//!
//! Each file has one subject. Unit tests are beside the code; whole clusters are in `tests/cluster`.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and shows an unexpected reply as it is"
)]

mod access;
mod authorization;
mod bounds;
mod create;
mod credential;
mod errors;
mod handshake;
mod multi;
mod node;
mod order;
mod reads;
mod sessions;
mod watches;
mod words;
