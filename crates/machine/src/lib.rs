//! The replicated state machine: the tree of znodes, sessions, locks and their grants, recipes, limits and the registry
//! of nodes. A pure value: the same entries make the same machine on every node.
//!
//! [`Machine::apply`] is total: no error, no panic, no clock, no randomness, no I/O, and work bounded by the
//! [`Limits`], which are part of the state. A lock is a directory of the tree, a holder or waiter an ephemeral
//! sequential child of it. Start with `lock/mod.rs`. The maps are persistent: a clone costs O(1) and does not change
//! when the machine does, which is how snapshots and reads are taken.
//!
//! Each thing that clients can make grow is bounded by a limit, a named constant beside the field, or both.

mod apply;
mod context;
mod digest;
mod invariants;
mod lock;
mod reads;
mod recipe;
mod session;
mod snapshot;
mod stored_bytes;
#[cfg(test)]
mod tests;
mod tree;

pub use lock::explain::{BlockingLink, CHAIN_MAX};
pub use lock::wait_deadlines::Wait;
pub use reads::{Counts, LISTED_HOLDERS_MAX, LISTED_PLACES_MAX, LockFilter, SCAN_MAX};
pub use recipe::{Arrival, ArrivalWait};
pub use snapshot::load::LoadError;
pub use snapshot::part::SnapshotPart;

use holdfast_types::{Incarnation, Limits, NodeId, Revision, Stamp};
use imbl::OrdMap;

use crate::lock::index::LockIndex;
use crate::recipe::Recipes;
use crate::session::store::Sessions;
use crate::tree::Tree;

/// The state of the cluster at one revision. Cloning is O(1) and gives a frozen view.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Of the last command applied.
    revision: Revision,
    /// The largest stamp seen. Invariant: never goes back.
    now: Stamp,
    limits: Limits,
    /// Rolling, over every command's outcome and events.
    digest: u64,
    tree: Tree,
    sessions: Sessions,
    locks: LockIndex,
    recipes: Recipes,
    members: OrdMap<NodeId, Incarnation>,
}

impl Machine {
    /// The machine before the first command: the built-in directories and the default limits.
    pub fn new() -> Self {
        Self {
            revision: Revision(0),
            now: Stamp(0),
            limits: Limits::default(),
            digest: 0,
            tree: Tree::new(),
            sessions: Sessions::new(),
            locks: LockIndex::new(0),
            recipes: Recipes::default(),
            members: OrdMap::new(),
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}
