//! The deterministic outcome of a command: the same on every node.

use serde::{Deserialize, Serialize};

use crate::nesting::nested;
use crate::{
    Attempt, AuthRejection, Bound, Cooldown, Data, FeatureLevel, FencingToken, HolderView,
    LockName, LockPolicy, MembershipRejection, Mode, NodeId, Owner, Perms, QuotaFull, QuotaKind,
    RecipeRejection, RecipeReply, RequestNumber, Revision, Seal, SessionId, SessionName, Stamp,
    Stat, Ticket, Ttl, ZnodePath,
};

/// The reply or the rejection of a command. A rejected command changes only the revision counter.
pub type Outcome = Result<Reply, Rejection>;

/// The result of a successful command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// The caller has an entry in the queue of each lock of its acquire.
    Acquired(EntryState),
    Released(Released),
    /// The caller left the queue before a grant.
    Cancelled,
    SessionOpened(SessionOpenedReply),
    SessionRenewed {
        id: SessionId,
        ttl: Ttl,
    },
    /// The session has ended, now or before.
    SessionEnded,
    Multi(MultiReply),
    /// Containers and znodes with a TTL were deleted.
    Swept {
        count: u32,
    },
    LimitsSet,
    /// The node id is bound to the data directory.
    NodeRegistered,
    /// The session is bound to the connection of this revision.
    SessionAttached {
        session: SessionName,
        ttl: Ttl,
    },
    Recipe(RecipeReply),
    PolicySet {
        /// The whole policy after the change.
        policy: LockPolicy,
    },
    /// The expired timers of the lock have run.
    TimersRun {
        /// The number of holds that ended.
        ended: u32,
    },
    /// Queue entries were removed.
    ForceReleased {
        places: u32,
    },
    /// The number of holders that the request names.
    ReleaseRequested {
        holders: u32,
    },
    /// The hold of the receiving session.
    HandedOver(Grant),
    /// The cluster has this id.
    Bootstrapped,
    AuthChanged {
        /// The last session that was opened before the change.
        newest_session: SessionId,
    },
    /// The new member has this id.
    MemberInvited {
        node: NodeId,
    },
    MembershipChanged,
    LevelSet,
    SessionClaimed,
    BackupRecorded,
    VerificationStarted,
    /// The cluster is sealed, now or before.
    Sealed(Seal),
    /// The cluster is not sealed.
    Unsealed,
    ClocksRecorded,
    /// The first reply to a numbered call, of which this command is a copy.
    Repeated {
        /// The revision of the first reply.
        revision: Revision,
        #[serde(deserialize_with = "nested")]
        reply: Box<Self>,
    },
    LeasesRecorded,
    /// The number of sessions that the command closed.
    SessionsEnded {
        count: u64,
    },
    OperationRecorded,
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

/// The reply to [`crate::Command::OpenSession`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionOpenedReply {
    pub id: SessionId,
    pub ttl: Ttl,
    /// False if the session was open before.
    pub created: bool,
}

/// The reply to [`crate::Command::Multi`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MultiReply {
    /// Whether the conditions held: `then` was applied, otherwise `otherwise`.
    pub succeeded: bool,
    /// One for each applied operation, in order.
    pub results: Vec<OpReply>,
}

/// The result of one operation of a multi.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OpReply {
    Created {
        /// With the sequence number of a sequential znode.
        path: ZnodePath,
        stat: Stat,
    },
    /// The number of deleted znodes: 1, or the size of a subtree.
    Deleted {
        count: u32,
    },
    DataSet {
        stat: Stat,
    },
    AclSet {
        stat: Stat,
    },
    /// The znode exists with the expected version.
    Checked,
}

/// The holder's view of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    pub ticket: Ticket,
    /// Larger than every token minted before, of any lock.
    pub token: FencingToken,
    pub mode: Mode,
    /// Permits held; 1 unless the lock is a semaphore.
    pub permits: u32,
    /// One slot for each permit of a semaphore, sorted. No other holder has the same slot at the same time.
    pub slots: Vec<u32>,
    /// The smallest valid token of the lock. A store with shared holders rejects smaller tokens.
    pub floor: FencingToken,
    /// When `max_hold` or a revoke deadline ends the hold, even if the session is renewed.
    pub ends_at: Option<Stamp>,
    /// The TTL of the session.
    pub ttl: Ttl,
    /// Attempts that hold the lock: each re-entrance counts once.
    pub hold_count: u32,
    /// True if the owner held the lock before the command.
    pub renewed: bool,
    /// The number of waiters of the lock.
    pub waiters: u32,
    pub granted_at: Stamp,
    /// Revision of the grant.
    pub granted_in: Revision,
    /// The `value` option of its acquire.
    pub value: Option<Data>,
}

/// The waiter's view of its queue entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Queued {
    /// The lock; for an acquire of a sharded lock, the shard.
    pub lock: LockName,
    pub ticket: Ticket,
    /// Revision of the owner's latest acquire for this entry; the first one's equals the ticket.
    pub requested_in: Revision,
    /// Waiters ahead; holders are not counted.
    pub ahead: u32,
    /// The first holder other than this entry. `None` if the lock is in cooldown, or reserved for a multi-lock that
    /// waits for another lock.
    pub holder: Option<Box<HolderView>>,
    pub cooldown: Option<Cooldown>,
    /// The requested mode.
    pub mode: Mode,
    pub session: SessionId,
    /// The TTL of the session.
    pub ttl: Ttl,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Released {
    /// Attempts that still hold the lock; of several locks the largest number. 0 if the owner has no entry left.
    pub hold_count: u32,
    /// False if no entry matched the release.
    pub changed: bool,
}

/// Why a command was rejected.
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
    OutOfBounds {
        what: OutOfBounds,
    },
    /// Another data directory already uses this node id.
    NodeIdTaken,
    /// The cluster has another id.
    OtherCluster,
    /// The cluster's feature level does not allow the command yet.
    LevelTooLow {
        needed: FeatureLevel,
    },
    Auth(AuthRejection),
    Membership(MembershipRejection),
    /// A quota of a namespace is reached.
    QuotaFull(Box<QuotaFull>),
    /// The feature level changes by one.
    LevelStep {
        /// The present level.
        level: FeatureLevel,
    },
    /// The cluster is sealed, and the command would change its sessions, locks or tree.
    Sealed(Box<Seal>),
    /// The command ends a seal of another revision than the present one.
    OtherSeal {
        present: Revision,
    },
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
    /// The owner's claim or queue entry has another mode, and the call cannot get the requested one.
    ModeConflict {
        /// The present mode.
        mode: Mode,
        why: ModeConflictReason,
    },
    /// The claim has another value, and the call does not name it as a change.
    ValueConflict,
    /// The owner already has a queue entry, and one of the two acquires is not re-entrant.
    NotReentrant,
    /// The change is possible only while the lock has no queue entries.
    InUse {
        /// Holders and waiters.
        entries: u32,
    },
    /// The wait would close a cycle of waiters.
    Deadlock {
        /// The wait cycle from the caller on: each waits for the next, the last for the caller. At most
        /// [`LockRejection::CYCLE_MAX`] are named. The caller is missing if its session is new.
        cycle: Vec<Blocked>,
    },
    /// The caller does not hold the lock: the lock is free, or the caller may not see its holder.
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
    /// One lock of a multi-lock or of a transaction was rejected, and so the whole command.
    OfMultiLock {
        lock: LockName,
        #[serde(deserialize_with = "nested")]
        why: Box<Rejection>,
    },
    /// The lock has another number of shards than the call names.
    ShardsMismatch {
        /// `None`: the lock is not sharded.
        shards: Option<u32>,
    },
    /// A ZooKeeper client that does not see HTTP callers uses the lock, or wants to beside an HTTP caller.
    ForeignRecipe {
        /// The znode of that client.
        path: ZnodePath,
    },
}

/// Why a call cannot get a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModeConflictReason {
    /// The attempt has claimed the lock in the present mode. Only a change, asked for by name, gives it another one.
    SameAttempt,
    /// A shared holder asks for more, beside other holders that do not admit it. If it waited, two of them would wait
    /// for each other.
    SharedBesideOthers,
    /// The entry waits in the queue, is of a semaphore, or is part of a multi-lock.
    NoOtherMode,
    /// A hand-over to a waiter that requests a mode which the remaining holders do not admit.
    HandOver,
}

impl LockRejection {
    /// The maximum number of members in `cycle`.
    pub const CYCLE_MAX: usize = 16;
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionRejection {
    /// The session expired recently: its locks are lost.
    Expired { session: SessionName },
    /// No session has this name.
    Unknown { session: SessionName },
    /// The incarnation that the caller requires has ended; another session may have its name.
    IncarnationEnded { session: SessionName, incarnation: SessionId },
    /// The lease was renewed, or the session ended, before the expiry was applied.
    LeaseRenewed,
    /// The session is bound to another connection.
    Moved { session: SessionName },
    /// The session no longer remembers the answers up to a number, so the call may have been executed.
    RequestOver {
        /// A new call needs a larger number.
        newest: RequestNumber,
    },
    /// The session has executed another call under the same number.
    RequestMismatch {
        /// The revision in which it executed that call.
        revision: Revision,
    },
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
        #[serde(deserialize_with = "nested")]
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
        /// [`QuotaKind::Znodes`] or [`QuotaKind::Bytes`].
        quota: QuotaKind,
        limit: u64,
        /// What the subtree uses now, before the rejected command.
        used: u64,
    },
}

impl From<AuthRejection> for Rejection {
    fn from(rejection: AuthRejection) -> Self {
        Self::Auth(rejection)
    }
}

impl From<MembershipRejection> for Rejection {
    fn from(rejection: MembershipRejection) -> Self {
        Self::Membership(rejection)
    }
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

/// A field that is out of its bounds. The front-ends reject such a call before the proposal.
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
    /// A field of a policy.
    Policy,
    /// The deadline of a release request.
    Deadline,
    /// A multi-lock with an option that only an acquire of one lock may have.
    Locks,
    /// `shards`.
    Shards,
    /// A quota of a namespace.
    Quota,
    /// A durable hold with an option that it cannot have, or a call that may not name its session.
    Durable,
}
