//! The commands of the replicated state machine. Its state changes only through [`Command`], a closed enum.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nesting::nested;
use crate::{
    Actor, Attempt, AuthChange, CallScope, ClockReading, ClusterId, Data, FeatureLevel,
    FencingToken, ForceRelease, HandOver, Incarnation, LeaseRecord, Limits, LockName, LockSet,
    MembershipChange, Mode, Multi, NodeId, NodeOperation, OpenSession, OutOfBounds, Owner,
    Password, PolicyChange, Reason, Recipe, RequestNumber, RequestRelease, Revision, SessionId,
    SessionName, ShardRequest, Stamp, SubjectName, Ticket, TimeJump, Ttl, millis,
};

/// One entry of the log: a batch of commands with the leader's stamp. `apply` assigns one revision to each command,
/// in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The log's time at the proposal. `apply` uses the largest stamp so far, so time never goes back.
    pub stamped_at: Stamp,
    /// In the order of `apply`.
    pub commands: Vec<Command>,
}

/// A change of the replicated state. Append-only: the order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Opens a session, or renews it if it is open.
    OpenSession {
        open: OpenSession,
        /// The attempt of which this command is a copy. Rejected if a closed session of the name had it or a larger one.
        attempt: Option<Attempt>,
    },
    /// Renews the lease of a session.
    RenewSession { session: SessionName },
    /// Closes a session, and removes its queue entries and ephemeral znodes in the same command.
    /// For an expired session: acknowledges the loss, and frees the name for a new session.
    CloseSession {
        session: SessionName,
        /// The caller's connection: the revision that opened or attached it. Rejected if the session is bound to
        /// another connection. `None` skips the check.
        attachment: Option<Revision>,
        /// The session to close, among all sessions of that name; any other stays open. `None` closes the open one.
        incarnation: Option<SessionId>,
    },
    /// Ends a session whose lease expired. Rejected if the lease was renewed since.
    ExpireSession {
        session: SessionId,
        /// The expired lease.
        generation: u64,
    },
    /// Adds the owner to a lock's queue, and grants the lock if it is free.
    Acquire(Acquire),
    /// Releases a held lock, or removes the owner's waiting entry.
    Release(Release),
    /// Ends a wait. If the lock was granted before, the hold stays, and the reply is the grant.
    Cancel(Cancel),
    /// Changes znodes, all or nothing.
    Multi(Multi),
    /// Deletes containers that have been empty since before `empty_before`, and childless znodes whose TTL has passed.
    Sweep { empty_before: Stamp, count_max: u32 },
    /// Replaces the limits.
    SetLimits(Limits),
    /// Binds a member to the first data directory that uses its id.
    RegisterNode {
        node: NodeId,
        /// Identifies the data directory.
        incarnation: Incarnation,
    },
    /// Moves a session to another connection. Later commands of the former connection are rejected.
    AttachSession {
        session: SessionId,
        /// The password that opened the session.
        password: Password,
        /// The new TTL.
        ttl: Ttl,
    },
    /// Changes a latch, a barrier, a double barrier or a counter.
    Recipe(Recipe),
    /// Changes the policy of a lock, even if the lock was never acquired.
    SetPolicy { lock: LockName, change: PolicyChange },
    /// Runs the expired timers of a lock: ends holds and cooldowns. Succeeds if no timer has expired.
    RunTimers { lock: LockName },
    /// Removes holders or waiters for an operator. Succeeds if no entry matches.
    ForceRelease(ForceRelease),
    /// Requests holders to release a lock, and optionally ends their holds at the deadline.
    RequestRelease(RequestRelease),
    /// Transfers a hold to another live session, under a new token and without another grant in between.
    HandOver(HandOver),
    /// Gives a new cluster its id, its feature level and its members. The first command of a log.
    Bootstrap { cluster_id: ClusterId, level: FeatureLevel, members: BTreeSet<NodeId> },
    /// A command with its actor. Without it, the actor of a command that clients may send is [`Actor::Anonymous`].
    As {
        actor: Actor,
        /// Any command but another [`Command::As`].
        #[serde(deserialize_with = "nested")]
        command: Box<Self>,
    },
    /// Changes subjects, roles, access tokens or the mode.
    Auth(AuthChange),
    /// Closes the open session of another client, for an operator. Rejected for a session that has ended.
    EndSession {
        session: SessionName,
        incarnation: Option<SessionId>,
        /// Kept in the audit trail.
        reason: Reason,
    },
    /// Changes the members.
    Membership(MembershipChange),
    /// Changes the feature level by one. Lowering it is rejected while the state has anything of the present level.
    SetLevel(FeatureLevel),
    /// Makes the actor's subject the subject of a session that has none. Another subject stays.
    ClaimSession { session: SessionId },
    /// Records a complete backup. A node proposes it.
    RecordBackup { revision: Revision, bytes: u64 },
    /// Makes every node compute the digest of its whole state after this entry. Changes only the revision.
    VerifyState,
    /// Seals the cluster. A sealed cluster keeps its first seal.
    Seal { reason: Reason },
    /// Ends the seal of this revision. Succeeds if the cluster is not sealed; another seal stays.
    Unseal { seal: Revision },
    /// Records the wall clocks of the members, and lets the log's time jump forward. The leader proposes it at least once a
    /// minute, so a restart of all nodes loses no idle time.
    RecordClocks { readings: BTreeMap<NodeId, ClockReading>, jump: Option<TimeJump> },
    /// Records how much of the leases of silent sessions has passed, for the next leader.
    RecordLeases { leases: Vec<LeaseRecord> },
    /// Closes sessions of a subject, for an operator. A session that has ended, or that belongs to another subject, stays.
    EndSessions {
        subject: SubjectName,
        /// At most [`Command::END_SESSIONS_MAX`].
        sessions: Vec<(SessionName, SessionId)>,
        /// Kept in the audit trail.
        reason: Reason,
        /// The number of sessions that this command and the next ones close; `None` in the next ones, which leave no
        /// record in the audit trail.
        total: Option<u64>,
    },
    /// Records an operation in the audit trail. Changes nothing else. A node proposes it for the caller of the operation.
    RecordOperation(NodeOperation),
    /// Executes a command once: a copy of the call gets [`crate::Reply::Repeated`] or the first rejection.
    Once {
        call: NumberedCall,
        /// Any command but [`Command::As`] and [`Command::Once`].
        #[serde(deserialize_with = "nested")]
        command: Box<Self>,
    },
}

/// A call that is executed once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberedCall {
    /// The session that remembers the answer. It must be open; the call does not renew it.
    pub session: SessionName,
    pub request: RequestNumber,
    pub scope: CallScope,
}

impl Command {
    /// The most sessions that one command closes.
    pub const END_SESSIONS_MAX: usize = 100;

    /// The command, its actor, and the call that executes it once.
    pub fn into_parts(self) -> (Actor, Option<NumberedCall>, Self) {
        if let Self::As { actor, command } = self {
            let (_, call, command) = command.into_parts();
            return (actor, call, command);
        }
        let Self::Once { call, command } = self else { return (Actor::Anonymous, None, self) };
        (Actor::Anonymous, Some(call), command.into_parts().2)
    }

    /// The command, executed once if the call has a number.
    #[must_use]
    pub fn once(self, call: Option<NumberedCall>) -> Self {
        match call {
            Some(call) => Self::Once { call, command: Box::new(self) },
            None => self,
        }
    }

    /// The command with its actor. [`Actor::Anonymous`] needs no wrapper.
    #[must_use]
    pub fn by(self, actor: Actor) -> Self {
        match actor {
            Actor::Anonymous => self,
            Actor::Node | Actor::Token(_) | Actor::Subject(_) => {
                Self::As { actor, command: Box::new(self) }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// One lock, or the locks of a multi-lock: one queue entry in each, granted together or not at all.
    pub locks: LockSet,
    /// The session, opened by the same command if it is new.
    pub open: OpenSession,
    pub owner: Owner,
    /// The attempt of which this command is a copy. A hold counts each attempt once, and a copy of an ended attempt is
    /// rejected. `None` enters as [`Attempt::UNNAMED`] in a new entry, and counts nothing on a renewal.
    pub attempt: Option<Attempt>,
    /// The claim that the command changes: the attempt that acquired it, or [`Attempt::UNNAMED`]. The command then
    /// changes the mode, the value or `min_hold`, and acquires nothing. `attempt` is the number of the change.
    pub change: Option<Attempt>,
    /// Whether another attempt enters the hold that the owner has in a semaphore, instead of taking permits of its own. An
    /// attempt always enters the hold of a lock.
    pub enters: bool,
    /// Whether to queue. Otherwise a lock that is not free rejects the command.
    pub wait: bool,
    /// Longest wait in milliseconds; `None` for as long as the session lives. A later acquire replaces it. The state
    /// machine only stores it: a [`Cancel`] ends the wait.
    pub wait_ms: Option<u64>,
    /// Rejects a new entry that would have to wait behind this many waiters or more. 0 never queues.
    pub queue_max: Option<u32>,
    /// `None` means exclusive for a new claim, and unchanged for an existing one. A new claim of a semaphore has the
    /// mode of its entry.
    pub mode: Option<Mode>,
    /// Permits of a semaphore, at least 1. `None` means 1 for a new entry, and unchanged for an existing one.
    pub permits: Option<u32>,
    /// Declares the lock a semaphore with this limit. A lock without a directory and a policy becomes one.
    pub limit: Option<u32>,
    /// Requests one shard of the lock instead of the lock itself.
    pub shards: Option<ShardRequest>,
    pub options: AcquireOptions,
}

/// The options of an acquire that stay with its queue entry. A multi-lock has the plain options, except `max_hold_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AcquireOptions {
    /// From 0, the lowest, to [`AcquireOptions::PRIORITY_MAX`].
    pub priority: u8,
    /// Whether other attempts of the owner may join the entry. If false, they are rejected at once.
    pub reentrant: bool,
    /// The hold ends this long after its grant at the latest, milliseconds.
    pub max_hold_ms: Option<u64>,
    /// No other grant follows within this time after the grant, milliseconds, even after a release.
    pub min_hold_ms: Option<u64>,
    /// Shown beside the entry, at most [`AcquireOptions::VALUE_MAX`] bytes. `None` keeps the stored value.
    pub value: Option<Data>,
    /// Why the hold is durable: it has a session of its own kind ([`SessionName::is_durable`]). `None` for every other
    /// hold.
    pub durable: Option<Reason>,
}

impl AcquireOptions {
    pub const PLAIN: Self = Self {
        priority: 0,
        reentrant: true,
        max_hold_ms: None,
        min_hold_ms: None,
        value: None,
        durable: None,
    };
    /// The highest priority.
    pub const PRIORITY_MAX: u8 = 9;
    /// Bytes of a value.
    pub const VALUE_MAX: usize = 4096;
    /// The longest `max_hold_ms` and `min_hold_ms`: thirty days.
    pub const HOLD_MAX_MS: u64 = 30 * 86_400_000;

    /// The first option that is out of its bounds.
    pub fn out_of_bounds(&self) -> Option<OutOfBounds> {
        let sound = |ms: Option<u64>| ms.is_none_or(|ms| (1..=Self::HOLD_MAX_MS).contains(&ms));
        if self.priority > Self::PRIORITY_MAX {
            return Some(OutOfBounds::Priority);
        }
        if !sound(self.max_hold_ms) {
            return Some(OutOfBounds::MaxHold);
        }
        (!sound(self.min_hold_ms)).then_some(OutOfBounds::MinHold)
    }
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self::PLAIN
    }
}

impl Acquire {
    /// The plain request: exclusive, re-entrant, queued without a deadline.
    pub fn new(locks: impl Into<LockSet>, open: OpenSession, owner: Owner) -> Self {
        Self {
            locks: locks.into(),
            open,
            owner,
            attempt: None,
            change: None,
            enters: false,
            wait: true,
            wait_ms: None,
            queue_max: None,
            mode: None,
            permits: None,
            limit: None,
            shards: None,
            options: AcquireOptions::PLAIN,
        }
    }

    /// Sets the longest wait. Zero means that the command does not queue.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        let queues = !wait.is_zero();
        Self { wait: queues, wait_ms: queues.then(|| millis(wait)), ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The locks to release; of a sharded lock the shard in which the owner has its entry. Of several locks, those
    /// without an entry of the owner are skipped.
    pub locks: LockSet,
    pub session: SessionName,
    pub owner: Owner,
    /// What to release; other attempts and holds of the owner stay.
    pub target: ReleaseTarget,
}

/// What a release ends. A late copy of a release that names an attempt or a token changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReleaseTarget {
    /// The owner's queue entry at the time of `apply`.
    #[default]
    AnyEntry,
    /// One attempt; its later copies have no effect. The entry is removed with its last attempt.
    Attempt(Attempt),
    /// The hold of this token, with all its attempts.
    Hold(FencingToken),
    /// This many permits of one entry; with its last permit the entry is removed.
    Permits(HoldName, u32),
}

/// One of the entries of an owner in a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HoldName {
    /// The entry of calls without an attempt, otherwise the oldest one.
    Unnamed,
    Attempt(Attempt),
    Token(FencingToken),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    /// The queue entry; a later entry of the same owner stays.
    pub ticket: Ticket,
    /// Revision of the acquire that the caller waited on ([`crate::Queued::requested_in`]). If the owner has repeated the
    /// acquire since, the entry stays, and the reply is that of the later acquire.
    pub requested_in: Revision,
}
