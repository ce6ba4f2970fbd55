//! What can be asked of the replicated state machine. A closed enum: there is no other way to change it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Attempt, Break, Data, FencingToken, HandOver, Incarnation, Labels, Limits, LockName, LockSet,
    Mode, Multi, NodeId, OutOfBounds, Owner, Password, PolicyChange, Recipe, RequestRelease,
    Revision, Segments, SessionId, SessionName, Stamp, Ticket, Ttl, millis,
};

/// One entry of the log: a batch of commands with the leader's stamp. Revisions are given by the machine, one to
/// each command, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The leader's wall clock when it proposed the batch. The machine uses the largest it has seen.
    pub stamped_at: Stamp,
    /// In the order in which they take effect.
    pub commands: Vec<Command>,
}

/// A change that somebody wants. Append-only: the order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Opens a session, or renews it if it is open.
    OpenSession(OpenSession),
    /// Gives a session a new lease, and another time-to-live if one is named.
    RenewSession {
        session: SessionName,
        /// Its time-to-live from now on; none keeps it.
        ttl: Option<Ttl>,
    },
    /// Ends a session by its own wish: everything it owns goes in the same entry.
    /// On a session that expired: takes note of the loss, and frees the name for a new one.
    CloseSession {
        session: SessionName,
        /// The connection that asks; none if it does not speak for one.
        attachment: Option<Revision>,
        /// The one session of that name that is meant; on any other nothing changes. None means whichever is open.
        incarnation: Option<SessionId>,
    },
    /// Ends a session whose lease ran out. Refused if the lease was renewed since.
    ExpireSession {
        session: SessionId,
        /// The lease that ran out.
        generation: u64,
    },
    /// Takes a place in a lock's queue, and the lock itself if it is free.
    Acquire(Acquire),
    /// Gives a held lock back, or leaves its queue.
    Release(Release),
    /// Leaves a queue if still in it. If the grant came first, it stands and is the answer.
    Cancel(Cancel),
    /// Changes znodes, all or nothing.
    Multi(Multi),
    /// Removes containers that have been empty since before a stamp, and childless znodes whose time-to-live is over.
    Sweep {
        /// Empty since before this.
        empty_before: Stamp,
        count_max: u32,
    },
    /// Changes the bounds.
    SetLimits(Limits),
    /// Ties a node's id to the data directory that first served under it.
    RegisterNode {
        node: NodeId,
        /// Its data directory.
        incarnation: Incarnation,
    },
    /// Moves a session to another connection: what the one before still sends is refused.
    AttachSession {
        session: SessionId,
        /// What the session was opened with.
        password: Password,
        /// Its time-to-live from now on.
        ttl: Ttl,
    },
    /// Changes a latch, a barrier, a double barrier or a counter.
    Recipe(Recipe),
    /// Changes the rules of a lock, whether or not it was ever taken.
    SetPolicy { lock: LockName, change: PolicyChange },
    /// Does what is due of a lock at this entry's stamp: ends holds, opens it. Nothing due is no error.
    Due { lock: LockName },
    /// Takes places away from whoever has them, by an operator's will. Nobody there is no error.
    Break(Break),
    /// Asks holders to give a lock back, and if wanted takes it away from those that do not in time.
    RequestRelease(RequestRelease),
    /// Hands a hold to another live session, under a new token and with nobody in between.
    HandOver(HandOver),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    pub session: SessionName,
    /// How long it lives without a renewal; none means the default, or what an open session has.
    pub ttl: Option<Ttl>,
    /// Made by the server for one lock: it closes itself with its last release.
    pub anonymous: bool,
    /// Shown to those who wait for its locks.
    pub labels: Labels,
    /// What another connection must show to take the session over; none if it is known by its name alone.
    pub password: Option<Password>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// One lock, or the locks of a multi-lock: one queue entry in each, granted together or not at all.
    pub locks: LockSet,
    /// The session, opened by the same command if it is new.
    pub open: OpenSession,
    pub owner: Owner,
    /// The attempt that this command is a copy of. A hold counts each attempt once, and a copy of an attempt that is over
    /// is rejected. `None` enters as [`Attempt::UNNAMED`] in a new entry, and counts nothing on a renewal.
    pub attempt: Option<Attempt>,
    /// Whether to queue. Otherwise a lock that is not free rejects the command.
    pub wait: bool,
    /// Longest wait in milliseconds; `None` for as long as the session lives. A later acquire replaces it. The state
    /// machine only stores it: a [`Cancel`] ends the wait.
    pub wait_ms: Option<u64>,
    /// Rejects a new entry that would have to wait behind this many waiters or more. 0 never queues.
    pub queue_max: Option<u32>,
    /// `None` means exclusive for a new entry, and unchanged for an existing one. Another mode than that of an existing
    /// entry requests its conversion.
    pub mode: Option<Mode>,
    /// Permits of a semaphore, at least 1. `None` means 1 for a new entry, and unchanged for an existing one.
    pub permits: Option<u32>,
    /// Declares the lock a semaphore with this limit. A lock without a directory and a policy becomes one.
    pub limit: Option<u32>,
    /// Requests one shard of the lock instead of the lock itself.
    pub segments: Option<Segments>,
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
    /// Shown beside the entry, at most [`AcquireOptions::VALUE_MAX`] bytes. On a renewal `None` keeps the stored value.
    pub value: Option<Data>,
}

impl AcquireOptions {
    pub const PLAIN: Self =
        Self { priority: 0, reentrant: true, max_hold_ms: None, min_hold_ms: None, value: None };
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
            wait: true,
            wait_ms: None,
            queue_max: None,
            mode: None,
            permits: None,
            limit: None,
            segments: None,
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
    AnyPlace,
    /// This attempt: it leaves the entry, and no later copy of it has an effect. With its last attempt the entry leaves.
    Attempt(Attempt),
    /// The hold of this token, with all its attempts.
    Hold(FencingToken),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    /// The place: a later one of the same owner is left alone.
    pub ticket: Ticket,
    /// Revision of the acquire that the caller waited on ([`crate::Queued::asked`]). If the owner has asked again
    /// since, it still wants the place, and the cancel is answered like that later acquire: `Queued`.
    pub asked: Revision,
}
