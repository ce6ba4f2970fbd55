//! Judges: pure functions that check one property of a history each.
//!
//! Judges report only certain violations: an operation with an unknown outcome may or may not have taken effect.
//! Each judge has tests with histories that it must accept and histories that it must refuse.

mod durability;
mod early_expiry;
mod fenced_store;
mod fifo;
mod fresh_reads;
mod holds;
mod mutual_exclusion;
#[cfg(test)]
mod script;

pub use durability::acknowledged_grants_survive;
pub use early_expiry::no_early_expiry;
pub use fenced_store::no_lost_update;
pub use fifo::{queue_order, queues_seen};
pub use fresh_reads::fresh_reads;
pub use mutual_exclusion::mutual_exclusion;

use crate::history::History;

/// Panics if a lock judge finds a violation in the history.
#[track_caller]
pub fn check_lock_history(history: &History) {
    let operations = history.operations();
    history.require(mutual_exclusion(&operations));
    history.require(queue_order(&operations));
    history.require(no_early_expiry(&operations));
    history.require(fresh_reads(&operations));
}
