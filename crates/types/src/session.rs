//! The opening and the end of a session.

use serde::{Deserialize, Serialize};

use crate::{Labels, Password, SessionId, SessionName, Ttl};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    pub session: SessionName,
    /// The time without a renewal after which the session expires. `None` means [`Ttl::DEFAULT`] for a new session,
    /// and unchanged for an open one.
    pub ttl: Option<Ttl>,
    /// Whether the server created the session for one acquire. It closes with its last release.
    pub anonymous: bool,
    /// Shown beside the session's queue entries.
    pub labels: Labels,
    /// Required from another connection to take over the session; `None` if the name is sufficient.
    pub password: Option<Password>,
    /// The id that a node has sent to the client of a connection before it opens the session, in [`SessionId::CHOSEN`].
    /// `None`: the state machine assigns the next one.
    pub id: Option<SessionId>,
    /// The session to use, among all sessions of that name: the command opens no other one, and is rejected after its end.
    pub incarnation: Option<SessionId>,
}

impl OpenSession {
    /// Opens or renews a session without other settings.
    pub fn of(session: SessionName) -> Self {
        Self {
            session,
            ttl: None,
            anonymous: false,
            labels: Labels::default(),
            password: None,
            id: None,
            incarnation: None,
        }
    }
}

/// How much of the lease of a session had passed without a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    pub session: SessionId,
    /// The lease. A record of a renewed lease changes nothing.
    pub generation: u64,
    /// Milliseconds; less than the TTL.
    pub used_ms: u32,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionEnd {
    /// A client closed it.
    Closed,
    /// Its lease expired.
    Expired,
}
