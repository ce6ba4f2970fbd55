//! Bodies of keepalives: the events of a session's locks, and renewals of several sessions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, LockName, LossCause, Owner, ReleaseRequest, Revision, SessionName, Stamp, Ttl,
};

use crate::lock::{age, named_owner};
use crate::{Problem, SessionBody};

/// The response to a keepalive that waits for events: the session, and the events of its locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionEventsBody {
    /// The renewed session; its `revision` is the next `since`.
    #[serde(flatten)]
    pub session: SessionBody,
    /// How long the call waited.
    pub waited_ms: u64,
    /// The events, oldest first.
    pub events: Vec<EventBody>,
    /// The missing events, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapBody>,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A lock was granted to the session.
    Granted,
    /// The session no longer holds the lock.
    Lost,
    /// A caller requests that the session release the lock; the hold continues.
    ReleaseRequested,
}

/// An event of a session's locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventBody {
    /// The revision of the event.
    pub revision: Revision,
    /// The kind.
    pub kind: EventKind,
    /// The lock.
    pub lock: LockName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The token of the hold.
    pub token: FencingToken,
    /// The cause of the end: `released`, `session-closed`, `session-expired`, `deleted` (the znode, through the tree),
    /// `max-hold`, `revoked`, `broken` (by an operator), `handed-over`, or of a waiter `limit-lowered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The reason of a release request; of a hold that an operator broke, the operator's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The deadline of a release request, milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_in_ms: Option<u64>,
    /// Whether the hold ends at the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoke: Option<bool>,
}

impl EventBody {
    /// A grant, or a loss with its cause.
    pub fn new(
        revision: Revision,
        lock: LockName,
        owner: Owner,
        token: FencingToken,
        lost: Option<LossCause>,
    ) -> Self {
        let kind = if lost.is_some() { EventKind::Lost } else { EventKind::Granted };
        let cause = lost.map(|cause| cause.as_str().to_owned());
        let (owner, reason, wanted_in_ms, revoke) = (named_owner(owner), None, None, None);
        Self { revision, kind, lock, owner, token, cause, reason, wanted_in_ms, revoke }
    }

    /// Adds the reason of the operator that broke the hold.
    #[must_use]
    pub fn broken(self, reason: String) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Turns the grant into a release request; the hold continues.
    #[must_use]
    pub fn asked(self, request: ReleaseRequest, now: Stamp) -> Self {
        let ReleaseRequest { reason, requested_at: _, deadline, revoke } = request;
        let reason = reason.map(|reason| reason.to_string());
        let (wanted_in_ms, revoke) = (Some(age(now, deadline)), Some(revoke));
        Self { kind: EventKind::ReleaseRequested, reason, wanted_in_ms, revoke, ..self }
    }
}

/// Some events are no longer available: compare the session's holds in the same response instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapBody {
    /// Events after `since` and up to this revision are missing.
    pub until: Revision,
}

/// The response to a call that renews several sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeepaliveManyBody {
    /// The result for each session, in the order of the call.
    pub sessions: Vec<KeepaliveBody>,
    /// The revision of the response.
    pub revision: Revision,
}

/// The result for one session of a call that renews several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeepaliveBody {
    /// The session.
    pub session: SessionName,
    /// The time-to-live, if the session was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u32>,
    /// The time until the session expires, at the time of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// The error, if the session was not renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<Problem>>,
}

impl KeepaliveBody {
    pub fn renewed(session: SessionName, ttl: Ttl, expires_in: Duration) -> Self {
        let expires_in_ms = Some(holdfast_types::millis(expires_in));
        Self { session, ttl_ms: Some(ttl.as_millis()), expires_in_ms, problem: None }
    }

    pub fn refused(session: SessionName, problem: Box<Problem>) -> Self {
        Self { session, ttl_ms: None, expires_in_ms: None, problem: Some(problem) }
    }
}
