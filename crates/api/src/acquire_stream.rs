//! The events of an acquire whose response is a stream.

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, HolderView, LockName, Owner, Revision, SessionName, Stamp, WaiterView,
};

use crate::lock::{age, named_owner};

/// The event `queued`: the waiter's position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedBody {
    /// The lock.
    pub lock: LockName,
    /// The position; the waiter at 1 is granted next.
    pub position: u32,
    /// The number of all waiters.
    pub waiters: u32,
    /// The callers ahead in the queue: the holders, then the first waiters.
    pub ahead: Vec<AheadBody>,
    /// The estimated wait, if the node has recorded recent holds of this lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateBody>,
    /// The revision of the read.
    pub revision: Revision,
}

/// The place of a caller that queued without waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnqueuedBody {
    /// The place in the queue.
    #[serde(flatten)]
    pub place: QueuedBody,
    /// How to keep the place, to ask for the grant, and to leave the queue.
    pub hint: String,
}

/// A caller ahead in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AheadBody {
    /// The session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Whether the caller holds the lock; otherwise the caller waits.
    pub holds: bool,
    /// The time since the grant, or since the start of the wait.
    pub for_ms: u64,
}

impl AheadBody {
    /// A holder, as of now.
    pub fn holder(holder: HolderView, now: Stamp) -> Self {
        let for_ms = age(holder.granted_at, now);
        Self { session: holder.session, owner: named_owner(holder.owner), holds: true, for_ms }
    }

    /// A waiter, as of now.
    pub fn waiter(waiter: WaiterView, now: Stamp) -> Self {
        let for_ms = age(waiter.since, now);
        Self { session: waiter.session, owner: named_owner(waiter.owner), holds: false, for_ms }
    }
}

/// The wait if every hold takes as long as the recent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimateBody {
    /// Milliseconds from now.
    pub ms: u64,
    /// The number of recent holds.
    pub holds: u32,
}

/// The event `renewed` of a hold that lives as long as its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewedBody {
    /// Milliseconds until the hold expires, at the time of the event.
    pub expires_in_ms: u64,
}

/// The event `lost` of a hold that lives as long as its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostBody {
    /// The lock.
    pub lock: LockName,
    /// The token that is no longer valid.
    pub token: FencingToken,
    /// The session.
    pub session: SessionName,
    /// The cause, as in `EventBody`; or `unconfirmed` if no quorum confirmed a renewal for a whole time-to-live, or
    /// `shutting-down` if the node shuts down.
    pub cause: String,
}
