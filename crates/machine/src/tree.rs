//! The tree of znodes.
//!
//! Owns the nodes, the parents' counters, and three orders over them: by place, ephemerals by session, and empty
//! containers by the time since which they are empty. Refuses to know locks and limits: callers check first.
//! Bounds: `znodes_max`, checked by the callers.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::{Revision, SessionId, Stamp, ZnodePath};
use imbl::{OrdMap, OrdSet};

use crate::acl;
use crate::place::Place;
use crate::znode::{Kind, Znode};

/// `/zookeeper`, kept for clients that look for it.
pub(crate) const ZOOKEEPER: &str = "/zookeeper";
/// Where `ZooKeeper` keeps its membership.
pub(crate) const CONFIG: &str = "/zookeeper/config";
/// Where `ZooKeeper` keeps its quotas.
pub(crate) const QUOTA: &str = "/zookeeper/quota";
/// What is there from the start and stays. Parents first.
pub(crate) const BUILT_IN: [&str; 5] = ["/", ZnodePath::LOCKS, ZOOKEEPER, CONFIG, QUOTA];

/// Ephemerals by their sessions.
pub(crate) type Ephemerals = OrdSet<(SessionId, ZnodePath)>;
/// Containers by the time since which they are empty.
pub(crate) type Idle = OrdSet<(Stamp, ZnodePath)>;

/// The znodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    nodes: OrdMap<Place, Arc<Znode>>,
    /// Invariant: the ephemerals that are not contenders (those are found through their claims).
    ephemerals: Ephemerals,
    /// Invariant: the containers without children, by `emptied_at`.
    idle: Idle,
}

impl Tree {
    /// No nodes at all, not even the root.
    pub(crate) fn bare() -> Self {
        Self { nodes: OrdMap::new(), ephemerals: OrdSet::new(), idle: OrdSet::new() }
    }

    /// The tree at revision 0. What is built in does not count as created, so the first sequential child of the
    /// root is number 0 and its `cversion` is negative, as in `ZooKeeper`.
    pub(crate) fn new() -> Self {
        let mut tree = Self::bare();
        for path in BUILT_IN.iter().filter_map(|path| ZnodePath::new(path).ok()) {
            if let Some(parent) = path.parent().and_then(|parent| tree.get_mut(&parent)) {
                parent.children += 1;
            }
            let mut node = Znode::new(Kind::Persistent, Arc::default(), Revision(0), Stamp(0));
            if path.as_str() == CONFIG {
                // Nobody may change it, and its list counts as set before the first time, as in `ZooKeeper`.
                node.acl = acl::read_only();
                node.aversion = -1;
            }
            tree.nodes.insert(Place::of(path), Arc::new(node));
        }
        tree
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at a path.
    pub(crate) fn get(&self, path: &ZnodePath) -> Option<&Znode> {
        self.nodes.get(&Place::of(path.clone())).map(|node| &**node)
    }

    /// True if there is a node at a path.
    pub(crate) fn contains(&self, path: &ZnodePath) -> bool {
        self.nodes.contains_key(&Place::of(path.clone()))
    }

    /// The node at a path, to be changed. The caller leaves alone what the orders depend on.
    pub(crate) fn get_mut(&mut self, path: &ZnodePath) -> Option<&mut Znode> {
        self.nodes.get_mut(&Place::of(path.clone())).map(Arc::make_mut)
    }

    /// Adds a node and counts it in its directory, which must exist and notes the token of a contender that holds.
    pub(crate) fn insert(&mut self, directory: &ZnodePath, path: ZnodePath, node: Znode) {
        let revision = node.czxid;
        let Self { nodes, ephemerals, idle } = self;
        if let Some(parent) = nodes.get_mut(&Place::of(directory.clone())).map(Arc::make_mut) {
            if parent.is_idle() {
                idle.remove(&(parent.emptied_at, directory.clone()));
            }
            parent.created += 1;
            parent.children += 1;
            parent.pzxid = revision;
            if let Some(hold) = node.contender.as_ref().and_then(|contender| contender.hold) {
                parent.last_token = Some(hold.token);
            }
        }
        match node.kind {
            Kind::Ephemeral(session) if node.contender.is_none() => {
                ephemerals.insert((session, path.clone()));
            }
            Kind::Container => {
                idle.insert((node.emptied_at, path.clone()));
            }
            Kind::Ephemeral(_) | Kind::Persistent | Kind::Ttl(_) => {}
        }
        nodes.insert(Place::of(path), Arc::new(node));
    }

    /// Takes a node away, which must have no children, and counts it out of its directory.
    pub(crate) fn remove(
        &mut self,
        directory: &ZnodePath,
        path: &ZnodePath,
        revision: Revision,
        now: Stamp,
    ) {
        let Self { nodes, ephemerals, idle } = self;
        let Some(node) = nodes.remove(&Place::of(path.clone())) else { return };
        match node.kind {
            Kind::Ephemeral(session) if node.contender.is_none() => {
                ephemerals.remove(&(session, path.clone()));
            }
            Kind::Container => {
                idle.remove(&(node.emptied_at, path.clone()));
            }
            Kind::Ephemeral(_) | Kind::Persistent | Kind::Ttl(_) => {}
        }
        if let Some(parent) = nodes.get_mut(&Place::of(directory.clone())).map(Arc::make_mut) {
            parent.children = parent.children.saturating_sub(1);
            parent.pzxid = revision;
            if parent.is_idle() {
                parent.emptied_at = now;
                idle.insert((now, directory.clone()));
            }
        }
    }

    /// Puts a node where a snapshot had it. Children are counted later, by [`Tree::recount`].
    /// False if there was one already.
    pub(crate) fn restore(&mut self, path: ZnodePath, node: Znode) -> bool {
        self.nodes.insert(Place::of(path), Arc::new(node)).is_none()
    }

    /// Counts children and rebuilds the orders after a snapshot was read.
    pub(crate) fn recount(&mut self) {
        self.ephemerals = OrdSet::new();
        self.idle = OrdSet::new();
        for (place, _) in self.nodes.clone() {
            if let Some(parent) = place.path().parent().and_then(|parent| self.get_mut(&parent)) {
                parent.children += 1;
            }
        }
        for (place, node) in &self.nodes {
            match node.kind {
                Kind::Ephemeral(session) if node.contender.is_none() => {
                    self.ephemerals.insert((session, place.path().clone()));
                }
                Kind::Container if node.is_idle() => {
                    self.idle.insert((node.emptied_at, place.path().clone()));
                }
                Kind::Ephemeral(_) | Kind::Persistent | Kind::Container | Kind::Ttl(_) => {}
            }
        }
    }

    /// Every node, directories before their children.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ZnodePath, &Arc<Znode>)> {
        self.nodes.iter().map(|(place, node)| (place.path(), node))
    }

    /// The nodes after a path in the order of [`Tree::iter`]; all of them without one.
    pub(crate) fn iter_after(
        &self,
        after: Option<&ZnodePath>,
    ) -> impl Iterator<Item = (&ZnodePath, &Arc<Znode>)> {
        let start = match after {
            Some(path) => Bound::Excluded(Place::of(path.clone())),
            None => Bound::Unbounded,
        };
        self.nodes.range((start, Bound::Unbounded)).map(|(place, node)| (place.path(), node))
    }

    /// The names of a directory's children, sorted.
    pub(crate) fn children<'a>(
        &'a self,
        directory: &'a ZnodePath,
    ) -> impl Iterator<Item = &'a str> + 'a {
        self.children_after(directory, None).map(|(path, _)| path.file_name())
    }

    /// A directory's children by name, after a name.
    pub(crate) fn children_after(
        &self,
        directory: &ZnodePath,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&ZnodePath, &Arc<Znode>)> {
        let inside = Place::before_children_of(directory);
        let start = match after.and_then(|name| directory.child(name).ok()) {
            Some(path) => Place::of(path),
            None => inside.clone(),
        };
        self.nodes
            .range((Bound::Excluded(start), Bound::Unbounded))
            .take_while(move |(place, _)| place.directory() == inside.directory())
            .map(|(place, node)| (place.path(), node))
    }

    /// Everything below a directory in the order of [`Tree::iter`], after a path: its children first, then what lies
    /// deeper. As many steps as are taken.
    pub(crate) fn below_after<'a>(
        &'a self,
        directory: &ZnodePath,
        after: Option<&ZnodePath>,
    ) -> impl Iterator<Item = (&'a ZnodePath, &'a Arc<Znode>)> + use<'a> {
        let children = Place::before_children_of(directory);
        let inside = children.directory().to_owned();
        // Deeper directories begin with this; the smallest component there can be is one space.
        let prefix = format!("{inside}/");
        let deeper = directory.child(" ").ok().map(|path| Place::before_children_of(&path));
        let after = after.map(|path| Place::of(path.clone()));
        let from = move |start: Place| match &after {
            Some(after) if *after > start => after.clone(),
            Some(_) | None => start,
        };
        let children = (Bound::Excluded(from(children)), Bound::Unbounded);
        let deeper = deeper.map(|start| (Bound::Excluded(from(start)), Bound::Unbounded));
        let children =
            self.nodes.range(children).take_while(move |(place, _)| place.directory() == inside);
        let deeper = deeper.into_iter().flat_map(|range| self.nodes.range(range));
        children
            .chain(deeper.take_while(move |(place, _)| place.directory().starts_with(&prefix)))
            .map(|(place, node)| (place.path(), node))
    }

    /// A session's ephemerals that are not contenders.
    pub(crate) fn ephemerals_of(&self, session: SessionId) -> Vec<ZnodePath> {
        self.ephemerals
            .range((session, ZnodePath::root())..)
            .take_while(|(owner, _)| *owner == session)
            .map(|(_, path)| path.clone())
            .collect()
    }

    /// The container that has been empty longest, and since when.
    pub(crate) fn idlest(&self) -> Option<(Stamp, ZnodePath)> {
        self.idle.get_min().cloned()
    }

    /// The orders, for comparison with rebuilt ones.
    pub(crate) fn orders(&self) -> (&Ephemerals, &Idle) {
        (&self.ephemerals, &self.idle)
    }
}
