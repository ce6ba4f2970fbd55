//! Bodies of sessions: a session with its locks, the events of these locks, and renewals of several sessions.

use std::time::Duration;

use holdfast_types::{
    FencingToken, Labels, LockName, LossCause, Owner, Page, ReleaseRequest, Revision, SessionHold,
    SessionId, SessionName, SessionView, Stamp, SubjectName, Ticket, Ttl,
};
use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::lock::{age, named_owner};

/// A lock that a session holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldBody {
    /// The lock.
    pub lock: LockName,
    /// The number of the queue entry, which stays the same from the arrival to the release.
    #[serde(default)]
    pub ticket: Ticket,
    /// The present token of the hold: an upgrade replaces it.
    pub token: FencingToken,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionBody {
    /// The session id.
    pub session: SessionName,
    /// The session number, which differs between sessions with the same id.
    pub incarnation: SessionId,
    /// The time-to-live: the session expires after this time without a renewal.
    pub ttl_ms: u32,
    /// Milliseconds until the session expires, counted from the time of the response; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// The time since the session was opened.
    pub open_for_ms: u64,
    /// Whether the server opened the session for one acquire; it ends with the last release.
    pub anonymous: bool,
    /// The labels of the session.
    pub labels: Labels,
    /// The subject that opened the session, to which it belongs; absent if it had no credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectName>,
    /// The held locks.
    pub holds: Vec<HoldBody>,
    /// The locks for which the session waits.
    pub waits: Vec<LockName>,
    /// The revision of this response; absent in lists, which have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

impl SessionBody {
    pub fn new(view: SessionView, expires_in: Duration, now: Stamp, revision: Revision) -> Self {
        let listed = Self::listed(view, now);
        Self {
            expires_in_ms: Some(holdfast_types::millis(expires_in)),
            revision: Some(revision),
            ..listed
        }
    }

    fn listed(view: SessionView, now: Stamp) -> Self {
        let hold = |SessionHold { lock, ticket, token }| HoldBody { lock, ticket, token };
        Self {
            session: view.session,
            incarnation: view.id,
            ttl_ms: Ttl::as_millis(view.ttl),
            expires_in_ms: None,
            open_for_ms: age(view.opened_at, now),
            anonymous: view.anonymous,
            labels: view.labels,
            subject: view.subject,
            holds: view.holds.into_iter().map(hold).collect(),
            waits: view.waits,
            revision: None,
        }
    }
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionsBody {
    /// The sessions, ordered by id.
    pub sessions: Vec<SessionBody>,
    /// The `page_token` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

impl SessionsBody {
    pub fn new(page: Page<SessionView>, now: Stamp) -> Self {
        Self {
            sessions: page.items.into_iter().map(|view| SessionBody::listed(view, now)).collect(),
            next_page_token: page.next,
            revision: page.revision,
        }
    }
}

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
    /// The ticket of the hold, which an upgrade keeps.
    #[serde(default)]
    pub ticket: Ticket,
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
        ticket: Ticket,
        token: FencingToken,
        lost: Option<LossCause>,
    ) -> Self {
        let kind = if lost.is_some() { EventKind::Lost } else { EventKind::Granted };
        let cause = lost.map(|cause| cause.as_str().to_owned());
        let (owner, reason, wanted_in_ms, revoke) = (named_owner(owner), None, None, None);
        Self { revision, kind, lock, owner, ticket, token, cause, reason, wanted_in_ms, revoke }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_shows_its_holds_and_waits() {
        let view = SessionView {
            id: SessionId(3),
            session: SessionName::new("me").unwrap(),
            ttl: Ttl::DEFAULT,
            generation: 1,
            anonymous: false,
            opened_at: Stamp(500),
            labels: Labels::default(),
            subject: None,
            holds: vec![SessionHold {
                lock: LockName::new("a/b").unwrap(),
                ticket: Ticket(6),
                token: FencingToken(7),
            }],
            waits: vec![LockName::new("c").unwrap()],
        };
        let body = SessionBody::new(view, Duration::from_secs(20), Stamp(1_500), Revision(8));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"session":"me","incarnation":3,"ttl_ms":30000,"expires_in_ms":20000,"open_for_ms":1000,"anonymous":false,"labels":{},"holds":[{"lock":"a/b","ticket":6,"token":7}],"waits":["c"],"revision":8}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<SessionBody>(&json).unwrap(), body);
    }
}
