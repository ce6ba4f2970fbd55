//! The watches of all streams, and the watches that a change fires, by ZooKeeper's rules.
//!
//! A watch is on the *data* side of a node (creation, deletion, change) or on its *child* side (deletion, changes of
//! its list of children). Reading data or existence arms the data side once; reading children arms the child side once.
//! A persistent watch arms both sides permanently. A recursive watch arms both sides of the node and of everything
//! below it permanently, without changes of lists of children. One change of one node gives each stream at most one
//! notice.
//!
//! Bound: the caller checks the counts before it arms a watch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_machine::Machine;
use holdfast_types::{AccessList, Identity, Perms, Rejection, TreeRejection, ZnodePath};

use super::message::{NoticeKind, WatchKind, WatchMode};
use crate::watch::{ancestors, is_visible};

/// The number of a stream on this node. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamNumber(pub(crate) u64);

/// The watches of one stream at one path, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchFlags(u8);

impl WatchFlags {
    /// The data side, once.
    pub(crate) const DATA: Self = Self(1);
    /// The child side, once.
    pub(crate) const CHILD: Self = Self(2);
    const DATA_STAYS: Self = Self(4);
    const CHILD_STAYS: Self = Self(8);
    const DATA_BELOW: Self = Self(16);
    const CHILD_BELOW: Self = Self(32);
    /// Both sides, permanently.
    pub(crate) const PERSISTENT: Self = Self::DATA_STAYS.and(Self::CHILD_STAYS);
    /// Both sides of the subtree, permanently.
    pub(crate) const RECURSIVE: Self = Self::DATA_BELOW.and(Self::CHILD_BELOW);

    const DATA_SIDE: Self = Self::DATA.and(Self::DATA_STAYS).and(Self::DATA_BELOW);
    const CHILD_SIDE: Self = Self::CHILD.and(Self::CHILD_STAYS).and(Self::CHILD_BELOW);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The number of watches: one for each side.
    pub(crate) const fn count(self) -> usize {
        self.meets(Self::DATA_SIDE) as usize + self.meets(Self::CHILD_SIDE) as usize
    }

    pub(crate) const fn of_mode(mode: WatchMode) -> Self {
        match mode {
            WatchMode::Persistent => Self::PERSISTENT,
            WatchMode::PersistentRecursive => Self::RECURSIVE,
        }
    }

    const fn of_kind(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Child => Self::CHILD_SIDE,
            WatchKind::Data => Self::DATA_SIDE,
            WatchKind::Any => Self::DATA_SIDE.and(Self::CHILD_SIDE),
        }
    }
}

/// A watch that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FiredWatch {
    pub(crate) stream: StreamNumber,
    pub(crate) kind: NoticeKind,
    pub(crate) path: ZnodePath,
    /// No read of the node armed the watch: the stream may not be allowed to see the path.
    pub(crate) unread: bool,
}

#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    by_path: HashMap<ZnodePath, BTreeMap<StreamNumber, WatchFlags>>,
    /// The streams that have not ended. Invariant: the paths at which `by_path` has watches of the stream, and the number of
    /// these watches.
    by_stream: BTreeMap<StreamNumber, (BTreeSet<ZnodePath>, usize)>,
    /// Entries of `by_path` with a recursive watch: ancestors are skipped while it is zero.
    recursive: usize,
    watches: usize,
    /// The paths at which `by_path` still has watches of streams that have ended.
    ended: Vec<(StreamNumber, BTreeSet<ZnodePath>)>,
}

impl WatchTable {
    pub(crate) fn len(&self) -> usize {
        self.watches
    }

    /// With those of ended streams that are not swept yet.
    pub(crate) fn paths(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn streams(&self) -> usize {
        self.by_stream.len()
    }

    pub(crate) fn len_of(&self, stream: StreamNumber) -> usize {
        self.by_stream.get(&stream).map_or(0, |(_, watches)| *watches)
    }

    pub(crate) fn paths_of(&self, stream: StreamNumber) -> impl Iterator<Item = &ZnodePath> {
        self.by_stream.get(&stream).into_iter().flat_map(|(paths, _)| paths)
    }

    /// The number of watches that arming would add.
    pub(crate) fn added(&self, stream: StreamNumber, path: &ZnodePath, arms: WatchFlags) -> usize {
        let old = self.live_arms(stream, path);
        old.and(arms).count() - old.count()
    }

    /// Arms a watch; an existing watch stays. Frees more memory of ended streams than it takes, so that clients which arm
    /// watches and leave take no memory without bound.
    pub(crate) fn arm(&mut self, stream: StreamNumber, path: &ZnodePath, arms: WatchFlags) {
        let old = self.live_arms(stream, path);
        self.put(stream, path, old, old.and(arms));
        self.sweep(2);
    }

    /// Returns whether the stream has a watch of that kind at the path.
    pub(crate) fn has(&self, stream: StreamNumber, path: &ZnodePath, kind: WatchKind) -> bool {
        self.live_arms(stream, path).meets(WatchFlags::of_kind(kind))
    }

    /// Removes the stream's watches of that kind. Returns false if it has none.
    pub(crate) fn remove(
        &mut self,
        stream: StreamNumber,
        path: &ZnodePath,
        kind: WatchKind,
    ) -> bool {
        let old = self.live_arms(stream, path);
        self.put(stream, path, old, old.without(WatchFlags::of_kind(kind)));
        old.meets(WatchFlags::of_kind(kind))
    }

    /// Ends the watches of a stream at once, however many it has. [`WatchTable::sweep`] frees their memory.
    pub(crate) fn forget(&mut self, stream: StreamNumber) {
        if let Some((paths, watches)) = self.by_stream.remove(&stream) {
            self.watches -= watches;
            self.ended.push((stream, paths));
        }
    }

    /// Frees the memory of at most `max` paths of ended streams.
    pub(crate) fn sweep(&mut self, max: usize) {
        for _ in 0..max {
            let Some((stream, paths)) = self.ended.last_mut() else { return };
            let (stream, path) = (*stream, paths.pop_last());
            let Some(path) = path else {
                self.ended.pop();
                continue;
            };
            let arms = self.arms(stream, &path);
            self.recursive -= usize::from(arms.meets(WatchFlags::RECURSIVE));
            self.take_out(stream, &path);
        }
    }

    /// The watches of a stream that has not ended. Those of an ended one wait for [`WatchTable::sweep`], and count no longer.
    fn live_arms(&self, stream: StreamNumber, path: &ZnodePath) -> WatchFlags {
        if self.by_stream.contains_key(&stream) {
            self.arms(stream, path)
        } else {
            WatchFlags::default()
        }
    }

    fn arms(&self, stream: StreamNumber, path: &ZnodePath) -> WatchFlags {
        let found = self.by_path.get(path).and_then(|streams| streams.get(&stream));
        found.copied().unwrap_or_default()
    }

    fn put(&mut self, stream: StreamNumber, path: &ZnodePath, old: WatchFlags, new: WatchFlags) {
        if new == old {
            return;
        }
        if new == WatchFlags::default() {
            self.take_out(stream, path);
        } else {
            self.by_path.entry(path.clone()).or_default().insert(stream, new);
            self.by_stream.entry(stream).or_default().0.insert(path.clone());
        }
        self.recursive += usize::from(new.meets(WatchFlags::RECURSIVE));
        self.recursive -= usize::from(old.meets(WatchFlags::RECURSIVE));
        self.watches = self.watches + new.count() - old.count();
        if let Some((paths, watches)) = self.by_stream.get_mut(&stream) {
            *watches = *watches + new.count() - old.count();
            if paths.is_empty() {
                self.by_stream.remove(&stream);
            }
        }
    }

    fn take_out(&mut self, stream: StreamNumber, path: &ZnodePath) {
        if let Some(streams) = self.by_path.get_mut(path) {
            streams.remove(&stream);
            if streams.is_empty() {
                self.by_path.remove(path);
            }
        }
        if let Some((paths, _)) = self.by_stream.get_mut(&stream) {
            paths.remove(path);
        }
    }

    /// Returns the watches that a change fires, in the order of the notices. Removes one-shot watches.
    pub(crate) fn fire(&mut self, kind: NoticeKind, path: &ZnodePath) -> Vec<FiredWatch> {
        let (own, once) = match kind {
            NoticeKind::Created | NoticeKind::Changed => (WatchFlags::DATA_SIDE, WatchFlags::DATA),
            NoticeKind::Deleted => (
                WatchFlags::DATA_SIDE.and(WatchFlags::CHILD_SIDE),
                WatchFlags::DATA.and(WatchFlags::CHILD),
            ),
            NoticeKind::ChildrenChanged => {
                (WatchFlags::CHILD_SIDE.without(WatchFlags::CHILD_BELOW), WatchFlags::CHILD)
            }
        };
        let here = self.concerned(path.as_str(), own);
        let above = match kind {
            NoticeKind::ChildrenChanged => BTreeSet::new(),
            NoticeKind::Created | NoticeKind::Changed | NoticeKind::Deleted => {
                self.concerned_above(path, own, &here)
            }
        };
        // `exists` arms the watch that tells of the creation, without a read of the node.
        let by_read = match kind {
            NoticeKind::Created => BTreeSet::new(),
            NoticeKind::Changed | NoticeKind::Deleted | NoticeKind::ChildrenChanged => {
                self.concerned(path.as_str(), once)
            }
        };
        self.spend(path, once);
        let fired = |stream, unread| FiredWatch { stream, kind, path: path.clone(), unread };
        let here = here.into_iter().map(|stream| fired(stream, !by_read.contains(&stream)));
        let mut all: Vec<_> =
            here.chain(above.into_iter().map(|stream| fired(stream, true))).collect();
        if matches!(kind, NoticeKind::Created | NoticeKind::Deleted)
            && let Some(parent) = path.parent()
        {
            all.extend(self.fire(NoticeKind::ChildrenChanged, &parent));
        }
        all
    }

    fn concerned(&self, path: &str, arms: WatchFlags) -> BTreeSet<StreamNumber> {
        let streams = self.by_path.get(path).into_iter().flatten();
        let armed = streams.filter(|(_, found)| found.meets(arms)).map(|(stream, _)| *stream);
        armed.filter(|stream| self.by_stream.contains_key(stream)).collect()
    }

    /// Returns streams with a recursive watch above the path and no firing watch at it.
    fn concerned_above(
        &self,
        path: &ZnodePath,
        arms: WatchFlags,
        here: &BTreeSet<StreamNumber>,
    ) -> BTreeSet<StreamNumber> {
        if self.recursive == 0 {
            return BTreeSet::new();
        }
        let arms = WatchFlags(arms.0 & WatchFlags::RECURSIVE.0);
        let above = ancestors(path.as_str()).flat_map(|above| self.concerned(above, arms));
        above.filter(|stream| !here.contains(stream)).collect()
    }

    /// Removes one-shot watches.
    fn spend(&mut self, path: &ZnodePath, once: WatchFlags) {
        let Some(streams) = self.by_path.get(path) else { return };
        let armed: Vec<_> = streams
            .iter()
            .filter(|(stream, arms)| arms.meets(once) && self.by_stream.contains_key(stream))
            .map(|(stream, arms)| (*stream, *arms))
            .collect();
        for (stream, arms) in armed {
            self.put(stream, path, arms, arms.without(once));
        }
    }
}

/// A change that fires a watch. A stream shows its client those of znodes that the client may read, as in ZooKeeper from
/// 3.9.2 on. The access list of the time of the change counts, and not the one of the time at which the watch was armed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FiredChange<'a> {
    pub(crate) kind: NoticeKind,
    pub(crate) path: &'a ZnodePath,
    /// The access list of a deleted znode; `None` is the open list.
    pub(crate) deleted_acl: Option<&'a AccessList>,
    /// No read of the znode armed the watch.
    pub(crate) unread: bool,
}

impl FiredChange<'_> {
    /// Whether a client with these identities may see the change.
    pub(crate) fn is_shown(&self, machine: &Machine, identities: &[Identity]) -> bool {
        if self.kind == NoticeKind::Deleted {
            return self.deleted_acl.is_none_or(|acl| acl.allows(Perms::READ, identities));
        }
        match machine.exists(self.path, identities) {
            Ok(_) => true,
            // A later command of the same log entry deleted the znode. Its deletion does not fire the watch again.
            Err(Rejection::Tree(TreeRejection::NoZnode { .. })) => {
                !self.unread || is_visible(machine, self.path, identities)
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
