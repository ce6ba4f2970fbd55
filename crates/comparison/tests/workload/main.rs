//! The comparison against planted locks and against real servers that are missing, fall, or are left behind.
//!
//! Owns nothing but its modules. The real servers need the feature `all`: `scripts/clients test` has it.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod crashed;
mod loops;
mod queue;
mod simulated;
mod tool;
mod until;
