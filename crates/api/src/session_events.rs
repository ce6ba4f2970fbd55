//! Bodies of keepalives: the events of a session's locks, and renewals of several sessions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, LockName, LossCause, Owner, ReleaseRequest, Revision, SessionName, Stamp, Ttl,
};

use crate::lock::{age, named_owner};
use crate::{Problem, SessionBody};

/// The answer to a keepalive that listens: the session, and what happened to its locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewsBody {
    /// The session, renewed; its `revision` is the next `since`.
    #[serde(flatten)]
    pub session: SessionBody,
    /// How long the call waited.
    pub waited_ms: u64,
    /// Oldest first.
    pub events: Vec<EventBody>,
    /// Present if something between `since` and now is not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapBody>,
}

/// Which kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A lock was granted to the session.
    Granted,
    /// The session no longer holds it.
    Lost,
    /// The session holds it, and is asked to give it back.
    ReleaseRequested,
}

/// Something that happened to a session's locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventBody {
    /// The revision that did it.
    pub revision: Revision,
    /// What happened.
    pub kind: EventKind,
    /// To which lock.
    pub lock: LockName,
    /// Who within the session, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The token of the hold.
    pub token: FencingToken,
    /// Why it ended: `released`, `session-closed`, `session-expired`, `deleted` (the znode, through the tree), `max-hold`,
    /// `revoked`, `broken` (by an operator), `handed-over`, or of a waiter `limit-lowered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Why it is asked for, if that was said; of a hold that an operator broke, the operator's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a `release-requested`: by when the lock is wanted, milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_in_ms: Option<u64>,
    /// Of a `release-requested`: whether the hold ends then.
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

    /// The reason that the operator gave who broke the hold.
    #[must_use]
    pub fn broken(self, reason: String) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same hold goes on, and its holder is asked to give it back.
    #[must_use]
    pub fn asked(self, request: ReleaseRequest, now: Stamp) -> Self {
        let ReleaseRequest { reason, requested_at: _, deadline, revoke } = request;
        let reason = reason.map(|reason| reason.to_string());
        let (wanted_in_ms, revoke) = (Some(age(now, deadline)), Some(revoke));
        Self { kind: EventKind::ReleaseRequested, reason, wanted_in_ms, revoke, ..self }
    }
}

/// Some news is forgotten: look at what the session holds instead, which the same answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapBody {
    /// What happened after `since` and up to this revision is not told.
    pub until: Revision,
}

/// The answer to a batch of renewals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptManyBody {
    /// One to each session asked for, in order.
    pub sessions: Vec<KeptBody>,
    /// The revision of the answer.
    pub revision: Revision,
}

/// One session of a batch of renewals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptBody {
    /// Which session.
    pub session: SessionName,
    /// What it lives without a renewal, if it was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u32>,
    /// What is certainly left of that when the answer was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Why it was not renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<Problem>>,
}

impl KeptBody {
    /// A session that was renewed.
    pub fn renewed(session: SessionName, ttl: Ttl, expires_in: Duration) -> Self {
        let expires_in_ms = Some(holdfast_types::millis(expires_in));
        Self { session, ttl_ms: Some(ttl.as_millis()), expires_in_ms, problem: None }
    }

    /// One that was not.
    pub fn refused(session: SessionName, problem: Box<Problem>) -> Self {
        Self { session, ttl_ms: None, expires_in_ms: None, problem: Some(problem) }
    }
}
