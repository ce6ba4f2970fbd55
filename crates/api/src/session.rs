//! Bodies of sessions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, Labels, LockName, Page, Revision, SessionId, SessionName, SessionView, Stamp,
    SubjectName, Ttl,
};

use crate::lock::age;

/// A lock that a session holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldBody {
    /// The lock.
    pub lock: LockName,
    /// The token of the hold.
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
        let hold = |(lock, token)| HoldBody { lock, token };
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

#[cfg(test)]
mod tests {
    use holdfast_types::SessionId;

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
            holds: vec![(LockName::new("a/b").unwrap(), FencingToken(7))],
            waits: vec![LockName::new("c").unwrap()],
        };
        let body = SessionBody::new(view, Duration::from_secs(20), Stamp(1_500), Revision(8));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"session":"me","incarnation":3,"ttl_ms":30000,"expires_in_ms":20000,"open_for_ms":1000,"anonymous":false,"labels":{},"holds":[{"lock":"a/b","token":7}],"waits":["c"],"revision":8}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<SessionBody>(&json).unwrap(), body);
    }
}
