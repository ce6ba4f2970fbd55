//! What can be asked of the replicated state machine. A closed enum: there is no other way to change it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    AcquireAll, Attempt, Break, Data, FencingToken, HandOver, Incarnation, Labels, Limits,
    LockName, Mode, Multi, NodeId, Owner, Password, PolicyChange, Recipe, ReleaseAll,
    RequestRelease, Revision, Segments, SessionId, SessionName, Stamp, Ticket, Ttl, millis,
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
    /// Takes a place in the queue of each of several locks, and all of them if they are free: all or nothing.
    AcquireAll(AcquireAll),
    /// Gives several locks back at once, or leaves their queues.
    ReleaseAll(ReleaseAll),
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
    pub lock: LockName,
    /// For which session; opened in the same step if it is new.
    pub open: OpenSession,
    pub owner: Owner,
    /// The attempt that this is a copy of. A hold counts each of its attempts once; a copy of an attempt that is over is
    /// rejected. None enters as [`Attempt::UNNAMED`] when the place is new, and counts nothing on a renewal.
    pub attempt: Option<Attempt>,
    /// Whether to queue when the lock is held; otherwise the answer is a rejection and nothing changes.
    pub wait: bool,
    /// How long the caller waits in the queue at most, milliseconds; none if as long as the session lives. Asking again
    /// replaces it. The machine only remembers it: a [`Cancel`] ends the wait.
    pub wait_ms: Option<u64>,
    /// How to hold. None means exclusively for a new place, and as it is for one that is there; another mode than that of
    /// a place that is there asks for its conversion.
    pub mode: Option<Mode>,
    /// How many permits of a semaphore, at least 1. None means 1 for a new place, and as many as it has for one that is
    /// there.
    pub permits: Option<u32>,
    /// Says that the lock is a semaphore of so many permits; it becomes one if it was never taken and has no policy.
    pub limit: Option<u32>,
    /// From 0, the least urgent, to [`Acquire::PRIORITY_MAX`].
    pub priority: u8,
    /// Whether the owner may enter again while it has the place; if false, another attempt is rejected at once.
    pub reentrant: bool,
    /// The longest the hold lasts, milliseconds from its grant, whatever the session does.
    pub max_hold_ms: Option<u64>,
    /// How long after the grant nobody else gets the lock, milliseconds, even if it is given back before.
    pub min_hold_ms: Option<u64>,
    /// Shown beside the place, at most [`Acquire::VALUE_MAX`] bytes. None leaves what is there.
    pub value: Option<Data>,
    /// Asks for one segment of `lock` instead of `lock` itself.
    pub segments: Option<Segments>,
}

impl Acquire {
    /// The most urgent priority.
    pub const PRIORITY_MAX: u8 = 9;
    /// The longest value, bytes.
    pub const VALUE_MAX: usize = 4096;
    /// The longest `max_hold_ms` and `min_hold_ms`: thirty days.
    pub const HOLD_MAX_MS: u64 = 30 * 86_400_000;

    /// The plain request: exclusive, re-entrant, queued without an end, everything else as by default.
    pub fn new(lock: LockName, open: OpenSession, owner: Owner) -> Self {
        Self {
            lock,
            open,
            owner,
            attempt: None,
            wait: true,
            wait_ms: None,
            mode: None,
            permits: None,
            limit: None,
            priority: 0,
            reentrant: true,
            max_hold_ms: None,
            min_hold_ms: None,
            value: None,
            segments: None,
        }
    }

    /// Sets how long the caller waits in the queue. With zero the command does not queue.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        let (wait, wait_ms) = queue_fields(wait);
        Self { wait, wait_ms, ..self }
    }
}

/// The fields `wait` and `wait_ms` of an acquire whose caller waits this long at most.
pub fn queue_fields(wait: Duration) -> (bool, Option<u64>) {
    let queues = !wait.is_zero();
    (queues, queues.then(|| millis(wait)))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Which lock; of one that is cut into segments, the one in which the place is.
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    /// What exactly is given up; anything else of the owner stays.
    pub target: ReleaseTarget,
}

/// What a release gives up. A late copy of a release that names an attempt or a token changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReleaseTarget {
    /// Whatever place the owner has when the release takes effect.
    #[default]
    AnyPlace,
    /// This attempt: it leaves the place, and no copy of it takes effect from now on. The last attempt gives the place up.
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
