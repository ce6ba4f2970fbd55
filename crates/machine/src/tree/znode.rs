//! One znode: its data, its stat, and what the lock engine keeps on it.
//!
//! The numbers follow the rules of `ZooKeeper`. There may be millions of znodes, so what few need is behind one pointer
//! ([`ZnodeRole`]).

use std::sync::Arc;

use holdfast_types::{
    AclEntry, CONTAINER_OWNER, Data, FencingToken, Revision, SessionId, Stamp, Stat, TTL_OWNER,
};
use serde::{Deserialize, Serialize};

use crate::lock::cooldown::Cooldowns;
use crate::lock::lock_entry::LockEntry;
use crate::lock::stored_policy::StoredPolicy;
use crate::stored_bytes::bytes_of;

/// How long a znode lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ZnodeKind {
    /// Until deleted.
    Persistent,
    /// Until deleted, or swept when empty since then: since its last child went, or its creation. Meaningless while it
    /// has children.
    Container(Stamp),
    /// As long as its session.
    Ephemeral(SessionId),
    /// Until deleted, or swept when it is empty and was not changed for so many milliseconds.
    Ttl(u64),
}

/// An access list; none lets everybody do everything. Shared between the znodes it was set on together.
pub(crate) type Acl = Option<Arc<AccessList>>;

/// The entries of a list. Never empty, and never the one that lets everybody do everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessList(Box<[AclEntry]>);

impl AccessList {
    /// A list of these entries.
    pub(crate) fn new(entries: Vec<AclEntry>) -> Self {
        Self(entries.into())
    }

    /// The entries in the order in which they were set.
    pub(crate) fn entries(&self) -> &[AclEntry] {
        &self.0
    }
}

/// What a znode is to the lock engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZnodeRole {
    /// Nothing.
    Plain,
    /// A directory of locks that remembers something. Invariant: not ephemeral, and at or below `/locks`.
    Directory(Box<LockDirectory>),
    /// A place in a queue. Invariant: an ephemeral in a lock's directory.
    LockEntry(Arc<LockEntry>),
}

/// What a directory of locks remembers, so that no entry's name and no token is ever repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockDirectory {
    /// Where its counter began.
    pub(crate) base: u64,
    /// Where the counter of a new directory in it begins. Invariant: at least `base`, and never goes back.
    pub(crate) floor: u64,
    /// The last token minted for it. Invariant: present exactly if a lock was ever granted here.
    pub(crate) last_token: Option<FencingToken>,
    /// The lock's policy.
    pub(crate) stored_policy: Option<Arc<StoredPolicy>>,
    /// Why the lock is granted to nobody, if it is closed.
    pub(crate) cooldowns: Option<Arc<Cooldowns>>,
}

impl LockDirectory {
    /// True if it is that of a lock: one was granted here, or has policy.
    pub(crate) fn is_of_lock(&self) -> bool {
        self.last_token.is_some() || self.stored_policy.is_some()
    }

    /// True if it must not be swept: an operator set its policy, or it is closed.
    fn stays(&self) -> bool {
        self.cooldowns.is_some()
            || self.stored_policy.as_ref().is_some_and(|stored_policy| stored_policy.kept)
    }
}

/// Where a znode stands in the orders of the tree. One set holds them all, in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeIndexKey {
    /// Ephemerals that are not queue entries (those are found through their keys), by session.
    OfSession(SessionId),
    /// Containers that had children, by the time since which they are empty.
    Idle(Stamp),
    /// Containers that never had a child, by the time of their creation.
    Unused(Stamp),
    /// Childless nodes with a time-to-live, by its end.
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
    /// Changes of the access list.
    pub(crate) aversion: i32,
    /// Children now. Invariant: equals the number of nodes below this one.
    pub(crate) children: u32,
    pub(crate) acl: Acl,
    /// Children created ever. Invariant: never goes back.
    pub(crate) created: u64,
    pub(crate) role: ZnodeRole,
}

impl Znode {
    /// A node made by this revision.
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

    /// True if it can have no children.
    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self.kind, ZnodeKind::Ephemeral(_))
    }

    /// The place in a queue.
    pub(crate) fn entry(&self) -> Option<&Arc<LockEntry>> {
        match &self.role {
            ZnodeRole::LockEntry(entry) => Some(entry),
            ZnodeRole::Plain | ZnodeRole::Directory(_) => None,
        }
    }

    /// What a directory of locks remembers.
    pub(crate) fn lock_directory(&self) -> Option<&LockDirectory> {
        match &self.role {
            ZnodeRole::Directory(lock_directory) => Some(lock_directory),
            ZnodeRole::Plain | ZnodeRole::LockEntry(_) => None,
        }
    }

    /// What a directory of locks remembers, which begins here if there was none. None of an entry.
    pub(crate) fn lock_directory_mut(&mut self) -> Option<&mut LockDirectory> {
        if matches!(self.role, ZnodeRole::Plain) {
            self.role = ZnodeRole::Directory(Box::default());
        }
        match &mut self.role {
            ZnodeRole::Directory(lock_directory) => Some(lock_directory),
            ZnodeRole::Plain | ZnodeRole::LockEntry(_) => None,
        }
    }

    /// The last token minted for a lock's directory.
    pub(crate) fn last_token(&self) -> Option<FencingToken> {
        self.lock_directory().and_then(|lock_directory| lock_directory.last_token)
    }

    /// The next sequential child's number.
    pub(crate) fn counter(&self) -> u64 {
        self.lock_directory()
            .map_or(0, |lock_directory| lock_directory.base)
            .saturating_add(self.created)
    }

    /// Where the counter of a new directory in it begins, if it is a directory of locks.
    pub(crate) fn floor(&self) -> u64 {
        self.lock_directory().map_or(0, |lock_directory| lock_directory.floor)
    }

    /// The number of its next child, or of the first child of a directory that is still to be made in it.
    pub(crate) fn next_sequence(&self, in_new_directory: bool) -> u64 {
        if in_new_directory { self.floor() } else { self.counter() }
    }

    /// In which of the tree's orders it stands.
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

    /// What clients have stored in it, bytes; its path counts beside.
    pub(crate) fn bytes(&self) -> u64 {
        let acl = self.acl.iter().flat_map(|acl| acl.entries());
        let acl: usize = acl.map(|entry| bytes_of(&entry.who)).sum();
        let place = self.entry().map_or(0, |entry| entry.bytes());
        (self.data.len() + acl + place) as u64
    }

    /// Counts a new child.
    pub(crate) fn child_came(&mut self, revision: Revision) {
        self.created += 1;
        self.children += 1;
        self.pzxid = revision;
    }

    /// Counts a child out.
    pub(crate) fn child_went(&mut self, revision: Revision, now: Stamp) {
        self.children = self.children.saturating_sub(1);
        self.pzxid = revision;
        if let (ZnodeKind::Container(since), 0) = (&mut self.kind, self.children) {
            *since = now;
        }
    }

    /// Replaces the data.
    pub(crate) fn set_data(&mut self, data: Data, revision: Revision, now: Stamp) {
        self.data = data;
        self.mzxid = revision;
        self.mtime = now;
        self.version = self.version.wrapping_add(1);
    }

    /// The stat as clients see it. `cversion` counts creates and deletes: twice the creates less the children left.
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

/// The low 32 bits as a signed number: a counter that wraps as `ZooKeeper`'s do.
fn low_half(n: u64) -> i32 {
    u32::try_from(n & u64::from(u32::MAX)).unwrap_or_default().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million of them are kept in memory: with the counts of its `Arc` a node fits in 144 bytes.
    #[test]
    fn a_znode_is_small() {
        assert!(size_of::<Znode>() <= 120, "{}", size_of::<Znode>());
    }
}
