//! The Rust client against clusters of real processes: what a guard says while leaders die, links break and processes
//! stand still.
//!
//! Beside the laboratory, which knows nothing of our crates, these tests use the client as a program would. How many
//! trials a campaign has is `HOLDFAST_TRIALS`; without it there are a few.

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
