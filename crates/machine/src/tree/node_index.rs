//! The index of nodes that belong to a session or are to be swept.
//!
//! One sorted set holds all of them, so that the end of a session and a sweep never scan the tree. Bounds: one line for
//! each node; ephemerals of a session by `ephemerals_per_session_max`, checked by callers.

use std::ops::Bound;

use holdfast_types::{SessionId, ZnodePath};
use imbl::{OrdMap, OrdSet};

use crate::tree::znode::NodeIndexKey;

/// Where nodes stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeIndex {
    lines: OrdSet<(NodeIndexKey, ZnodePath)>,
    /// Invariant: how many lines of a session there are; never 0.
    owned: OrdMap<SessionId, u64>,
}

impl NodeIndex {
    /// A node stands here from now on.
    pub(crate) fn insert(&mut self, order: NodeIndexKey, path: &ZnodePath) {
        let new = self.lines.insert((order, path.clone())).is_none();
        if let (NodeIndexKey::OfSession(session), true) = (order, new) {
            *self.owned.entry(session).or_insert(0) += 1;
        }
    }

    /// A node stands here no longer.
    pub(crate) fn remove(&mut self, order: NodeIndexKey, path: &ZnodePath) {
        let found = self.lines.remove(&(order, path.clone())).is_some();
        let NodeIndexKey::OfSession(session) = order else { return };
        match self.owned.get_mut(&session) {
            Some(count) if found && *count > 1 => *count -= 1,
            Some(_) if found => drop(self.owned.remove(&session)),
            Some(_) | None => {}
        }
    }

    /// A session's ephemerals that are not queue entries.
    pub(crate) fn ephemerals_of(&self, session: SessionId) -> Vec<ZnodePath> {
        let order = NodeIndexKey::OfSession(session);
        let from = (Bound::Included((order, ZnodePath::root())), Bound::Unbounded);
        let own = self.lines.range(from).take_while(|(found, _)| *found == order);
        own.map(|(_, path)| path.clone()).collect()
    }

    /// How many those are.
    pub(crate) fn owned_by(&self, session: SessionId) -> u64 {
        self.owned.get(&session).copied().unwrap_or(0)
    }

    /// The first node from an order on.
    pub(crate) fn first_from(&self, order: NodeIndexKey) -> Option<&(NodeIndexKey, ZnodePath)> {
        self.lines.range((Bound::Included((order, ZnodePath::root())), Bound::Unbounded)).next()
    }
}
