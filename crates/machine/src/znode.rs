//! One znode: its data, its stat, and what the lock engine notes on it.
//!
//! Owns `ZooKeeper`'s rules for a single node's numbers, and in which of the tree's orders it stands. Refuses to know
//! where the node lies. There may be millions: what few need lies behind one pointer ([`Role`]).

use std::sync::Arc;

use holdfast_types::{
    AclEntry, CONTAINER_OWNER, Data, FencingToken, Revision, SessionId, Stamp, Stat, TTL_OWNER,
};

use crate::closing::Closings;
use crate::contender::Contender;
use crate::locks::Rules;
use crate::room::bytes_of;

/// How long a znode lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
pub(crate) enum Role {
    /// Nothing.
    Plain,
    /// A directory of locks with a past. Invariant: not ephemeral, and at or below `/locks`.
    Directory(Box<Past>),
    /// A place in a queue. Invariant: an ephemeral in a lock's directory.
    Contender(Arc<Contender>),
}

/// What a directory of locks remembers, so that no contender's name and no token is ever repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Where its counter began.
    pub(crate) base: u64,
    /// Where the counter of a new directory in it begins. Invariant: at least `base`, and never goes back.
    pub(crate) floor: u64,
    /// The last token minted for it. Invariant: present exactly if a lock was ever granted here.
    pub(crate) last_token: Option<FencingToken>,
    /// The lock's rules.
    pub(crate) rules: Option<Arc<Rules>>,
    /// Why the lock is granted to nobody, if it is closed.
    pub(crate) closed: Option<Arc<Closings>>,
}

impl Past {
    /// True if it is that of a lock: one was granted here, or has rules.
    pub(crate) fn is_of_lock(&self) -> bool {
        self.last_token.is_some() || self.rules.is_some()
    }

    /// True if it must not be swept: an operator set its rules, or it is closed.
    fn stays(&self) -> bool {
        self.closed.is_some() || self.rules.as_ref().is_some_and(|rules| rules.kept)
    }
}

/// Where a znode stands in the orders of the tree. One set holds them all, in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Ephemerals that are not contenders (those are found through their claims), by session.
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
    pub(crate) kind: Kind,
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
    pub(crate) role: Role,
}

impl Znode {
    /// A node made by this revision.
    pub(crate) fn new(kind: Kind, data: Data, revision: Revision, now: Stamp) -> Self {
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
            role: Role::Plain,
        }
    }

    /// True if it can have no children.
    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self.kind, Kind::Ephemeral(_))
    }

    /// The place in a queue.
    pub(crate) fn contender(&self) -> Option<&Arc<Contender>> {
        match &self.role {
            Role::Contender(contender) => Some(contender),
            Role::Plain | Role::Directory(_) => None,
        }
    }

    /// The past of a directory of locks.
    pub(crate) fn past(&self) -> Option<&Past> {
        match &self.role {
            Role::Directory(past) => Some(past),
            Role::Plain | Role::Contender(_) => None,
        }
    }

    /// The past of a directory of locks, which begins here if there was none. None of a contender.
    pub(crate) fn past_mut(&mut self) -> Option<&mut Past> {
        if matches!(self.role, Role::Plain) {
            self.role = Role::Directory(Box::default());
        }
        match &mut self.role {
            Role::Directory(past) => Some(past),
            Role::Plain | Role::Contender(_) => None,
        }
    }

    /// The last token minted for a lock's directory.
    pub(crate) fn last_token(&self) -> Option<FencingToken> {
        self.past().and_then(|past| past.last_token)
    }

    /// The next sequential child's number.
    pub(crate) fn counter(&self) -> u64 {
        self.past().map_or(0, |past| past.base).saturating_add(self.created)
    }

    /// Where the counter of a new directory in it begins, if it is a directory of locks.
    pub(crate) fn floor(&self) -> u64 {
        self.past().map_or(0, |past| past.floor)
    }

    /// The number of its next child, or of the first child of a directory that is still to be made in it.
    pub(crate) fn next_sequence(&self, in_new_directory: bool) -> u64 {
        if in_new_directory { self.floor() } else { self.counter() }
    }

    /// In which of the tree's orders it stands.
    pub(crate) fn order(&self) -> Option<Order> {
        match (self.kind, self.children) {
            (Kind::Ephemeral(session), _) => match self.role {
                Role::Contender(_) => None,
                Role::Plain | Role::Directory(_) => Some(Order::OfSession(session)),
            },
            (Kind::Container(_) | Kind::Ttl(_), 0) if self.past().is_some_and(Past::stays) => None,
            (Kind::Container(since), 0) if self.created == 0 => Some(Order::Unused(since)),
            (Kind::Container(since), 0) => Some(Order::Idle(since)),
            (Kind::Ttl(ms), 0) => Some(Order::Due(Stamp(self.mtime.0.saturating_add(ms)))),
            (Kind::Persistent | Kind::Container(_) | Kind::Ttl(_), _) => None,
        }
    }

    /// What clients have stored in it, bytes; its path counts beside.
    pub(crate) fn bytes(&self) -> u64 {
        let acl = self.acl.iter().flat_map(|acl| acl.entries());
        let acl: usize = acl.map(|entry| bytes_of(&entry.who)).sum();
        let place = self.contender().map_or(0, |contender| contender.bytes());
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
        if let (Kind::Container(since), 0) = (&mut self.kind, self.children) {
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
            Kind::Persistent => 0,
            Kind::Container(_) => CONTAINER_OWNER,
            Kind::Ephemeral(session) => session.0.cast_signed(),
            Kind::Ttl(ms) => TTL_OWNER + ms.cast_signed(),
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
