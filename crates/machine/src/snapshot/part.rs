//! The parts of a snapshot and their items (`docs/formats/snapshot.md`), and the approximate size of each.
//!
//! An item that has no index is the type of the machine itself.

use std::sync::Arc;

use holdfast_types::{
    AclEntry, AcquireOptions, Attempt, Data, Incarnation, Labels, Limits, LockSet, Mode, NodeId,
    Outcome, Owner, Password, RequestId, Revision, SessionEnd, SessionId, SessionName, Stamp, Ttl,
    ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::lock::lock_entry::{Hold, LockEntry};
use crate::recipe::RecipePart;
use crate::session::attempts::LeftLock;
use crate::session::memo;
use crate::session::store::Session;
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind};

/// A bounded piece of a snapshot, for [`crate::Machine::load`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPart(pub(crate) Part);

/// The content of a part. Parts come in the order of the variants, except that recipes come before the end; the head and
/// the end come exactly once. The order of the variants and fields is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Counters and limits.
    Head(Head),
    /// Live sessions, by number.
    Sessions(Vec<SessionPart>),
    /// Ended sessions that are still remembered: those that expired, then those that were closed, each in the order
    /// of their endings.
    Tombstones(Vec<TombstonePart>),
    /// The registry of nodes, by id.
    Members(Vec<(NodeId, Incarnation)>),
    /// Znodes, directories before their children.
    Nodes(Vec<NodePart>),
    /// How many items came: a snapshot that was cut short is recognised.
    End(End),
    /// Latches, barriers, double barriers and counters, each kind by name. They come between the nodes and the end.
    Recipes(Vec<RecipePart>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Of the last command applied.
    pub(crate) revision: Revision,
    /// The largest stamp seen.
    pub(crate) now: Stamp,
    /// The rolling digest.
    pub(crate) digest: u64,
    /// The bounds in force.
    pub(crate) limits: Limits,
    /// Tokens minted so far.
    pub(crate) grants: u64,
    /// Session numbers given so far.
    pub(crate) sessions_minted: u64,
    /// Tombstone numbers given so far.
    pub(crate) tombstones_minted: u64,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SessionPart {
    pub(crate) id: SessionId,
    pub(crate) name: SessionName,
    /// What it lives without a renewal.
    pub(crate) ttl: Ttl,
    pub(crate) generation: u64,
    /// Made for one lock.
    pub(crate) anonymous: bool,
    pub(crate) opened_at: Stamp,
    pub(crate) labels: Labels,
    /// Locks that its owners left, the oldest record first.
    pub(crate) left: Vec<LeftLock>,
    /// Attempts up to this one are over, unless they keep a place.
    pub(crate) attempt_floor: Attempt,
    /// Remembered answers, oldest first.
    pub(crate) memo: Vec<(RequestId, Outcome)>,
    /// What another connection must show to take it over.
    pub(crate) password: Option<Password>,
    /// The connection that speaks for it.
    pub(crate) attachment: Option<Revision>,
}

/// The memory of an ended session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct TombstonePart {
    /// Order of the endings.
    pub(crate) number: u64,
    pub(crate) name: SessionName,
    /// How it ended.
    pub(crate) end: SessionEnd,
    pub(crate) ended_at: Stamp,
    /// The session that ended; 0 if none of that name was ever opened.
    pub(crate) incarnation: SessionId,
    /// Its attempts up to this one are over.
    pub(crate) over: Attempt,
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct NodePart {
    pub(crate) path: ZnodePath,
    pub(crate) kind: ZnodeKind,
    pub(crate) data: Data,
    pub(crate) czxid: Revision,
    /// Revision that last changed its data.
    pub(crate) mzxid: Revision,
    /// Revision that last created or deleted a child.
    pub(crate) pzxid: Revision,
    /// Stamp of the creation.
    pub(crate) ctime: Stamp,
    /// Stamp of the last change of its data.
    pub(crate) mtime: Stamp,
    /// Changes of its data.
    pub(crate) version: i32,
    /// Changes of its access list.
    pub(crate) aversion: i32,
    /// Its access list; empty if everybody may do everything.
    pub(crate) acl: Vec<AclEntry>,
    /// Children created ever.
    pub(crate) created: u64,
    /// Of a directory of locks: what it remembers.
    pub(crate) lock_directory: Option<LockDirectory>,
    /// Of an entry: its place.
    pub(crate) entry: Option<LockEntryPart>,
}

/// A place in a lock's queue. The ticket is the node's `czxid`, the time its `ctime`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockEntryPart {
    /// Its number in the directory.
    pub(crate) sequence: u64,
    pub(crate) owner: Owner,
    /// Revision of its latest acquire.
    pub(crate) asked: Revision,
    /// The attempts that keep it in its place, sorted.
    pub(crate) attempts: Vec<Attempt>,
    /// Present on the holder.
    pub(crate) hold: Option<Box<Hold>>,
    /// How long its latest acquire waits, milliseconds.
    pub(crate) wait_ms: Option<u64>,
    /// How it wants to hold.
    pub(crate) mode: Mode,
    /// Its class in the order of the queue, and its time there.
    pub(crate) rank: (u8, i64),
    /// No other entry overtakes it.
    pub(crate) fixed: bool,
    pub(crate) permits: u32,
    /// `None` for the plain options.
    pub(crate) options: Option<Box<AcquireOptions>>,
    /// The locks of its multi-lock.
    pub(crate) multi_lock: Option<Arc<LockSet>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct End {
    /// Sessions that came.
    pub(crate) sessions: u64,
    /// Tombstones that came.
    pub(crate) tombstones: u64,
    /// Nodes of the registry that came.
    pub(crate) members: u64,
    /// Znodes that came.
    pub(crate) znodes: u64,
    /// Recipes that came.
    pub(crate) recipes: u64,
}

impl SessionPart {
    pub(crate) fn of(session: &Session) -> Self {
        Self {
            id: session.id,
            name: session.name.clone(),
            ttl: session.ttl,
            generation: session.generation,
            anonymous: session.anonymous,
            opened_at: session.opened_at,
            labels: session.labels.clone(),
            left: session.left.records().cloned().collect(),
            attempt_floor: session.left.floor(),
            memo: session.memo.iter().cloned().collect(),
            password: session.password,
            attachment: session.attachment,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        let left =
            self.left.iter().map(|left| left.lock.as_str().len() + left.owner.as_str().len());
        let left: usize = left.map(|names| names + 16).sum();
        let memo: usize = self.memo.iter().map(|(_, outcome)| memo::weight(outcome)).sum();
        256 + labels + left + memo
    }
}

impl NodePart {
    pub(crate) fn of(path: &ZnodePath, node: &Znode) -> Self {
        Self {
            path: path.clone(),
            kind: node.kind,
            data: node.data.clone(),
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            aversion: node.aversion,
            acl: node.acl.as_ref().map_or(Vec::new(), |acl| acl.entries().to_vec()),
            created: node.created,
            lock_directory: node.lock_directory().cloned(),
            entry: node.entry().map(|entry| LockEntryPart::of(entry)),
        }
    }

    pub(crate) fn weight(&self) -> usize {
        let entry = self.entry.as_ref().map_or(0, LockEntryPart::weight);
        let acl: usize = self.acl.iter().map(|e| 32 + e.who.scheme.len() + e.who.id.len()).sum();
        256 + self.path.as_str().len() + self.data.len() + acl + entry
    }
}

impl LockEntryPart {
    fn weight(&self) -> usize {
        let attempts = self.attempts.len() * size_of::<Attempt>();
        let value = self.options.as_ref().and_then(|options| options.value.as_ref());
        let slots = self.hold.as_ref().map_or(0, |hold| hold.slots.len());
        let multi_lock = self.multi_lock.iter().flat_map(|locks| locks.iter());
        let multi_lock: usize = multi_lock.map(|lock| lock.as_str().len()).sum();
        multi_lock + attempts + value.map_or(0, |value| value.len()) + 4 * slots
    }

    fn of(entry: &LockEntry) -> Self {
        Self {
            sequence: entry.sequence(),
            owner: entry.owner.clone(),
            asked: entry.asked,
            attempts: entry.attempts.as_slice().to_vec(),
            hold: entry.hold.clone(),
            wait_ms: entry.wait_ms,
            mode: entry.mode,
            rank: (entry.rank.class, entry.rank.at),
            fixed: entry.fixed,
            permits: entry.permits,
            options: entry.options.clone(),
            multi_lock: entry.multi_lock.clone(),
        }
    }
}
