//! The index of ephemerals by session, and of nodes to sweep by time.
//!
//! One sorted set contains all of them, so the end of a session and a sweep never scan the tree. Bounds: one key for
//! each node; `ephemerals_per_session_max` for each session, which callers check.

use std::ops::Bound;

use holdfast_types::{SessionId, ZnodePath};
use imbl::{OrdMap, OrdSet};

use crate::tree::znode::NodeIndexKey;

/// The keys of nodes, and the number of ephemerals of each session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeIndex {
    nodes: OrdSet<(NodeIndexKey, ZnodePath)>,
    /// Invariant: the number of keys of each session; never 0.
    owned: OrdMap<SessionId, u64>,
}

impl NodeIndex {
    /// Adds a node under a key.
    pub(crate) fn insert(&mut self, order: NodeIndexKey, path: &ZnodePath) {
        let new = self.nodes.insert((order, path.clone())).is_none();
        if let (NodeIndexKey::OfSession(session), true) = (order, new) {
            *self.owned.entry(session).or_insert(0) += 1;
        }
    }

    /// Removes a node from a key.
    pub(crate) fn remove(&mut self, order: NodeIndexKey, path: &ZnodePath) {
        let found = self.nodes.remove(&(order, path.clone())).is_some();
        let NodeIndexKey::OfSession(session) = order else { return };
        match self.owned.get_mut(&session) {
            Some(count) if found && *count > 1 => *count -= 1,
            Some(_) if found => drop(self.owned.remove(&session)),
            Some(_) | None => {}
        }
    }

    /// The ephemerals of a session that are not queue entries.
    pub(crate) fn ephemerals_of(&self, session: SessionId) -> Vec<ZnodePath> {
        let order = NodeIndexKey::OfSession(session);
        let from = (Bound::Included((order, ZnodePath::root())), Bound::Unbounded);
        let own = self.nodes.range(from).take_while(|(found, _)| *found == order);
        own.map(|(_, path)| path.clone()).collect()
    }

    /// The number of ephemerals of a session that are not queue entries.
    pub(crate) fn owned_by(&self, session: SessionId) -> u64 {
        self.owned.get(&session).copied().unwrap_or(0)
    }

    /// The first node at or after a key.
    pub(crate) fn first_from(&self, order: NodeIndexKey) -> Option<&(NodeIndexKey, ZnodePath)> {
        self.nodes.range((Bound::Included((order, ZnodePath::root())), Bound::Unbounded)).next()
    }
}
