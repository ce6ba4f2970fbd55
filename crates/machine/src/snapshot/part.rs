//! The parts of a snapshot and their items (`docs/contributing/formats/snapshot.md`), and the approximate size of each.
//!
//! Items are the machine's own types where these have little derived state: then the order of their fields is part of the
//! format. A field that is derived is left out, and a load computes it.

use std::sync::Arc;

use holdfast_types::{
    AclEntry, AcquireOptions, Attempt, AuditClass, AuditEvicted, AuditRecord, ClusterId, Data,
    FeatureLevel, Limits, LockSet, Member, Mode, NodeId, Owner, Retirement, Revision, Seal,
    SessionEnd, SessionId, Stamp, ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::auth::part::AuthPart;
use crate::clocks::ClockRecord;
use crate::cluster::LastBackup;
use crate::lock::claims::LockClaim;
use crate::lock::lock_entry::{Hold, LockEntry, SLOT_BYTES};
use crate::recipe::RecipePart;
use crate::session::lease_records::StoredLease;
use crate::session::store::{Session, Tombstone};
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind};

/// A bounded piece of a snapshot, for [`crate::Machine::load`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPart(pub(crate) Part);

/// The content of a part. Parts come in the order of the variants, except that the end is the last. The head and
/// the end occur exactly once. The order of the variants and fields is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Counters and limits.
    Head(Head),
    /// Live sessions, in the order of their numbers.
    Sessions(Vec<Arc<Session>>),
    /// Tombstones of expired sessions, then of closed sessions, each in the order of their ends, with its number in it.
    Tombstones(Vec<(SessionEnd, u64, Tombstone)>),
    /// The members, by id, and then the former ones.
    Members(Vec<ClusterMemberPart>),
    /// Znodes, directories before their children.
    Nodes(Vec<NodePart>),
    /// The number of items, which reveals a truncated snapshot.
    End(End),
    /// Latches, barriers, double barriers and counters, each kind in name order. They come between the nodes and the
    /// authorization.
    Recipes(Vec<RecipePart>),
    /// The mode, roles, subjects and access tokens. They come between the recipes and the audit trail.
    Auth(Vec<AuthPart>),
    /// The audit trail, the oldest record first. It comes before the end.
    Audit(Vec<AuditRecord>),
    /// The last backup. It comes between the audit trail and the end, only after the first backup.
    LastBackup(LastBackup),
    /// The seal, and the sessions that were closed under it. It comes between the last backup and the end, only in a sealed
    /// cluster.
    Seal(Seal, Vec<SessionId>),
    /// The clocks of the members. They come between the seal and the end, only after the first record.
    Clocks(ClockRecord),
    /// The records of leases, by session. They come between the clocks and the end, only if there are some.
    Leases(Vec<(SessionId, StoredLease)>),
    /// The evicted records of the audit trail, by class. They come between the authorization and the audit trail, only if
    /// there are some.
    AuditEvicted(Vec<(AuditClass, AuditEvicted)>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The revision of the last applied command.
    pub(crate) revision: Revision,
    /// The largest stamp so far.
    pub(crate) now: Stamp,
    /// The rolling digest.
    pub(crate) digest: u64,
    pub(crate) cluster_id: Option<ClusterId>,
    /// When this cluster was restored, by the clock of that machine.
    pub(crate) restored_at: Option<Stamp>,
    pub(crate) level: FeatureLevel,
    /// The current limits.
    pub(crate) limits: Limits,
    /// The number of tokens minted.
    pub(crate) grants: u64,
    /// The last session number.
    pub(crate) sessions_minted: u64,
    /// The last tombstone number.
    pub(crate) tombstones_minted: u64,
}

/// A present or former member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ClusterMemberPart {
    Current(NodeId, Member),
    Retired(NodeId, Retirement),
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct NodePart {
    pub(crate) path: ZnodePath,
    pub(crate) kind: ZnodeKind,
    pub(crate) data: Data,
    pub(crate) czxid: Revision,
    /// The revision of the last change of its data.
    pub(crate) mzxid: Revision,
    /// The revision of the last creation or deletion of a child.
    pub(crate) pzxid: Revision,
    /// The stamp of its creation.
    pub(crate) ctime: Stamp,
    /// The stamp of the last change of its data.
    pub(crate) mtime: Stamp,
    /// The number of changes of its data.
    pub(crate) version: i32,
    /// The number of changes of its access list.
    pub(crate) aversion: i32,
    /// Its access list; empty for the open list.
    pub(crate) acl: Vec<AclEntry>,
    /// The number of children ever created.
    pub(crate) created: u64,
    /// The lock state of a directory.
    pub(crate) lock_directory: Option<LockDirectory>,
    /// The queue entry, if the znode is one.
    pub(crate) entry: Option<LockEntryPart>,
}

/// A queue entry. Its ticket is the `czxid` of the node, its enqueue time the `ctime`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockEntryPart {
    /// Its sequence number in the directory.
    pub(crate) sequence: u64,
    pub(crate) owner: Owner,
    /// The revision of its latest acquire.
    pub(crate) requested_in: Revision,
    /// The claims that keep the entry, sorted.
    pub(crate) claims: Vec<LockClaim>,
    /// Present exactly on a holder.
    pub(crate) hold: Option<Box<Hold>>,
    /// The maximum wait of its latest acquire in milliseconds.
    pub(crate) wait_ms: Option<u64>,
    /// The attempt that set the value.
    pub(crate) value_by: Attempt,
    /// The requested mode.
    pub(crate) mode: Mode,
    /// The class and the time of its rank.
    pub(crate) rank: (u8, i64),
    /// True if no other entry overtakes it.
    pub(crate) never_overtaken: bool,
    /// Whether it may move to another shard while it waits.
    pub(crate) any_shard: bool,
    pub(crate) permits: u32,
    /// `None` for the default options.
    pub(crate) options: Option<Box<AcquireOptions>>,
    /// The locks of its multi-lock.
    pub(crate) multi_lock: Option<Arc<LockSet>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct End {
    /// The number of live sessions.
    pub(crate) sessions: u64,
    /// The number of tombstones.
    pub(crate) tombstones: u64,
    /// The number of present and former members.
    pub(crate) members: u64,
    /// The number of znodes.
    pub(crate) znodes: u64,
    /// The number of recipes.
    pub(crate) recipes: u64,
    /// The number of items of the authorization.
    pub(crate) auth: u64,
    /// The number of audit records.
    pub(crate) audit: u64,
}

/// The approximate size of a session in bytes.
pub(crate) fn weight_of_session(session: &Session) -> usize {
    let labels: usize = session.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    let left = session.ended_attempts.records.iter();
    let left = left.map(|left| 16 + left.lock.as_str().len() + left.owner.as_str().len());
    256 + labels + left.sum::<usize>() + session.memo.weight()
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
        let claims = self.claims.len() * size_of::<LockClaim>();
        let value = self.options.as_ref().and_then(|options| options.value.as_ref());
        let slots = self.hold.as_ref().map_or(0, |hold| hold.slots.len());
        let multi_lock = self.multi_lock.iter().flat_map(|locks| locks.iter());
        let multi_lock: usize = multi_lock.map(|lock| lock.as_str().len()).sum();
        multi_lock + claims + value.map_or(0, |value| value.len()) + SLOT_BYTES * slots
    }

    fn of(entry: &LockEntry) -> Self {
        Self {
            sequence: entry.sequence(),
            owner: entry.owner.clone(),
            requested_in: entry.requested_in,
            claims: entry.claims.as_slice().to_vec(),
            hold: entry.hold.clone(),
            wait_ms: entry.wait_ms,
            value_by: entry.value_by,
            mode: entry.mode,
            rank: (entry.rank.class, entry.rank.at),
            never_overtaken: entry.never_overtaken,
            any_shard: entry.any_shard,
            permits: entry.permits,
            options: entry.options.clone(),
            multi_lock: entry.multi_lock.clone(),
        }
    }
}
