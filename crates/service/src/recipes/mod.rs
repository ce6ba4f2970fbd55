//! Latches, barriers, double barriers and counters, for callers of any protocol.
//!
//! Changes are commands, and the state machine decides when a latch or a barrier opens. A waiting call is parked on
//! this node (`parked.rs`) and takes a waiter permit, like a call that waits for a lock.

mod barriers;
mod commands;
mod parked;

pub use self::commands::{CountedDown, CreatedLatch};

pub(crate) use self::parked::RecipeWaiters;
