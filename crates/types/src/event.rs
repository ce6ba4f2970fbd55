//! The result of `apply`: outcomes and events. Events drive waiters, leases and watches, and are not stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    AccessList, AuditHash, Cooldown, FeatureLevel, FencingToken, Grant, LockName, LockPolicy,
    NodeId, Outcome, Owner, Reason, RecipeEvent, ReleaseRequest, Revision, SessionEnd, SessionId,
    SessionName, Stamp, Ticket, Ttl, ZnodePath,
};

/// The outcomes and events of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Revision of the last command; that of the i-th of n outcomes is `revision - (n - 1 - i)`.
    pub revision: Revision,
    /// One per command, in order.
    pub outcomes: Vec<Outcome>,
    /// In order, each with the revision that caused it.
    pub events: Vec<(Revision, Event)>,
}

/// How a hold or a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LossCause {
    /// The owner released it.
    Released,
    SessionClosed,
    SessionExpired,
    /// A client of the tree deleted the entry's znode.
    Deleted,
    /// The hold reached the `max_hold` of its acquire.
    MaxHold,
    /// The holder did not release by the deadline of a release request.
    Revoked,
    /// An operator broke it.
    ForceReleased,
    /// The holder handed the lock over to another session.
    HandedOver,
    /// The semaphore's limit fell below the permits that the waiter requests.
    LimitLowered,
}

impl LossCause {
    pub const ALL: [Self; 9] = [
        Self::Released,
        Self::SessionClosed,
        Self::SessionExpired,
        Self::Deleted,
        Self::MaxHold,
        Self::Revoked,
        Self::ForceReleased,
        Self::HandedOver,
        Self::LimitLowered,
    ];

    /// The word in replies and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::SessionClosed => "session-closed",
            Self::SessionExpired => "session-expired",
            Self::Deleted => "deleted",
            Self::MaxHold => "max-hold",
            Self::Revoked => "revoked",
            Self::ForceReleased => "force-released",
            Self::HandedOver => "handed-over",
            Self::LimitLowered => "limit-lowered",
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Lock(LockEvent),
    Session(SessionEvent),
    Tree(TreeEvent),
    Recipe(RecipeEvent),
    /// A member was added, registered, changed or removed.
    MemberChanged {
        node: NodeId,
    },
    /// Subjects, roles, access tokens or the mode changed.
    AuthChanged,
    /// The audit trail has a new record. Its hash follows from all records.
    Audited {
        number: u64,
        hash: AuditHash,
    },
    /// The feature level was raised or lowered.
    LevelChanged {
        level: FeatureLevel,
    },
    /// Every node computes the digest of its whole state after this entry.
    VerifyState,
    /// The cluster was sealed or unsealed.
    SealChanged,
}

/// A change of a lock, its queue or its policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockEvent {
    /// A waiter or a new arrival became a holder.
    Granted(Grant),
    /// A hold ended.
    HoldEnded {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        ticket: Ticket,
        token: FencingToken,
        granted_at: Stamp,
        granted_in: Revision,
        cause: LossCause,
    },
    /// A waiter left the queue without a grant.
    WaitEnded {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        ticket: Ticket,
        cause: LossCause,
    },
    /// A hold has another mode, under the same token, or no longer waits for one.
    ModeChanged(Grant),
    /// A hold shows another value, under the same token.
    ValueChanged(Grant),
    PolicyChanged {
        lock: LockName,
        /// The whole policy after the change.
        policy: LockPolicy,
    },
    /// The lock is not granted until a stamp.
    CooldownStarted {
        lock: LockName,
        cooldown: Cooldown,
    },
    CooldownEnded {
        lock: LockName,
    },
    /// An operator removes a holder or a waiter. The event of its end follows.
    BrokenByOperator {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        ticket: Ticket,
        /// `None` for a waiter.
        token: Option<FencingToken>,
        reason: Reason,
    },
    /// A holder is asked to release the lock.
    ReleaseRequested {
        lock: LockName,
        session: SessionName,
        owner: Owner,
        ticket: Ticket,
        token: FencingToken,
        request: ReleaseRequest,
    },
}

impl LockEvent {
    /// The lock that changed.
    pub fn lock(&self) -> &LockName {
        match self {
            Self::Granted(grant) | Self::ModeChanged(grant) | Self::ValueChanged(grant) => {
                &grant.lock
            }
            Self::HoldEnded { lock, .. }
            | Self::WaitEnded { lock, .. }
            | Self::PolicyChanged { lock, .. }
            | Self::CooldownStarted { lock, .. }
            | Self::CooldownEnded { lock }
            | Self::BrokenByOperator { lock, .. }
            | Self::ReleaseRequested { lock, .. } => lock,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionEvent {
    /// The session was opened, or renewed through the log: its lease starts again.
    LeaseStarted { id: SessionId, ttl: Ttl, generation: u64 },
    /// The session ended, and every entry and ephemeral znode of it with it.
    Ended { id: SessionId, session: SessionName, end: SessionEnd },
    /// The session is bound to the connection that this revision attached, and to no other.
    Attached { id: SessionId },
}

/// A change of a znode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TreeEvent {
    Created {
        path: ZnodePath,
    },
    Deleted {
        path: ZnodePath,
        /// Its access list; `None` allowed every client everything.
        acl: Option<Arc<AccessList>>,
    },
    DataChanged {
        path: ZnodePath,
    },
    /// A subtree exceeds its soft quota. Nothing was rejected.
    SoftQuotaExceeded {
        /// The root of the subtree.
        path: ZnodePath,
    },
}

impl From<LockEvent> for Event {
    fn from(event: LockEvent) -> Self {
        Self::Lock(event)
    }
}

impl From<SessionEvent> for Event {
    fn from(event: SessionEvent) -> Self {
        Self::Session(event)
    }
}

impl From<TreeEvent> for Event {
    fn from(event: TreeEvent) -> Self {
        Self::Tree(event)
    }
}
