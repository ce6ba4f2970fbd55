//! Tests of the codecs with frames from the protocol's description, real connections, random generators and attacks.
//!
//! `corpus`, `exercise`, `footprint` and `mutate` are shared with the program `examples/fuzz`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod any_bytes;
mod bytes;
mod campaign;
mod corpus;
mod exercise;
mod footprint;
mod golden_connect;
mod golden_multi;
mod golden_replies;
mod golden_requests;
mod mutate;
mod replay;
mod round_trip;
mod strategies;
