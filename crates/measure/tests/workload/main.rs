//! The measurements with simulated locks, and with real servers that are missing, crash, or are interrupted.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod crashed;
mod given;
mod loops;
mod queue;
mod simulated;
#[path = "../adapters/skip.rs"]
mod skip;
mod tool;
mod writers;
