//! Explanations of a lock: blocking locks, recent wait and hold times, and past holds.
//!
//! Times and histories cover what one node has applied since its start: information, not a basis for decisions.

use serde::{Deserialize, Serialize};

use holdfast_types::{FencingToken, LockName, Owner, Revision, SessionName};

use crate::{LockBody, Rfc3339Time};

/// The state of a lock, and the reasons why it is not free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedBody {
    /// The holders and the queue.
    #[serde(flatten)]
    pub lock: LockBody,
    /// The chain of waits: the lock that the holder waits for, the lock that its holder waits for, and so on.
    #[serde(default)]
    pub blocked_by: Vec<WaitLinkBody>,
    /// Milliseconds until the sessions of all holders expire without renewals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_at_latest_in_ms: Option<u64>,
    /// Durations of recent waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<DurationStatsBody>,
    /// Durations of recent holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<DurationStatsBody>,
}

impl ExplainedBody {
    /// A lock without further facts.
    pub fn of(lock: LockBody) -> Self {
        Self { lock, blocked_by: Vec::new(), free_at_latest_in_ms: None, wait: None, hold: None }
    }
}

/// A holder that waits for another lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitLinkBody {
    /// The holder of the lock.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The lock for which the holder waits.
    pub waits_for: LockName,
    /// The time since the start of the wait.
    pub waiting_for_ms: u64,
    /// The holder of that lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<SessionName>,
    /// Whether the chain has reached `waits_for` before, so that it contains a deadlock cycle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadlock: bool,
}

/// Durations that one node has measured since its start; the weight of a duration halves every ten minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationStatsBody {
    /// The number of durations.
    pub count: u64,
    /// The median.
    pub p50_ms: u64,
    /// The 99th percentile.
    pub p99_ms: u64,
    /// The maximum.
    pub max_ms: u64,
}

/// The locks with the longest queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentionBody {
    /// The locks, longest queue first.
    pub locks: Vec<ExplainedBody>,
    /// The revision of the read.
    pub revision: Revision,
}

/// The holds of a lock in the history of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryBody {
    /// The lock.
    pub lock: LockName,
    /// The holds, newest first.
    pub holds: Vec<PastHoldBody>,
    /// Every hold that ended after this revision is included; earlier holds may be missing.
    pub complete_since_revision: Revision,
    /// The revision of the response.
    pub revision: Revision,
}

/// A hold, present or past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PastHoldBody {
    /// The fencing token.
    pub token: FencingToken,
    /// The session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The time of the grant by the leader's clock.
    pub granted_at: Rfc3339Time,
    /// The time of the end; absent while the hold lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Rfc3339Time>,
    /// The revision that ended the hold; absent while the hold lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_revision: Option<Revision>,
    /// The cause of the end, as in `EventBody`; absent while the hold lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}
