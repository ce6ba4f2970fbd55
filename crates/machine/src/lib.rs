//! The replicated state machine: the tree of znodes, sessions, locks and their grants, the memo of answers, limits
//! and the registry of nodes. A pure value: the same entries make the same machine on every node.
//!
//! Owns what a command means. [`Machine::apply`] is total: no error, no panic, no clock, no randomness, no I/O, and
//! work bounded by the [`Limits`], which are part of the state. Refuses to know how entries
//! are agreed on, who waits for an answer, and when a lease runs out.
//!
//! A lock is a directory of the tree, a contender an ephemeral sequential child of it; the lock engine is an index
//! over those directories (`locks.rs`) and a rule for who is next (`grant.rs`). Maps are persistent, so a clone is
//! O(1) and stays as it is while applying goes on: that is how snapshots and reads are taken.
//!
//! Bounds: everything that clients can make grow is bounded by a limit, a named constant beside the field, or both.

mod acl;
mod acquire;
mod apply;
mod attempts;
mod bundle;
mod closing;
mod contender;
mod convert;
mod create;
mod custody;
mod deadlock;
mod digest;
mod dump;
mod ending;
mod explain;
mod grant;
mod holders;
mod invariants;
mod load;
mod locks;
mod look;
mod memo;
mod multi;
mod nodes;
mod orders;
mod part;
mod place;
mod policy;
mod quota;
mod rank;
mod reads;
mod recipes;
mod release;
mod room;
mod segments;
mod session;
mod sessions;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;
mod views;
mod waits;
mod walk;
mod znode;

pub use explain::{BlockingLink, CHAIN_MAX};
pub use load::LoadError;
pub use part::{
    ClosedPart, ContenderPart, DelayPart, End, Head, HoldPart, KindPart, LeftLockPart, NodePart,
    Part, PastPart, RestPart, RulesPart, SessionPart, TermsPart, TombstonePart,
};
pub use reads::{Counts, LISTED_HOLDERS_MAX, LISTED_PLACES_MAX, LockFilter, SCAN_MAX};
pub use recipes::{
    Arrival, ArrivalWait, BarrierPart, DoublePart, LatchPart, MemberPart, RecipePart, RoundPart,
};
pub use waits::Wait;

use holdfast_types::{Incarnation, Limits, NodeId, Revision, Stamp};
use imbl::OrdMap;

use crate::locks::Locks;
use crate::recipes::Recipes;
use crate::sessions::Sessions;
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
    locks: Locks,
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
            locks: Locks::new(),
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
