//! Tests of the mechanisms in docs/contributing/features.md, named after their rows.
//!
//! Nodes are real processes; the tests use HTTP, the Rust client, or the command line. Every test covers one sentence of
//! the table. The other tests of this crate cover load, faults and power cuts.

mod basics;
mod durable;
mod grants;
mod groups;
mod lab;
mod lease_loss;
mod permits;
#[path = "../sdk/program.rs"]
mod program;
mod queues;
mod quotas;
mod recipes;
mod reentry;
mod renewal;
mod sessions;
mod sharing;
