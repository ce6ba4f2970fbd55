//! The deterministic answer to a command: the same on every node, part of the log's meaning.

use serde::{Deserialize, Serialize};

use crate::{
    Attempt, Cooldown, Data, FencingToken, HolderView, LockName, LockPolicy, Mode, Owner, Perms,
    RecipeRejection, RecipeReply, Revision, SessionId, SessionName, Stamp, Stat, Ticket, Ttl,
    ZnodePath,
};

/// What a command did, or why it did nothing. A rejected command changes nothing except the revision counter.
pub type Outcome = Result<Reply, Rejection>;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// The caller has an entry in the queue of each lock of its acquire.
    Acquired(EntryState),
    Released(Released),
    /// The caller left the queue before a grant.
    Cancelled,
    /// The session is open.
    SessionOpened(SessionOpenedReply),
    /// The session has a new lease.
    SessionRenewed {
        id: SessionId,
        /// What it lives without a renewal.
        ttl: Ttl,
    },
    /// The session has ended, now or before.
    SessionEnded,
    /// The znodes are changed.
    Multi(MultiReply),
    /// So many containers were removed.
    Swept {
        count: u32,
    },
    /// The bounds are changed.
    LimitsSet,
    /// The node's id is tied to its data directory.
    NodeRegistered,
    /// The session speaks through another connection from this revision on.
    SessionAttached {
        session: SessionName,
        /// What it lives without a renewal.
        ttl: Ttl,
    },
    /// The recipe is changed.
    Recipe(RecipeReply),
    /// The rules of the lock are changed.
    PolicySet {
        /// All of them, as they are now.
        policy: LockPolicy,
    },
    /// What was due of the lock is done.
    DueDone {
        /// How many holds ended.
        ended: u32,
    },
    /// Places were taken away.
    Broken {
        places: u32,
    },
    /// Holders are asked to give the lock back.
    ReleaseRequested {
        holders: u32,
    },
    /// Another session holds the lock now.
    HandedOver(Grant),
}

/// The state of an owner's queue entries: one for each lock of an acquire, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EntryState {
    Holding(Vec<Grant>),
    Waiting(Vec<Queued>),
}

impl EntryState {
    /// The grant of the only lock; `None` for a waiter and for a multi-lock.
    pub fn into_single_grant(self) -> Option<Grant> {
        let Self::Holding(mut grants) = self else { return None };
        grants.pop().filter(|_| grants.is_empty())
    }
}

/// The answer to [`crate::Command::OpenSession`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionOpenedReply {
    pub id: SessionId,
    pub ttl: Ttl,
    /// False if the session was open before.
    pub created: bool,
}

/// The answer to [`crate::Command::Multi`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MultiReply {
    /// Whether the conditions held: `then` was done, or else `otherwise`.
    pub succeeded: bool,
    /// One to each operation that was done, in order.
    pub results: Vec<OpReply>,
}

/// What one operation of a multi did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OpReply {
    /// The node exists now.
    Created {
        /// With the sequence number, if any.
        path: ZnodePath,
        stat: Stat,
    },
    /// So many nodes are gone: one, or a subtree.
    Deleted { count: u32 },
    /// The data is replaced.
    DataSet { stat: Stat },
    /// The access list is replaced.
    AclSet { stat: Stat },
    /// The node is as expected.
    Checked,
}

/// A hold of a lock, as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    /// The place that was granted.
    pub ticket: Ticket,
    /// Larger than every token minted before.
    pub token: FencingToken,
    /// How it is held.
    pub mode: Mode,
    /// Permits held; 1 on a lock that is no semaphore.
    pub permits: u32,
    /// On a semaphore: one slot to each permit, held by nobody else, sorted.
    pub slots: Vec<u32>,
    /// The smallest token of the lock that is still good: a store that shared holders write to refuses less.
    pub floor: FencingToken,
    /// When the hold ends whatever the session does, if the acquire said so.
    pub ends_at: Option<Stamp>,
    /// The session's time-to-live.
    pub ttl: Ttl,
    /// Entries counted.
    pub hold_count: u32,
    /// True if the lock was held by this owner before the command.
    pub renewed: bool,
    /// Who waits behind it.
    pub waiters: u32,
    /// When it was granted.
    pub granted_at: Stamp,
    /// Revision of the grant.
    pub granted_in: Revision,
    /// What its acquire said to show.
    pub value: Option<Data>,
}

/// A place in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Queued {
    /// In the queue of which lock: of one that was asked for by its segments, the segment.
    pub lock: LockName,
    pub ticket: Ticket,
    /// Revision of the owner's latest acquire for this place: the first one's equals the ticket.
    pub asked: Revision,
    /// Waiters ahead; holders are not counted.
    pub ahead: u32,
    /// The first of those who hold the lock now, itself apart; none only if it is closed, or kept for
    /// somebody who waits for several.
    pub holder: Option<Box<HolderView>>,
    /// Until when the lock is granted to nobody, if it is closed.
    pub cooldown: Option<Cooldown>,
    /// How it is to be held.
    pub mode: Mode,
    pub session: SessionId,
    /// The session's time-to-live.
    pub ttl: Ttl,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Released {
    /// Attempts that still keep the lock, of several locks the largest number. 0 means that the owner has no entry left.
    pub hold_count: u32,
    /// False if there was nothing to release.
    pub changed: bool,
}

/// A bound of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bound {
    /// `sessions_max`.
    Sessions,
    /// `znodes_max`.
    Znodes,
    /// `waiters_per_lock_max`.
    WaitersPerLock,
    /// `queue_entries_per_session_max`.
    QueueEntriesPerSession,
    /// `hold_count_max`.
    HoldCount,
    /// `data_bytes_max`.
    DataBytes,
    /// The sequence counter of a directory, or the grant counter, has reached its end.
    Counter,
    /// A path grew too long.
    PathLength,
    /// Znodes of a subtree that one command deletes.
    DeletedAtOnce,
    /// Operations and conditions of one multi.
    OpsOfMulti,
    /// Entries of an access list.
    AclEntries,
    /// Znodes that one command counts because it sets a quota on them.
    CountedAtOnce,
    /// `ephemerals_per_session_max`.
    EphemeralsPerSession,
    /// `recipes_max`.
    Recipes,
    /// Places of one session in recipes, promises of one latch, or arrivals at one double barrier.
    RecipePlaces,
    /// Permits of one request: the limit of the semaphore.
    Permits,
    /// Bytes of a place's value.
    ValueBytes,
    /// `tree_bytes_max`.
    TreeBytes,
}

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rejection {
    Lock(LockRejection),
    Session(SessionRejection),
    Tree(TreeRejection),
    Recipe(RecipeRejection),
    /// A configured limit is reached.
    LimitReached {
        bound: Bound,
        limit: u64,
    },
    /// A number of the request is out of its bounds.
    OutOfBounds {
        what: OutOfBounds,
    },
    /// Another data directory already uses this node id.
    NodeIdTaken,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockRejection {
    /// Another owner holds the lock, and the caller does not wait.
    Busy { holder: Box<HolderView>, waiters: u32 },
    /// The lock is free but in cooldown, and the caller does not wait.
    InCooldown { cooldown: Cooldown, waiters: u32 },
    /// The lock is free but reserved for a multi-lock that still waits for another lock. The caller does not wait.
    Reserved { waiters: u32 },
    /// The caller neither holds the lock nor released it before.
    NotHolder {
        /// The present holder.
        holder: Box<HolderView>,
    },
    /// The attempt is over: it was released, cancelled or lost, or is older than the session remembers.
    AttemptOver {
        /// A new attempt needs a larger number.
        newest: Attempt,
    },
    /// The lock has another limit than the call names.
    LimitMismatch {
        /// `None`: the lock is not a semaphore.
        limit: Option<u32>,
    },
    /// The owner's queue entry has another number of permits than the call names.
    PermitsMismatch { permits: u32 },
    /// The mode of the owner's queue entry cannot become the requested mode.
    ModeConflict {
        /// The present mode.
        mode: Mode,
    },
    /// The owner already has a queue entry, and one of the two acquires is not re-entrant.
    NotReentrant,
    /// The change is possible only while the lock has no queue entries.
    InUse {
        /// Holders and waiters.
        entries: u32,
    },
    /// The caller would wait for itself.
    Deadlock {
        /// The wait cycle from the caller on: each waits for the next, the last for the caller. At most
        /// [`LockRejection::CYCLE_MAX`] are named. The caller is missing if its session is new.
        cycle: Vec<Blocked>,
    },
    /// The lock has no holder, so there is nothing to hand over.
    NotHeld,
    /// The receiver of a hand-over already holds the lock.
    AlreadyHolds { holder: Box<HolderView> },
    /// A hand-over would overtake a client of the tree, which the queue order alone may grant.
    CannotOvertake,
    /// The owner already has an entry in a lock, with other locks than this acquire names.
    AlreadyQueued {
        /// The first such lock.
        lock: LockName,
    },
    /// One lock of a multi-lock was rejected, and so the whole command.
    OfMultiLock { lock: LockName, why: Box<Rejection> },
    /// The lock has another number of shards than the call names.
    ShardsMismatch {
        /// `None`: the lock is not sharded.
        segments: Option<u32>,
    },
}

impl LockRejection {
    /// Members of a wait cycle that are named.
    pub const CYCLE_MAX: usize = 16;
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionRejection {
    /// The session expired recently: its locks are lost.
    Expired { session: SessionName },
    /// No session has this name.
    Unknown { session: SessionName },
    /// The lease was renewed, or the session ended, before the expiry was applied.
    LeaseRenewed,
    /// The session is bound to another connection.
    Moved { session: SessionName },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TreeRejection {
    NoZnode {
        path: ZnodePath,
    },
    ZnodeExists {
        path: ZnodePath,
    },
    /// The znode has children.
    NotEmpty {
        path: ZnodePath,
    },
    BadVersion {
        path: ZnodePath,
        /// The present version.
        actual: i32,
    },
    /// An ephemeral znode cannot have children.
    NoChildrenForEphemerals {
        /// The ephemeral znode.
        path: ZnodePath,
    },
    /// The znode cannot be changed this way: the root, `/locks`, or a reserved one.
    Reserved {
        path: ZnodePath,
    },
    /// One operation of a multi was rejected, and so all of them.
    OfOperation {
        /// Its index in `then` or `otherwise`, from 0.
        at: u32,
        why: Box<Rejection>,
    },
    /// The znode's access list does not permit the operation.
    NotAllowed {
        path: ZnodePath,
        needed: Perms,
    },
    /// The access list is empty, or names no known identity.
    BadAcl {
        path: ZnodePath,
    },
    /// A hard quota is reached.
    QuotaExceeded {
        /// The root of the subtree that has the quota.
        path: ZnodePath,
        /// Znodes or bytes.
        limit: u64,
    },
}

impl From<LockRejection> for Rejection {
    fn from(rejection: LockRejection) -> Self {
        Self::Lock(rejection)
    }
}

impl From<SessionRejection> for Rejection {
    fn from(rejection: SessionRejection) -> Self {
        Self::Session(rejection)
    }
}

impl From<TreeRejection> for Rejection {
    fn from(rejection: TreeRejection) -> Self {
        Self::Tree(rejection)
    }
}

/// A member of a wait cycle: a session, its owner, and the lock that it waits for.
pub type Blocked = (SessionName, Owner, LockName);

/// A number that no call of ours makes so large or so small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OutOfBounds {
    /// `permits`.
    Permits,
    /// `limit`.
    Limit,
    /// `priority`.
    Priority,
    /// `max_hold`.
    MaxHold,
    /// `min_hold`.
    MinHold,
    /// A rule of a policy.
    Policy,
    /// The deadline of a request to release.
    Deadline,
    /// An option of a single lock on a multi-lock.
    Locks,
    /// `segments`.
    Segments,
}
