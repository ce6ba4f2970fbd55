//! What each mechanism of docs/features.md promises, as a user sees it: one test a row, named after it.
//!
//! Nodes are real processes, asked over HTTP, through the Rust client, or by the command line. Every test is about one sentence
//! of the table, and small; what happens under load, faults and power cuts is in the other tests of this crate.

mod believing;
mod conduct;
mod goals;
mod grants;
mod groups;
mod lab;
mod permits;
#[path = "../sdk/program.rs"]
mod program;
mod queues;
mod recipes;
mod reentry;
mod sessions;
mod sharing;
