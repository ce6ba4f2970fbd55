//! The parts of a snapshot and their items (`docs/formats/snapshot.md`), and about how many bytes each takes.

use holdfast_types::{
    AclEntry, Attempt, Data, FencingToken, Incarnation, Labels, Limits, LockName, LockPolicy, Mode,
    NodeId, Outcome, Owner, Password, ReleaseRequest, RequestId, Revision, SessionEnd, SessionId,
    SessionName, Stamp, Ttl, ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::lock::cooldown::{Cooldowns, GrantInterval, LockDelay};
use crate::lock::index::StoredPolicy;
use crate::lock::lock_entry::{AcquireOptions, Hold, LockEntry};
use crate::recipe::RecipePart;
use crate::session::attempts::LeftLock;
use crate::session::memo;
use crate::session::store::Session;
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind};

/// A bounded piece of a snapshot. They come in the order of the variants, except that recipes come
/// before the end; the head and the end come exactly once.
/// Append-only: the order of the variants and fields is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
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
pub struct Head {
    /// Of the last command applied.
    pub revision: Revision,
    /// The largest stamp seen.
    pub now: Stamp,
    /// The rolling digest.
    pub digest: u64,
    /// The bounds in force.
    pub limits: Limits,
    /// Tokens minted so far.
    pub grants: u64,
    /// Session numbers given so far.
    pub sessions_minted: u64,
    /// Tombstone numbers given so far.
    pub tombstones_minted: u64,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionPart {
    pub id: SessionId,
    pub name: SessionName,
    /// What it lives without a renewal.
    pub ttl: Ttl,
    pub generation: u64,
    /// Made for one lock.
    pub anonymous: bool,
    pub opened_at: Stamp,
    pub labels: Labels,
    /// Locks that its owners left, the oldest record first.
    pub left: Vec<LeftLockPart>,
    /// Attempts up to this one are over, unless they keep a place.
    pub attempt_floor: Attempt,
    /// Remembered answers, oldest first.
    pub memo: Vec<(RequestId, Outcome)>,
    /// What another connection must show to take it over.
    pub password: Option<Password>,
    /// The connection that speaks for it.
    pub attachment: Option<Revision>,
}

/// What a session remembers of a lock that one of its owners left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeftLockPart {
    /// The lock; of a shard the sharded lock.
    pub lock: LockName,
    pub owner: Owner,
    /// The owner released it itself and has not come back since.
    pub released: bool,
    /// The newest attempt that is over; 0 if none had a number.
    pub over: Attempt,
}

/// The memory of an ended session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TombstonePart {
    /// Order of the endings.
    pub number: u64,
    pub name: SessionName,
    /// How it ended.
    pub end: SessionEnd,
    pub ended_at: Stamp,
    /// The session that ended; 0 if none of that name was ever opened.
    pub incarnation: SessionId,
    /// Its attempts up to this one are over.
    pub over: Attempt,
}

/// How long a znode lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ZnodeKindPart {
    /// Until deleted.
    Persistent,
    /// Until deleted, or swept when empty since then.
    Container(Stamp),
    /// As long as this session.
    Ephemeral(SessionId),
    /// Until deleted, or swept when empty and unchanged for so many milliseconds.
    Ttl(u64),
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodePart {
    pub path: ZnodePath,
    pub kind: ZnodeKindPart,
    pub data: Data,
    pub czxid: Revision,
    /// Revision that last changed its data.
    pub mzxid: Revision,
    /// Revision that last created or deleted a child.
    pub pzxid: Revision,
    /// Stamp of the creation.
    pub ctime: Stamp,
    /// Stamp of the last change of its data.
    pub mtime: Stamp,
    /// Changes of its data.
    pub version: i32,
    /// Changes of its access list.
    pub aversion: i32,
    /// Its access list; empty if everybody may do everything.
    pub acl: Vec<AclEntry>,
    /// Children created ever.
    pub created: u64,
    /// Of a directory of locks: what it remembers.
    pub lock_directory: Option<LockDirectoryPart>,
    /// Of an entry: its place.
    pub entry: Option<LockEntryPart>,
}

/// What a directory of locks remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockDirectoryPart {
    /// Where its counter began.
    pub base: u64,
    /// Where the counter of a new directory in it begins.
    pub floor: u64,
    /// The last token minted for it, if it is a lock's.
    pub last_token: Option<FencingToken>,
    /// The lock's policy, if any were set.
    pub stored_policy: Option<StoredPolicyPart>,
    /// Why it is granted to nobody, if it is closed.
    pub cooldowns: Option<CooldownsPart>,
}

/// The policy of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoredPolicyPart {
    /// All of them.
    pub policy: LockPolicy,
    /// Set by an operator: the directory is not swept.
    pub kept: bool,
}

/// Why a lock is closed: for at least one of three reasons.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CooldownsPart {
    /// Until when those who gave it back wanted to keep it from others.
    pub min_hold: Option<Stamp>,
    /// The time between two grants.
    pub cooldown: Option<GrantIntervalPart>,
    /// A time for those who lost the lock to notice it.
    pub delay: Option<LockDelayPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrantIntervalPart {
    /// Its beginning.
    pub since: Stamp,
    /// Its end.
    pub until: Stamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockDelayPart {
    /// Its beginning.
    pub since: Stamp,
    /// Its end.
    pub until: Stamp,
    /// Sessions that end it when they have all taken note, sorted; none if it takes its time.
    pub lost: Vec<SessionName>,
}

/// A place in a lock's queue. The ticket is the node's `czxid`, the time its `ctime`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockEntryPart {
    /// Its number in the directory.
    pub sequence: u64,
    pub owner: Owner,
    /// Revision of its latest acquire.
    pub asked: Revision,
    /// The attempts that keep it in its place, sorted.
    pub attempts: Vec<Attempt>,
    /// Present on the holder.
    pub hold: Option<HoldPart>,
    /// How long its latest acquire waits, milliseconds.
    pub wait_ms: Option<u64>,
    /// How it wants to hold.
    pub mode: Mode,
    /// Its class in the order of the queue, and its time there.
    pub rank: (u8, i64),
    /// No other entry overtakes it.
    pub fixed: bool,
    /// What it asked for, if not the plain thing.
    pub options: Option<AcquireOptionsPart>,
}

/// What an entry asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AcquireOptionsPart {
    /// Permits of a semaphore.
    pub permits: u32,
    /// From 0 to 9.
    pub priority: u8,
    /// Whether other attempts may join.
    pub reentrant: bool,
    /// The longest hold, milliseconds.
    pub max_hold_ms: Option<u64>,
    /// The shortest, as far as others are concerned, milliseconds.
    pub min_hold_ms: Option<u64>,
    /// Shown beside it.
    pub value: Option<Data>,
    /// The locks that it asked for at once, sorted; none if it asked for its own alone.
    pub multi_lock: Vec<LockName>,
}

/// What the grant left on a holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HoldPart {
    pub token: FencingToken,
    pub granted_at: Stamp,
    /// Revision of the grant.
    pub granted_in: Revision,
    /// How it holds.
    pub mode: Mode,
    /// When it was first granted.
    pub since: Stamp,
    /// Slots of a semaphore, one to each permit, sorted.
    pub slots: Vec<u32>,
    /// That it is asked for.
    pub release_request: Option<ReleaseRequest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// Sessions that came.
    pub sessions: u64,
    /// Tombstones that came.
    pub tombstones: u64,
    /// Nodes of the registry that came.
    pub members: u64,
    /// Znodes that came.
    pub znodes: u64,
    /// Recipes that came.
    pub recipes: u64,
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
            left: session.left.records().cloned().map(LeftLockPart::of).collect(),
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

impl LeftLockPart {
    fn of(left: LeftLock) -> Self {
        let LeftLock { lock, owner, released, over } = left;
        Self { lock, owner, released, over }
    }
}

impl NodePart {
    pub(crate) fn of(path: &ZnodePath, node: &Znode) -> Self {
        Self {
            path: path.clone(),
            kind: match node.kind {
                ZnodeKind::Persistent => ZnodeKindPart::Persistent,
                ZnodeKind::Container(since) => ZnodeKindPart::Container(since),
                ZnodeKind::Ephemeral(session) => ZnodeKindPart::Ephemeral(session),
                ZnodeKind::Ttl(ms) => ZnodeKindPart::Ttl(ms),
            },
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
            lock_directory: node.lock_directory().map(LockDirectoryPart::of),
            entry: node.entry().map(|entry| LockEntryPart::of(entry)),
        }
    }

    pub(crate) fn weight(&self) -> usize {
        let entry = self.entry.as_ref().map_or(0, LockEntryPart::weight);
        let acl: usize = self.acl.iter().map(|e| 32 + e.who.scheme.len() + e.who.id.len()).sum();
        256 + self.path.as_str().len() + self.data.len() + acl + entry
    }
}

impl LockDirectoryPart {
    fn of(lock_directory: &LockDirectory) -> Self {
        let stored_policy = |stored_policy: &StoredPolicy| StoredPolicyPart {
            policy: stored_policy.policy,
            kept: stored_policy.kept,
        };
        Self {
            base: lock_directory.base,
            floor: lock_directory.floor,
            last_token: lock_directory.last_token,
            stored_policy: lock_directory.stored_policy.as_deref().map(stored_policy),
            cooldowns: lock_directory.cooldowns.as_deref().map(CooldownsPart::of),
        }
    }
}

impl CooldownsPart {
    fn of(cooldowns: &Cooldowns) -> Self {
        let Cooldowns { min_hold, cooldown, delay } = cooldowns.clone();
        let cooldown =
            cooldown.map(|GrantInterval { since, until }| GrantIntervalPart { since, until });
        let delay =
            delay.map(|LockDelay { since, until, lost }| LockDelayPart { since, until, lost });
        Self { min_hold, cooldown, delay }
    }
}

impl LockEntryPart {
    fn weight(&self) -> usize {
        let attempts = self.attempts.len() * size_of::<Attempt>();
        let value = self.options.as_ref().and_then(|options| options.value.as_ref());
        let slots = self.hold.as_ref().map_or(0, |hold| hold.slots.len());
        let multi_lock = self.options.iter().flat_map(|options| &options.multi_lock);
        let multi_lock: usize = multi_lock.map(|lock| lock.as_str().len()).sum();
        multi_lock + attempts + value.map_or(0, |value| value.len()) + 4 * slots
    }

    fn of(entry: &LockEntry) -> Self {
        Self {
            sequence: entry.sequence(),
            owner: entry.owner.clone(),
            asked: entry.asked,
            attempts: entry.attempts.as_slice().to_vec(),
            hold: entry.hold.as_deref().map(HoldPart::of),
            wait_ms: entry.wait_ms,
            mode: entry.mode,
            rank: (entry.rank.class, entry.rank.at),
            fixed: entry.fixed,
            options: entry.options.as_deref().cloned().map(AcquireOptionsPart::of),
        }
    }
}

impl AcquireOptionsPart {
    fn of(options: AcquireOptions) -> Self {
        let AcquireOptions {
            permits,
            priority,
            reentrant,
            max_hold_ms,
            min_hold_ms,
            value,
            multi_lock,
        } = options;
        let multi_lock = multi_lock.map_or(Vec::new(), |multi_lock| multi_lock.to_vec());
        Self { permits, priority, reentrant, max_hold_ms, min_hold_ms, value, multi_lock }
    }
}

impl HoldPart {
    fn of(hold: &Hold) -> Self {
        Self {
            token: hold.token,
            granted_at: hold.granted_at,
            granted_in: hold.granted_in,
            mode: hold.mode,
            since: hold.since,
            slots: hold.slots.to_vec(),
            release_request: hold.release_request.as_deref().cloned(),
        }
    }
}
