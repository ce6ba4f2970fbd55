//! The tree of znodes, with the rules of ZooKeeper.
//!
//! `create.rs`, `change.rs` and `multi.rs` check changes; [`Tree`] makes them. [`Tree`] also updates the state derived
//! from the nodes: the counters of their parents, the index of ephemerals and of nodes to sweep (`node_index.rs`), the
//! usage of quotas, and the totals. Bound: `znodes_max`, checked before each creation.

pub(crate) mod acl;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod key;
pub(crate) mod multi;
pub(crate) mod node_index;
pub(crate) mod quota;
pub(crate) mod reads;
mod walk;
pub(crate) mod znode;

use std::sync::Arc;

use holdfast_types::{
    Data, NamespaceName, QuotaZnodes, Rejection, Revision, Stamp, SubtreeLimits, ZnodePath,
};
use imbl::OrdMap;

use crate::per_namespace::PerNamespace;
use crate::tree::key::TreeKey;
use crate::tree::node_index::NodeIndex;
use crate::tree::quota::{SubtreeQuotas, Usage};
use crate::tree::znode::{Acl, LockDirectory, Znode, ZnodeKind, ZnodeRole};

/// `/zookeeper`, for clients that expect it.
pub(crate) const ZOOKEEPER: &str = "/zookeeper";
/// The path at which ZooKeeper stores its membership.
pub(crate) const CONFIG: &str = "/zookeeper/config";
/// The znodes that always exist, parents first.
pub(crate) const BUILT_IN: [&str; 5] = ["/", ZnodePath::LOCKS, ZOOKEEPER, CONFIG, QuotaZnodes::TOP];

/// The znodes, and the indexes and sums over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) nodes: OrdMap<TreeKey, Arc<Znode>>,
    /// Invariant: every node for which [`Znode::order`] returns a key, under that key.
    pub(crate) node_indexes: NodeIndex,
    /// Invariant: one quota for each `zookeeper_limits` node, with the usage of its subtree.
    pub(crate) quotas: SubtreeQuotas,
    /// Invariant: the sums over all nodes.
    totals: Totals,
}

/// The sums over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// The number of bytes that clients have stored, including the paths.
    pub(crate) bytes: u64,
    /// The number of ephemeral nodes, including queue entries.
    pub(crate) ephemerals: u64,
    pub(crate) namespaces: PerNamespace<NamespaceZnodes>,
}

/// The znodes of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceZnodes {
    pub(crate) count: u64,
    /// As [`Totals::bytes`].
    pub(crate) bytes: u64,
}

impl Totals {
    fn add(&mut self, path: &ZnodePath, node: &Znode) {
        let bytes = stored(path, node);
        self.bytes += bytes;
        self.ephemerals += u64::from(node.is_ephemeral());
        if let Some(namespace) = self.namespaces.get_mut(NamespaceName::of_path(path.as_str())) {
            namespace.count += 1;
            namespace.bytes += bytes;
        }
    }

    fn take(&mut self, path: &ZnodePath, node: &Znode) {
        let bytes = stored(path, node);
        self.bytes -= bytes;
        self.ephemerals -= u64::from(node.is_ephemeral());
        if let Some(namespace) = self.namespaces.get_mut(NamespaceName::of_path(path.as_str())) {
            namespace.count -= 1;
            namespace.bytes -= bytes;
        }
    }

    /// Counts a node whose bytes have changed.
    fn replace_bytes(&mut self, path: &ZnodePath, before: u64, after: u64) {
        self.bytes = self.bytes + after - before;
        if let Some(namespace) = self.namespaces.get_mut(NamespaceName::of_path(path.as_str())) {
            namespace.bytes = namespace.bytes + after - before;
        }
    }
}

impl Tree {
    /// Creates a tree without nodes, even without the root.
    pub(crate) fn empty() -> Self {
        let (node_indexes, quotas) = (NodeIndex::default(), SubtreeQuotas::default());
        Self { nodes: OrdMap::new(), node_indexes, quotas, totals: Totals::default() }
    }

    /// Creates the tree of revision 0. Built-in nodes do not count as created: as in ZooKeeper, the first sequential
    /// child of the root has number 0, and the root's `cversion` is negative.
    pub(crate) fn new() -> Self {
        let mut tree = Self::empty();
        for path in BUILT_IN.iter().filter_map(|path| ZnodePath::new(path).ok()) {
            if let Some(parent) = path.parent().and_then(|parent| tree.get_mut(&parent)) {
                parent.children += 1;
            }
            let mut node =
                Znode::new(ZnodeKind::Persistent, Data::default(), Revision(0), Stamp(0));
            if path.as_str() == CONFIG {
                // As in ZooKeeper, it is read-only for all clients, and its `aversion` starts at -1.
                node.acl = Some(acl::read_only());
                node.aversion = -1;
            }
            tree.totals.add(&path, &node);
            tree.nodes.insert(TreeKey::of(path), Arc::new(node));
        }
        tree
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at a path.
    pub(crate) fn get(&self, path: &ZnodePath) -> Option<&Znode> {
        self.nodes.get(&TreeKey::of(path.clone())).map(|node| &**node)
    }

    /// True if there is a node at a path.
    pub(crate) fn contains(&self, path: &ZnodePath) -> bool {
        self.nodes.contains_key(&TreeKey::of(path.clone()))
    }

    /// The sums over all nodes. O(1).
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns a node for a change that must not affect the node index, the quotas or the totals.
    pub(crate) fn get_mut(&mut self, path: &ZnodePath) -> Option<&mut Znode> {
        self.nodes.get_mut(&TreeKey::of(path.clone())).map(Arc::make_mut)
    }

    /// Adds a node and counts it in its directory, which must exist. The directory records the token of an entry that
    /// holds the lock. A new directory of locks starts its counter at the `floor` of its parent. Returns the quotas
    /// whose soft limit this exceeds.
    pub(crate) fn insert(
        &mut self,
        directory: &ZnodePath,
        path: ZnodePath,
        mut node: Znode,
    ) -> Vec<ZnodePath> {
        self.totals.add(&path, &node);
        let Self { nodes, node_indexes, quotas, .. } = self;
        if let Some(parent) = nodes.get_mut(&TreeKey::of(directory.clone())).map(Arc::make_mut) {
            if let Some(order) = parent.order() {
                node_indexes.remove(order, directory);
            }
            parent.count_child(node.czxid);
            if let Some(token) = node.entry().and_then(|entry| entry.token())
                && let Some(lock_directory) = parent.lock_directory_mut()
            {
                lock_directory.last_token = Some(token);
            }
            let floor = parent.floor();
            if floor > 0
                && !node.is_ephemeral()
                && let Some(lock_directory) = node.lock_directory_mut()
            {
                (lock_directory.base, lock_directory.floor) = (floor, floor);
            }
        }
        node_indexes.insert_node(&path, &node);
        let bytes = signed(node.data.len());
        let exceeded = quotas.count(&path, Usage { count: 1, bytes });
        nodes.insert(TreeKey::of(path), Arc::new(node));
        exceeded
    }

    /// Removes a node, which must have no children, from the tree and from the count of its directory. A directory of
    /// locks keeps the largest counter of its removed directories as its `floor`. Returns the access list of the node.
    pub(crate) fn remove(
        &mut self,
        directory: &ZnodePath,
        path: &ZnodePath,
        revision: Revision,
        now: Stamp,
    ) -> Acl {
        let Self { nodes, node_indexes, quotas, totals } = self;
        let node = nodes.remove(&TreeKey::of(path.clone()))?;
        totals.take(path, &node);
        node_indexes.remove_node(path, &node);
        if let Some(limited) = quota::limited_by(path) {
            quotas.lift(&limited);
        }
        quotas.count(path, Usage { count: -1, bytes: -signed(node.data.len()) });
        if let Some(parent) = nodes.get_mut(&TreeKey::of(directory.clone())).map(Arc::make_mut) {
            parent.uncount_child(revision, now);
            if let Some(order) = parent.order() {
                node_indexes.insert(order, directory);
            }
            let reached = node.counter().max(node.floor());
            if reached > parent.floor()
                && !node.is_ephemeral()
                && holds_locks(directory)
                && let Some(lock_directory) = parent.lock_directory_mut()
            {
                lock_directory.floor = reached;
            }
        }
        node.acl.clone()
    }

    /// Replaces the data of a node; for a `zookeeper_limits` node, also the limits of its quota. Returns the new node
    /// and the quotas whose soft limit this exceeds.
    pub(crate) fn set_data(
        &mut self,
        path: &ZnodePath,
        data: Data,
        revision: Revision,
        now: Stamp,
    ) -> Option<(&Znode, Vec<ZnodePath>)> {
        let Self { nodes, node_indexes, quotas, totals } = self;
        let node = nodes.get_mut(&TreeKey::of(path.clone())).map(Arc::make_mut)?;
        if let Some(limited) = quota::limited_by(path) {
            quotas.change(&limited, SubtreeLimits::from_data(&data));
        }
        let bytes = signed(data.len()) - signed(node.data.len());
        totals.replace_bytes(path, node.data.len() as u64, data.len() as u64);
        let exceeded = quotas.count(path, Usage { count: 0, bytes });
        let before = node.order();
        node.set_data(data, revision, now);
        let after = node.order();
        if let (Some(before), Some(after)) = (before, after)
            && before != after
        {
            node_indexes.remove(before, path);
            node_indexes.insert(after, path);
        }
        Some((node, exceeded))
    }

    /// Changes the access list or the queue entry of a node.
    pub(crate) fn rewrite(
        &mut self,
        path: &ZnodePath,
        change: impl FnOnce(&mut Znode),
    ) -> Option<&Znode> {
        let node = self.nodes.get_mut(&TreeKey::of(path.clone())).map(Arc::make_mut)?;
        let before = node.bytes();
        change(node);
        let after = node.bytes();
        self.totals.replace_bytes(path, before, after);
        Some(node)
    }

    /// Changes the lock state of a directory.
    pub(crate) fn update_lock_directory(
        &mut self,
        path: &ZnodePath,
        change: impl FnOnce(&mut LockDirectory),
    ) {
        let Self { nodes, node_indexes, .. } = self;
        let Some(node) = nodes.get_mut(&TreeKey::of(path.clone())).map(Arc::make_mut) else {
            return;
        };
        let before = node.order();
        if let Some(lock_directory) = node.lock_directory_mut() {
            change(lock_directory);
            if *lock_directory == LockDirectory::default() {
                node.role = ZnodeRole::Plain;
            }
        }
        let after = node.order();
        if before != after {
            if let Some(before) = before {
                node_indexes.remove(before, path);
            }
            if let Some(after) = after {
                node_indexes.insert(after, path);
            }
        }
    }

    /// Sets a quota on a path with the current usage of its subtree.
    pub(crate) fn set_quota(&mut self, path: &ZnodePath, limits: &[u8], used: Usage) {
        self.quotas.set(path, SubtreeLimits::from_data(limits), used);
    }

    /// Rejects new znodes, the last one at `path`, or more bytes at `path`, if that exceeds a hard limit.
    pub(crate) fn check_quotas<'a>(
        &self,
        path: &ZnodePath,
        new: &(impl Iterator<Item = &'a ZnodePath> + Clone),
        bytes: u64,
    ) -> Result<(), Rejection> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        self.quotas.room_for(path, new, bytes)
    }

    /// The usage of the subtree of a quota; `None` without a quota on the path.
    pub(crate) fn used(&self, path: &ZnodePath) -> Option<Usage> {
        self.quotas.used(path)
    }

    /// Computes the usage of a subtree including its root, and returns it with the number of znodes read. Returns
    /// `None` if it would read more than `count_max`.
    pub(crate) fn measure(&self, path: &ZnodePath, count_max: u64) -> Option<(Usage, u64)> {
        let (mut usage, mut visited) = (Usage::default(), 0);
        if quota::is_at_or_below(path.as_str(), ZOOKEEPER) {
            return Some((usage, visited));
        }
        let root = self.get(path).map(|node| (path, node)).into_iter();
        let below = self.below_after(path, None).map(|(path, node)| (path, &**node));
        for (path, node) in root.chain(below) {
            visited += 1;
            if visited > count_max {
                return None;
            }
            if !quota::is_at_or_below(path.as_str(), ZOOKEEPER) {
                usage.add(node.data.len());
            }
        }
        Some((usage, visited))
    }

    /// Counts the znodes of a namespace from now on. Returns false if there are more than `count_max`.
    pub(crate) fn start_namespace(&mut self, namespace: &NamespaceName, count_max: u64) -> bool {
        let mut found = NamespaceZnodes::default();
        for directory in namespace.directories() {
            let top = self.nodes.get_key_value(&TreeKey::of(directory.clone()));
            let top = top.map(|(place, node)| (place.path(), node));
            for (path, node) in top.into_iter().chain(self.below_after(&directory, None)) {
                found.count += 1;
                found.bytes += stored(path, node);
                if found.count > count_max {
                    return false;
                }
            }
        }
        self.totals.namespaces.set(namespace.clone(), found);
        true
    }

    pub(crate) fn stop_namespace(&mut self, namespace: &NamespaceName) {
        self.totals.namespaces.remove(namespace);
    }

    /// Adds a node from a snapshot. [`Tree::recount`] counts the children later. Returns false if the path exists.
    pub(crate) fn restore(&mut self, path: ZnodePath, node: Znode) -> bool {
        self.nodes.insert(TreeKey::of(path), Arc::new(node)).is_none()
    }

    /// Counts the children, and rebuilds the node index, the quotas and the totals after all nodes of a snapshot are
    /// added.
    pub(crate) fn recount(&mut self) {
        for (place, _) in self.nodes.clone() {
            if let Some(parent) = place.path().parent().and_then(|parent| self.get_mut(&parent)) {
                parent.children += 1;
            }
        }
        (self.node_indexes, self.quotas, self.totals) = self.rebuilt_indexes();
    }

    /// Computes the node index, the quotas and the totals from the nodes alone.
    pub(crate) fn rebuilt_indexes(&self) -> (NodeIndex, SubtreeQuotas, Totals) {
        let (mut node_indexes, mut quotas) = (NodeIndex::default(), SubtreeQuotas::default());
        let namespaces = self.totals.namespaces.zeroed();
        let mut totals = Totals { namespaces, ..Totals::default() };
        for (path, node) in self.iter() {
            totals.add(path, node);
            node_indexes.insert_node(path, node);
            if let Some(limited) = quota::limited_by(path) {
                quotas.set(&limited, SubtreeLimits::from_data(&node.data), Usage::default());
            }
        }
        if !quotas.is_empty() {
            for (path, node) in self.iter() {
                quotas.count(path, Usage { count: 1, bytes: signed(node.data.len()) });
            }
        }
        (node_indexes, quotas, totals)
    }

    /// The maintained node index, quotas and totals.
    pub(crate) fn maintained_indexes(&self) -> (&NodeIndex, &SubtreeQuotas, &Totals) {
        (&self.node_indexes, &self.quotas, &self.totals)
    }
}

/// True for `/locks` and each path below it.
pub(crate) fn holds_locks(directory: &ZnodePath) -> bool {
    quota::is_at_or_below(directory.as_str(), ZnodePath::LOCKS)
}

/// The number of bytes that clients have stored in a node, including its path.
fn stored(path: &ZnodePath, node: &Znode) -> u64 {
    path.as_str().len() as u64 + node.bytes()
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
