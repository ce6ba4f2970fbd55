//! The Rust client on clusters of real processes: state of the guards during kills, network faults and pauses.
//!
//! These tests use the public API of the client. `HOLDFAST_TRIALS` is the number of trials of a campaign; without it
//! there are a few.

mod campaign;
mod elections;
mod examples;
mod failing;
mod holding;
mod journal;
mod kinds;
mod losing;
mod multi_lock;
mod program;
mod recipes;
mod stock;
