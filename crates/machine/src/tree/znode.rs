//! One znode: its data, its stat, and its lock state.
//!
//! Versions and counters follow the rules of ZooKeeper. There may be millions of znodes, so rarely used fields are
//! behind one pointer ([`ZnodeRole`]).

use std::sync::Arc;

use holdfast_types::{
    AccessList, CONTAINER_OWNER, Data, FencingToken, Revision, SessionId, Stamp, Stat, TTL_OWNER,
};
use serde::{Deserialize, Serialize};

use crate::lock::cooldown::Cooldowns;
use crate::lock::index::StoredPolicy;
use crate::lock::lock_entry::LockEntry;
use crate::stored_bytes::bytes_of;

/// The lifetime of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ZnodeKind {
    /// Until deleted.
    Persistent,
    /// Until deleted, or swept after it has been empty for long enough. The stamp is that of its creation or of the
    /// removal of its last child; it has no meaning while the znode has children.
    Container(Stamp),
    /// Until its session ends.
    Ephemeral(SessionId),
    /// Until deleted, or swept when it has no children and its data has not changed for this number of milliseconds.
    Ttl(u64),
}

/// An access list; `None` allows every client everything. Znodes with the same list may share it.
pub(crate) type Acl = Option<Arc<AccessList>>;

/// The role of a znode for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZnodeRole {
    /// No role.
    Plain,
    /// A directory of locks with lock state. Invariant: not ephemeral, and at or below `/locks`.
    Directory(Box<LockDirectory>),
    /// A queue entry. Invariant: an ephemeral child of a lock's directory.
    LockEntry(Arc<LockEntry>),
}

/// The lock state of a directory. It ensures that entry names and tokens are never repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockDirectory {
    /// The start of its child counter.
    pub(crate) base: u64,
    /// The start of the child counter of a new directory in it. Invariant: at least `base`, and never decreases.
    pub(crate) floor: u64,
    /// The last token minted for it. Invariant: present exactly if the lock was ever granted.
    pub(crate) last_token: Option<FencingToken>,
    /// The lock's policy.
    pub(crate) stored_policy: Option<Arc<StoredPolicy>>,
    /// Present while the lock is in cooldown.
    pub(crate) cooldowns: Option<Arc<Cooldowns>>,
}

impl LockDirectory {
    /// True for the directory of a lock that was granted or has a policy.
    pub(crate) fn is_of_lock(&self) -> bool {
        self.last_token.is_some() || self.stored_policy.is_some()
    }

    /// True if it must not be swept: an operator has set its policy, or it is in cooldown.
    fn stays(&self) -> bool {
        self.cooldowns.is_some()
            || self.stored_policy.as_ref().is_some_and(|stored_policy| stored_policy.kept)
    }
}

/// The key of a znode in the node index. One set contains all keys, in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeIndexKey {
    /// Ephemerals that are not queue entries, by session. The lock index finds queue entries.
    OfSession(SessionId),
    /// Empty containers that had children, by the removal of the last child.
    Idle(Stamp),
    /// Containers that never had a child, by creation.
    Unused(Stamp),
    /// Nodes with a TTL and without children, by the end of the TTL.
    Due(Stamp),
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Znode {
    pub(crate) kind: ZnodeKind,
    pub(crate) data: Data,
    pub(crate) czxid: Revision,
    pub(crate) mzxid: Revision,
    pub(crate) pzxid: Revision,
    pub(crate) ctime: Stamp,
    pub(crate) mtime: Stamp,
    pub(crate) version: i32,
    /// The number of changes of the access list.
    pub(crate) aversion: i32,
    /// Invariant: the number of current children.
    pub(crate) children: u32,
    pub(crate) acl: Acl,
    /// The number of children ever created. Invariant: it never decreases.
    pub(crate) created: u64,
    pub(crate) role: ZnodeRole,
}

impl Znode {
    /// Creates a node in this revision.
    pub(crate) fn new(kind: ZnodeKind, data: Data, revision: Revision, now: Stamp) -> Self {
        Self {
            kind,
            data,
            czxid: revision,
            mzxid: revision,
            pzxid: revision,
            ctime: now,
            mtime: now,
            version: 0,
            aversion: 0,
            children: 0,
            acl: None,
            created: 0,
            role: ZnodeRole::Plain,
        }
    }

    /// True for an ephemeral, which cannot have children.
    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self.kind, ZnodeKind::Ephemeral(_))
    }

    /// The queue entry, if the znode is one.
    pub(crate) fn entry(&self) -> Option<&Arc<LockEntry>> {
        match &self.role {
            ZnodeRole::LockEntry(entry) => Some(entry),
            ZnodeRole::Plain | ZnodeRole::Directory(_) => None,
        }
    }

    /// The lock state of a directory.
    pub(crate) fn lock_directory(&self) -> Option<&LockDirectory> {
        match &self.role {
            ZnodeRole::Directory(lock_directory) => Some(lock_directory),
            ZnodeRole::Plain | ZnodeRole::LockEntry(_) => None,
        }
    }

    /// The lock state of a directory, created if it is missing; `None` for a queue entry.
    pub(crate) fn lock_directory_mut(&mut self) -> Option<&mut LockDirectory> {
        if matches!(self.role, ZnodeRole::Plain) {
            self.role = ZnodeRole::Directory(Box::default());
        }
        match &mut self.role {
            ZnodeRole::Directory(lock_directory) => Some(lock_directory),
            ZnodeRole::Plain | ZnodeRole::LockEntry(_) => None,
        }
    }

    /// The last token minted for the lock of this directory.
    pub(crate) fn last_token(&self) -> Option<FencingToken> {
        self.lock_directory().and_then(|lock_directory| lock_directory.last_token)
    }

    /// The number of the next sequential child.
    pub(crate) fn counter(&self) -> u64 {
        self.lock_directory()
            .map_or(0, |lock_directory| lock_directory.base)
            .saturating_add(self.created)
    }

    /// The start of the child counter of a new directory in it; 0 outside directories of locks.
    pub(crate) fn floor(&self) -> u64 {
        self.lock_directory().map_or(0, |lock_directory| lock_directory.floor)
    }

    /// The number of its next child, or of the first child of a new directory in it.
    pub(crate) fn next_sequence(&self, in_new_directory: bool) -> u64 {
        if in_new_directory { self.floor() } else { self.counter() }
    }

    /// Its key in the node index, if it has one.
    pub(crate) fn order(&self) -> Option<NodeIndexKey> {
        match (self.kind, self.children) {
            (ZnodeKind::Ephemeral(session), _) => match self.role {
                ZnodeRole::LockEntry(_) => None,
                ZnodeRole::Plain | ZnodeRole::Directory(_) => {
                    Some(NodeIndexKey::OfSession(session))
                }
            },
            (ZnodeKind::Container(_) | ZnodeKind::Ttl(_), 0)
                if self.lock_directory().is_some_and(LockDirectory::stays) =>
            {
                None
            }
            (ZnodeKind::Container(since), 0) if self.created == 0 => {
                Some(NodeIndexKey::Unused(since))
            }
            (ZnodeKind::Container(since), 0) => Some(NodeIndexKey::Idle(since)),
            (ZnodeKind::Ttl(ms), 0) => {
                Some(NodeIndexKey::Due(Stamp(self.mtime.0.saturating_add(ms))))
            }
            (ZnodeKind::Persistent | ZnodeKind::Container(_) | ZnodeKind::Ttl(_), _) => None,
        }
    }

    /// The number of bytes that clients have stored in it, without its path.
    pub(crate) fn bytes(&self) -> u64 {
        let acl = self.acl.iter().flat_map(|acl| acl.entries());
        let acl: usize = acl.map(|entry| bytes_of(&entry.who)).sum();
        let entry = self.entry().map_or(0, |entry| entry.bytes());
        (self.data.len() + acl + entry) as u64
    }

    /// Counts a new child. A renamed one is older than the last change of the directory.
    pub(crate) fn count_child(&mut self, revision: Revision) {
        self.created += 1;
        self.children += 1;
        self.pzxid = self.pzxid.max(revision);
    }

    /// Records the removal of a child.
    pub(crate) fn uncount_child(&mut self, revision: Revision, now: Stamp) {
        self.children = self.children.saturating_sub(1);
        self.pzxid = revision;
        if let (ZnodeKind::Container(since), 0) = (&mut self.kind, self.children) {
            *since = now;
        }
    }

    /// Makes a container persistent, so that it is not swept.
    pub(crate) fn keep(&mut self) {
        if matches!(self.kind, ZnodeKind::Container(_)) {
            self.kind = ZnodeKind::Persistent;
        }
    }

    /// Replaces the data.
    pub(crate) fn set_data(&mut self, data: Data, revision: Revision, now: Stamp) {
        self.data = data;
        self.mzxid = revision;
        self.mtime = now;
        self.version = self.version.wrapping_add(1);
    }

    /// The ZooKeeper stat. `cversion` counts creates and deletes: twice the creates minus the current children.
    pub(crate) fn stat(&self) -> Stat {
        let ephemeral_owner = match self.kind {
            ZnodeKind::Persistent => 0,
            ZnodeKind::Container(_) => CONTAINER_OWNER,
            ZnodeKind::Ephemeral(session) => session.0.cast_signed(),
            ZnodeKind::Ttl(ms) => TTL_OWNER + ms.cast_signed(),
        };
        let changes = self.created.wrapping_mul(2).wrapping_sub(self.children.into());
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            pzxid: self.pzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: low_half(changes),
            aversion: self.aversion,
            ephemeral_owner,
            data_length: i32::try_from(self.data.len()).unwrap_or(i32::MAX),
            num_children: i32::try_from(self.children).unwrap_or(i32::MAX),
        }
    }
}

/// The low 32 bits as a signed number, which wraps like the counters of ZooKeeper.
fn low_half(n: u64) -> i32 {
    u32::try_from(n & u64::from(u32::MAX)).unwrap_or_default().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Millions of nodes are in memory. With the counts of its `Arc`, a node fits in 144 bytes.
    #[test]
    fn a_znode_is_small() {
        assert!(size_of::<Znode>() <= 120, "{}", size_of::<Znode>());
    }
}
