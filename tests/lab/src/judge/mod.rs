//! Judges: pure functions from what clients saw to a verdict, one property a file.
//!
//! None of them knows how the history came about. Each errs on the side of the system: an unknown outcome may have
//! happened or not, and only what is certain is held against it. Each is itself tested with histories it must accept
//! and histories it must refuse.

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
pub use fifo::queue_order;
pub use fresh_reads::fresh_reads;
pub use mutual_exclusion::mutual_exclusion;

use crate::history::History;

/// Panics unless every judge of locks is content with the history.
#[track_caller]
pub fn all_of_locks(history: &History) {
    let operations = history.operations();
    history.require(mutual_exclusion(&operations));
    history.require(queue_order(&operations));
    history.require(no_early_expiry(&operations));
    history.require(fresh_reads(&operations));
}
