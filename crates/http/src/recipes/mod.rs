//! Latches, barriers, double barriers and counters: one folder each, one file a call.
//!
//! A call that waits is answered 200 when what it waits for has happened, 423 when the wait ends before, and 409 when it
//! cannot happen any more.

pub(crate) mod barrier;
pub(crate) mod counter;
pub(crate) mod double_barrier;
pub(crate) mod latch;
