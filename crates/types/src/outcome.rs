//! The deterministic answer to a command: the same on every node, part of the log's meaning.

use serde::{Deserialize, Serialize};

use crate::{
    Attempt, Closed, Data, FencingToken, HolderView, LockName, Mode, Owner, Perms, Policy,
    RecipeRejection, RecipeReply, Revision, SessionId, SessionName, Stamp, Stat, Ticket, Ttl,
    ZnodePath,
};

/// What a command did, or why it did nothing. A rejected command changes nothing except the revision counter.
pub type Outcome = Result<Reply, Rejection>;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// The caller holds the lock.
    Granted(Grant),
    /// The caller has a place in the queue.
    Queued(Queued),
    /// The caller no longer holds or waits.
    Released(Released),
    /// The caller left the queue before any grant.
    Cancelled,
    /// The session is open.
    SessionOpened {
        id: SessionId,
        /// What it lives without a renewal.
        ttl: Ttl,
        /// False if it was open before.
        created: bool,
    },
    /// The session has a new lease.
    SessionRenewed {
        id: SessionId,
        /// What it lives without a renewal.
        ttl: Ttl,
    },
    /// The session has ended, now or before.
    SessionEnded,
    /// The znodes are changed.
    Multi {
        /// Whether the conditions held: `then` was done, or else `otherwise`.
        succeeded: bool,
        /// One to each operation, in order.
        results: Vec<OpReply>,
    },
    /// So many containers were removed.
    Swept { count: u32 },
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
        policy: Policy,
    },
    /// What was due of the lock is done.
    DueDone {
        /// How many holds ended.
        ended: u32,
    },
    /// Places were taken away.
    Broken { places: u32 },
    /// Holders are asked to give the lock back.
    ReleaseAsked { holders: u32 },
    /// Another session holds the lock now.
    HandedOver(Grant),
    /// The caller holds all the locks that it asked for at once, in their order.
    GrantedAll(Vec<Grant>),
    /// The caller has a place in the queue of each of the locks that it asked for at once, in their order.
    QueuedAll(Vec<(LockName, Queued)>),
    /// The caller no longer holds or waits.
    ReleasedAll {
        /// Places given up.
        changed: u32,
    },
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
    pub entries: u32,
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
    pub closed: Option<Closed>,
    /// How it is to be held.
    pub mode: Mode,
    pub session: SessionId,
    /// The session's time-to-live.
    pub ttl: Ttl,
}

/// What a release did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Released {
    /// Entries that still hold the lock; 0 means it was given up.
    pub entries_left: u32,
    /// False if there was nothing to give up: it had been given up before, or the lock is free.
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
    /// `contenders_per_session_max`.
    ContendersPerSession,
    /// `entries_per_hold_max`.
    EntriesPerHold,
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

/// Why a command changed nothing. Append-only: the order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rejection {
    /// The session expired, and not long ago: whatever it held is lost.
    SessionExpired { session: SessionName },
    /// No session of that name is known.
    NoSession { session: SessionName },
    /// The lease was renewed, or the session ended, before the expiry took effect.
    Superseded,
    /// Somebody else holds the lock, and the caller did not want to wait.
    LockBusy {
        holder: Box<HolderView>,
        /// Who waits.
        waiters: u32,
    },
    /// The caller neither holds the lock nor gave it up before.
    NotHolder {
        /// Who holds it.
        holder: Box<HolderView>,
    },
    /// The attempt is over: its place was given up, cancelled or lost, or it is older than what the session remembers.
    AttemptOver {
        /// A new attempt needs a number larger than this.
        newest: Attempt,
    },
    /// A bound is reached.
    LimitReached { bound: Bound, limit: u64 },
    /// No such node.
    NoNode { path: ZnodePath },
    /// There is a node already.
    NodeExists { path: ZnodePath },
    /// The node has children.
    NotEmpty { path: ZnodePath },
    /// The node has another version.
    BadVersion {
        path: ZnodePath,
        /// The version it has.
        actual: i32,
    },
    /// An ephemeral node has no children.
    NoChildrenForEphemerals {
        /// The ephemeral.
        path: ZnodePath,
    },
    /// The node may not be changed this way: the root, `/locks`, or a reserved one.
    Reserved { path: ZnodePath },
    /// Another data directory serves under this node's id.
    NodeTaken,
    /// An operation of a multi was refused, and with it all of them.
    OpRefused {
        /// Which one, from 0, in `then` or `otherwise`.
        at: u32,
        why: Box<Rejection>,
    },
    /// The node's access list does not allow it.
    NotAllowed {
        path: ZnodePath,
        /// What was needed.
        needed: Perms,
    },
    /// The access list cannot be set: it is empty, or names nobody known.
    BadAcl { path: ZnodePath },
    /// A hard quota is reached.
    QuotaExceeded {
        /// The subtree with the quota.
        path: ZnodePath,
        /// Its limit, znodes or bytes.
        limit: u64,
    },
    /// The session speaks through another connection by now.
    SessionMoved { session: SessionName },
    /// A latch, a barrier or a counter refused.
    Recipe(RecipeRejection),
    /// Nobody holds the lock, but it is granted to nobody yet, and the caller did not want to wait.
    LockClosed {
        /// Until when, and why.
        closed: Closed,
        /// Who waits.
        waiters: u32,
    },
    /// The lock has another limit than the call says, or none.
    LimitMismatch {
        /// The limit it has; none if it is no semaphore.
        limit: Option<u32>,
    },
    /// The place has another number of permits than the call says.
    PermitsMismatch {
        /// How many it has.
        permits: u32,
    },
    /// The place is held, or waited for, in a mode that cannot become the one asked for.
    ModeConflict {
        /// The mode it has.
        mode: Mode,
    },
    /// The owner has the place already, and it is not to be entered twice.
    NotReentrant,
    /// The lock is in use, and the change is possible only while nobody holds it or waits for it.
    InUse {
        /// How many hold or wait.
        contenders: u32,
    },
    /// A rule, or a number of the request, is out of its bounds.
    OutOfBounds { what: OutOfBounds },
    /// The caller would wait for itself.
    Deadlock {
        /// Who waits for what, from the caller on: each for the next, the last for the caller. Of a longer circle the first
        /// [`Rejection::CYCLE_MAX`]. The caller is missing if its session is new.
        cycle: Vec<Blocked>,
    },
    /// Nobody holds the lock, so that there is nothing to hand over.
    NobodyHolds,
    /// Whoever the lock is to be handed to holds it already.
    HoldsAlready { holder: Box<HolderView> },
    /// A client of the tree waits before the one that the lock is to be handed to, or is the one itself and others wait
    /// before it: such clients go by the order of the queue alone.
    CannotOvertake,
    /// The owner holds one of the locks already, or waits for it, in another company than it asks for now.
    HasPlace {
        /// The first such lock.
        lock: LockName,
    },
    /// Nobody holds the lock, but it is kept for somebody who asked for several at once and still waits for another of
    /// them; the caller did not want to wait.
    LockReserved {
        /// Who waits, all told.
        waiters: u32,
    },
    /// One of several locks that were asked for at once was refused, and with it all of them.
    MemberRefused { lock: LockName, why: Box<Rejection> },
    /// The resource is cut into another number of segments than the call says, or into none.
    SegmentsMismatch {
        /// Into how many; none if it is one lock.
        segments: Option<u32>,
    },
}

impl Rejection {
    /// How many of a circle are named.
    pub const CYCLE_MAX: usize = 16;
}

/// One of a circle: a session, its owner, and the lock it waits for.
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
    /// Locks named at once: too many, none, or one of them twice.
    Locks,
    /// `segments`.
    Segments,
}
