//! What is said about sessions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, Labels, LockName, Page, Revision, SessionId, SessionName, SessionView, Stamp, Ttl,
};

use crate::lock::age;

/// A lock that a session holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldBody {
    /// Which lock.
    pub lock: LockName,
    /// With which token.
    pub token: FencingToken,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionBody {
    /// Its id.
    pub session: SessionName,
    /// Tells it from every other session that has, had or will have the same id.
    pub incarnation: SessionId,
    /// What it lives without a renewal.
    pub ttl_ms: u32,
    /// What is certainly left of that, counted from when the answer was made; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// How long it has been open.
    pub age_ms: u64,
    /// Made by the server for one lock: it ends with its last release.
    pub anonymous: bool,
    /// Its labels.
    pub labels: Labels,
    /// What it holds.
    pub holds: Vec<HoldBody>,
    /// What it waits for.
    pub waits: Vec<LockName>,
    /// The revision of this answer; in a list, the list says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

impl SessionBody {
    /// The body for one session, as of now.
    pub fn new(view: SessionView, expires_in: Duration, now: Stamp, revision: Revision) -> Self {
        let listed = Self::listed(view, now);
        Self {
            expires_in_ms: Some(holdfast_types::millis(expires_in)),
            revision: Some(revision),
            ..listed
        }
    }

    /// The body for one session of a list.
    fn listed(view: SessionView, now: Stamp) -> Self {
        let hold = |(lock, token)| HoldBody { lock, token };
        Self {
            session: view.session,
            incarnation: view.id,
            ttl_ms: Ttl::as_millis(view.ttl),
            expires_in_ms: None,
            age_ms: age(view.opened_at, now),
            anonymous: view.anonymous,
            labels: view.labels,
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
    /// In order of their ids.
    pub sessions: Vec<SessionBody>,
    /// Give it back as `page_token` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision they were read at.
    pub revision: Revision,
}

impl SessionsBody {
    /// The body for a page, as of now.
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
    fn a_session_shows_what_it_holds_and_waits_for() {
        let view = SessionView {
            id: SessionId(3),
            session: SessionName::new("me").unwrap(),
            ttl: Ttl::DEFAULT,
            generation: 1,
            anonymous: false,
            opened_at: Stamp(500),
            labels: Labels::default(),
            holds: vec![(LockName::new("a/b").unwrap(), FencingToken(7))],
            waits: vec![LockName::new("c").unwrap()],
        };
        let body = SessionBody::new(view, Duration::from_secs(20), Stamp(1_500), Revision(8));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"session":"me","incarnation":3,"ttl_ms":30000,"expires_in_ms":20000,"age_ms":1000,"anonymous":false,"labels":{},"holds":[{"lock":"a/b","token":7}],"waits":["c"],"revision":8}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<SessionBody>(&json).unwrap(), body);
    }
}
