//! The index of ephemerals by session, of nodes to sweep by time, and of foreign znodes by lock directory.
//!
//! One sorted set contains all of them, so the end of a session and a sweep never scan the tree. Bounds: one key for
//! each node; `ephemerals_per_session_max` for each session, which callers check.

use std::ops::Bound;

use holdfast_types::{SessionId, ZnodePath};
use imbl::{OrdMap, OrdSet};

use crate::tree::znode::{NodeIndexKey, Znode};

/// The keys of nodes, and the number of ephemerals of each session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeIndex {
    nodes: OrdSet<(NodeIndexKey, ZnodePath)>,
    /// Invariant: the number of keys of each session; never 0.
    owned: OrdMap<SessionId, u64>,
    /// Invariant: every node for which [`Znode::is_foreign`] holds, after its directory.
    foreign: OrdSet<(ZnodePath, ZnodePath)>,
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

    /// Adds a new node under all its keys.
    pub(crate) fn insert_node(&mut self, path: &ZnodePath, node: &Znode) {
        if let Some(order) = node.order() {
            self.insert(order, path);
        }
        if node.is_foreign(path)
            && let Some(directory) = path.parent()
        {
            self.foreign.insert((directory, path.clone()));
        }
    }

    /// Removes a node from all its keys.
    pub(crate) fn remove_node(&mut self, path: &ZnodePath, node: &Znode) {
        if let Some(order) = node.order() {
            self.remove(order, path);
        }
        if node.is_foreign(path)
            && let Some(directory) = path.parent()
        {
            self.foreign.remove(&(directory, path.clone()));
        }
    }

    pub(crate) fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// The first lock directory with a foreign znode, that znode, and the number of all foreign znodes.
    pub(crate) fn first_foreign(&self) -> Option<(&ZnodePath, usize)> {
        self.foreign.get_min().map(|(_, path)| (path, self.foreign.len()))
    }

    /// The foreign znodes in a directory, sorted.
    pub(crate) fn foreign_in(&self, directory: ZnodePath) -> impl Iterator<Item = &ZnodePath> {
        let from = (Bound::Included((directory.clone(), ZnodePath::root())), Bound::Unbounded);
        let own = self.foreign.range(from).take_while(move |(found, _)| *found == directory);
        own.map(|(_, path)| path)
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
