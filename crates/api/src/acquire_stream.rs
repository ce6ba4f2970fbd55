//! The events of an acquire that is answered as a stream.

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, HolderView, LockName, Owner, Revision, SessionName, Stamp, WaiterView,
};

use crate::lock::{age, named_owner};

/// The event `queued`: where a waiter stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedBody {
    /// Which lock.
    pub lock: LockName,
    /// 1 is the next in line.
    pub position: u32,
    /// How many wait in all.
    pub waiters: u32,
    /// Who is ahead: those who hold the lock, then the first who wait.
    pub ahead: Vec<AheadBody>,
    /// An estimate of how long it may take, if recent holds of this lock are known to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateBody>,
    /// The revision it was read at.
    pub revision: Revision,
}

/// Somebody ahead in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AheadBody {
    /// Whose.
    pub session: SessionName,
    /// Who within the session, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Whether it holds the lock; else it waits.
    pub holds: bool,
    /// How long it has held or waited.
    pub since_ms: u64,
}

impl AheadBody {
    /// A holder, as of now.
    pub fn holder(holder: HolderView, now: Stamp) -> Self {
        let since_ms = age(holder.granted_at, now);
        Self { session: holder.session, owner: named_owner(holder.owner), holds: true, since_ms }
    }

    /// A waiter, as of now.
    pub fn waiter(waiter: WaiterView, now: Stamp) -> Self {
        let since_ms = age(waiter.since, now);
        Self { session: waiter.session, owner: named_owner(waiter.owner), holds: false, since_ms }
    }
}

/// How long a wait may take, if every hold takes as long as the recent ones did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimateBody {
    /// Milliseconds from now.
    pub ms: u64,
    /// From how many holds.
    pub holds: u32,
}

/// The event `renewed` of a hold that lives as long as its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewedBody {
    /// What is certainly left of the hold when this was written.
    pub expires_in_ms: u64,
}

/// The event `lost` of a hold that lives as long as its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostBody {
    /// Which lock.
    pub lock: LockName,
    /// The token that is no longer good.
    pub token: FencingToken,
    /// The session.
    pub session: SessionName,
    /// Why: as in [`EventBody::cause`], or `unconfirmed` if no quorum has confirmed a renewal for a whole time-to-live,
    /// or `shutting-down` if the node is going away.
    pub cause: String,
}
