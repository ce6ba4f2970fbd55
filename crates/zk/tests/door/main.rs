//! The door as clients see it: a real node behind it, and a client that speaks the wire's own frames.
//!
//! Owns what is promised to unmodified clients, one file a subject. The tables behind it have tests of their own
//! beside them; whole clusters are in `tests/cluster`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod access;
mod bounds;
mod create;
mod errors;
mod handshake;
mod multi;
mod node;
mod order;
mod reads;
mod sessions;
mod watches;
mod words;
