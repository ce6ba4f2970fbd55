//! The comparison against planted locks and against real servers that are missing, fall, or are left behind.
//!
//! Owns nothing but its modules. The real servers need the feature `all`: `scripts/rivals test` has it.
#![cfg(feature = "all")]
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

mod fallen;
mod loops;
mod planted;
mod queue;
mod tool;
mod until;
