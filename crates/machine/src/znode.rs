//! One znode: its data, its stat, and what the lock engine notes on it.
//!
//! Owns `ZooKeeper`'s rules for a single node's numbers. Refuses to know where the node lies.

use std::sync::Arc;

use holdfast_types::{
    AclEntry, CONTAINER_OWNER, FencingToken, Revision, SessionId, Stamp, Stat, TTL_OWNER,
};

use crate::contender::Contender;

/// How long a znode lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Until deleted.
    Persistent,
    /// Until deleted, or swept when empty.
    Container,
    /// As long as its session.
    Ephemeral(SessionId),
    /// Until deleted, or swept when it is empty and was not changed for so many milliseconds.
    Ttl(u64),
}

/// An access list; none lets everybody do everything. Never empty. Shared between the znodes it was set on together.
pub(crate) type Acl = Option<Arc<[AclEntry]>>;

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Znode {
    pub(crate) kind: Kind,
    pub(crate) data: Arc<[u8]>,
    pub(crate) czxid: Revision,
    pub(crate) mzxid: Revision,
    pub(crate) pzxid: Revision,
    pub(crate) ctime: Stamp,
    pub(crate) mtime: Stamp,
    pub(crate) version: i32,
    /// Changes of the access list.
    pub(crate) aversion: i32,
    pub(crate) acl: Acl,
    /// Children created ever; the next sequential child's number. Invariant: never goes back.
    pub(crate) created: u64,
    /// Children now. Invariant: equals the number of nodes below this one.
    pub(crate) children: u32,
    /// When the last child went, or the node was created. Meaningful for containers without children.
    pub(crate) emptied_at: Stamp,
    /// Of a lock's directory: the last token minted for it. Invariant: present exactly if a lock was ever granted here.
    pub(crate) last_token: Option<FencingToken>,
    /// Of a contender: what the lock engine knows of it. Invariant: only on ephemerals in a lock's directory.
    pub(crate) contender: Option<Arc<Contender>>,
}

impl Znode {
    /// A node made by this revision.
    pub(crate) fn new(kind: Kind, data: Arc<[u8]>, revision: Revision, now: Stamp) -> Self {
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
            acl: None,
            created: 0,
            children: 0,
            emptied_at: now,
            last_token: None,
            contender: None,
        }
    }

    /// True if it can have no children.
    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self.kind, Kind::Ephemeral(_))
    }

    /// True if the sweep may take it, once it has been empty long enough.
    pub(crate) fn is_idle(&self) -> bool {
        self.kind == Kind::Container && self.children == 0
    }

    /// Replaces the data.
    pub(crate) fn set_data(&mut self, data: Arc<[u8]>, revision: Revision, now: Stamp) {
        self.data = data;
        self.mzxid = revision;
        self.mtime = now;
        self.version = self.version.wrapping_add(1);
    }

    /// The stat as clients see it. `cversion` counts creates and deletes: twice the creates less the children left.
    pub(crate) fn stat(&self) -> Stat {
        let ephemeral_owner = match self.kind {
            Kind::Persistent => 0,
            Kind::Container => CONTAINER_OWNER,
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
