//! What an applied entry changed, in order. Events drive waiters, leases and watches; they are not stored.

use serde::{Deserialize, Serialize};

use crate::{
    Closed, FencingToken, Grant, LockName, NodeId, Outcome, Owner, Policy, Reason, RecipeEvent,
    ReleaseRequest, Revision, SessionId, SessionName, Stamp, Ticket, Ttl, ZnodePath,
};

/// The result of applying one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Revision of the last command; that of the i-th of n outcomes is `revision - (n - 1 - i)`.
    pub revision: Revision,
    /// One to each command, in order.
    pub outcomes: Vec<Outcome>,
    /// What changed, in order, with the revision that changed it.
    pub events: Vec<(Revision, Event)>,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionEnd {
    /// It was closed.
    Closed,
    /// Its lease ran out.
    Expired,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LossCause {
    /// The holder gave it up.
    Released,
    /// The holder's session was closed.
    SessionClosed,
    /// The holder's session expired.
    SessionExpired,
    /// The contender's znode was deleted through the tree.
    Deleted,
    /// The hold lasted as long as its acquire allowed.
    MaxHold,
    /// The holder was asked to give it back, did not, and its time was up.
    Revoked,
    /// An operator took it away.
    Broken,
    /// The holder handed it to another session.
    HandedOver,
    /// The limit of the semaphore fell below what the waiter asks for.
    LimitLowered,
}

impl LossCause {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Released,
        Self::SessionClosed,
        Self::SessionExpired,
        Self::Deleted,
        Self::MaxHold,
        Self::Revoked,
        Self::Broken,
        Self::HandedOver,
        Self::LimitLowered,
    ];

    /// As answers and metrics write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::SessionClosed => "session-closed",
            Self::SessionExpired => "session-expired",
            Self::Deleted => "deleted",
            Self::MaxHold => "max-hold",
            Self::Revoked => "revoked",
            Self::Broken => "broken",
            Self::HandedOver => "handed-over",
            Self::LimitLowered => "limit-lowered",
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A contender became the holder.
    Granted(Grant),
    /// A holder no longer holds.
    Lost {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        /// The place that had been granted.
        ticket: Ticket,
        /// Under which token it was held.
        token: FencingToken,
        /// Since when.
        granted_at: Stamp,
        /// Since which revision.
        granted_in: Revision,
        cause: LossCause,
    },
    /// A waiter left the queue without a grant.
    Left { lock: LockName, session: SessionName, owner: Owner, ticket: Ticket, cause: LossCause },
    /// A session is new, or showed life through the log: its lease starts again.
    SessionTouched {
        id: SessionId,
        /// What it lives without a renewal.
        ttl: Ttl,
        generation: u64,
    },
    /// A session has ended, and with it everything it owned.
    SessionEnded { id: SessionId, session: SessionName, end: SessionEnd },
    /// A znode was created.
    NodeCreated { path: ZnodePath },
    /// A znode was deleted.
    NodeDeleted { path: ZnodePath },
    /// A znode's data was replaced.
    NodeChanged { path: ZnodePath },
    /// A session speaks through the connection that this revision made, and through no other.
    SessionAttached { id: SessionId },
    /// A node's id was tied to its data directory.
    NodeRegistered { node: NodeId },
    /// Something that somebody may wait for happened to a latch or a barrier.
    Recipe(RecipeEvent),
    /// A subtree has grown beyond its soft quota; nothing was refused.
    QuotaPassed {
        /// The subtree with the quota.
        path: ZnodePath,
    },
    /// A holder holds in another, weaker mode from now on, with the same token.
    Converted(Grant),
    /// A holder shows another value from now on, under the same token.
    ValueSet(Grant),
    /// The rules of a lock were changed.
    PolicySet {
        lock: LockName,
        /// All of them, as they are now.
        policy: Policy,
    },
    /// A lock is granted to nobody until a stamp.
    Closed {
        lock: LockName,
        /// Until when, and why.
        closed: Closed,
    },
    /// A lock that was closed is open again.
    Opened { lock: LockName },
    /// An operator takes a place away; that it is gone is told next.
    Broken {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        ticket: Ticket,
        /// Under which token it was held; none if it waited.
        token: Option<FencingToken>,
        reason: Reason,
    },
    /// A holder is asked to give the lock back.
    ReleaseAsked {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        ticket: Ticket,
        token: FencingToken,
        /// By when, and why.
        request: ReleaseRequest,
    },
}
