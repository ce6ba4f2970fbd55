//! Bodies of elections. An election is the lock `elections/<name>`: its holder leads, its waiters are candidates.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    Data, FencingToken, Grant, HolderView, LockName, LockView, NameError, Owner, Revision,
    SessionName, Stamp, WaiterView,
};

use crate::lock::{age, named_owner, text};
use crate::name_note::election_note;

/// The prefix of the locks of elections.
const ELECTIONS: &str = "elections/";

/// The lock of an election.
///
/// # Errors
/// [`NameError`] if its name is too long.
pub fn election_lock(election: &LockName) -> Result<LockName, NameError> {
    LockName::new(format!("{ELECTIONS}{election}"))
}

/// The election of a lock; `None` if the lock is not one of an election.
pub fn election_of(lock: &LockName) -> Option<LockName> {
    LockName::new(lock.as_str().strip_prefix(ELECTIONS)?).ok()
}

/// The response to a campaign: the caller leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElectedBody {
    /// The election.
    pub election: LockName,
    /// The fencing token of the leadership, to send with every write.
    pub token: FencingToken,
    /// The session of the leader; created by the server for a call without a session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The candidate's value, which every read shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Milliseconds until the session expires, counted from the time of the response.
    pub expires_in_ms: u64,
    /// Whether the caller already led.
    pub renewed: bool,
    /// How long the call waited.
    pub waited_ms: u64,
    /// The number of candidates that wait, without the leader.
    pub candidates: u32,
    /// A hint, if the name of the election looks like a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The revision of this response.
    pub revision: Revision,
}

impl ElectedBody {
    pub fn new(
        election: LockName,
        grant: Grant,
        (waited, expires_in): (Duration, Duration),
        revision: Revision,
    ) -> Self {
        Self {
            note: election_note(&election),
            election,
            token: grant.token,
            session: grant.session,
            owner: named_owner(grant.owner),
            value: shown(grant.value.as_ref()),
            expires_in_ms: holdfast_types::millis(expires_in),
            renewed: grant.renewed,
            waited_ms: holdfast_types::millis(waited),
            candidates: grant.waiters,
            revision,
        }
    }
}

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderBody {
    /// The session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The fencing token of the leadership.
    pub token: FencingToken,
    /// The candidate's value, which every read shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl LeaderBody {
    /// The leader from the hold of the election's lock.
    pub fn new(
        (session, owner): (SessionName, Owner),
        token: FencingToken,
        value: Option<&Data>,
    ) -> Self {
        Self { session, owner: named_owner(owner), token, value: shown(value) }
    }

    fn of(holder: HolderView) -> Self {
        let value = holder.value;
        Self::new((holder.session, holder.owner), holder.token, value.as_ref())
    }
}

/// A candidate that does not lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CandidateBody {
    /// The session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The candidate's value, which every read shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The time since the start of the candidacy.
    pub waiting_for_ms: u64,
}

impl CandidateBody {
    fn new(waiter: WaiterView, now: Stamp) -> Self {
        Self {
            session: waiter.session,
            owner: named_owner(waiter.owner),
            value: shown(waiter.value.as_ref()),
            waiting_for_ms: age(waiter.since, now),
        }
    }
}

/// An election. An election without candidates has no leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElectionBody {
    /// The election.
    pub election: LockName,
    /// The leader; null if there is none.
    pub leader: Option<LeaderBody>,
    /// The time since the start of the leadership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leading_for_ms: Option<u64>,
    /// The first candidates, in queue order.
    pub candidates: Vec<CandidateBody>,
    /// The number of all candidates.
    pub candidates_total: u32,
    /// The revision of the read.
    pub revision: Revision,
}

impl ElectionBody {
    pub fn new(election: LockName, view: LockView, now: Stamp, revision: Revision) -> Self {
        let leader = view.holders.into_iter().next();
        Self {
            election,
            leading_for_ms: leader.as_ref().map(|holder| age(holder.granted_at, now)),
            leader: leader.map(LeaderBody::of),
            candidates: view.waiters.into_iter().map(|w| CandidateBody::new(w, now)).collect(),
            candidates_total: view.waiters_total,
            revision,
        }
    }
}

/// An event of an observed election: the new leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeadershipBody {
    /// The election.
    pub election: LockName,
    /// The leader; null if there is none.
    pub leader: Option<LeaderBody>,
    /// The revision of the change.
    pub revision: Revision,
}

fn shown(value: Option<&Data>) -> Option<String> {
    value.map(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election_path;

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    #[test]
    fn an_election_is_a_lock_below_one_directory() {
        let lock = election_lock(&name("shop/db")).unwrap();
        assert_eq!(
            (lock.as_str(), election_of(&lock)),
            ("elections/shop/db", Some(name("shop/db")))
        );
        assert_eq!(election_of(&name("election/db")), None);
        assert!(election_lock(&name(&"x".repeat(LockName::MAX_LEN))).is_err());
        assert_eq!(election_path(&name("shop/db 1")), "/v1/elections/shop/db%201");
    }

    #[test]
    fn an_event_looks_as_specified() {
        let (me, value) = (SessionName::new("db1").unwrap(), Data::from(b"10.0.0.7".as_slice()));
        let leader = LeaderBody::new((me, Owner::unnamed()), FencingToken(7), Some(&value));
        let mut body =
            LeadershipBody { election: name("db"), leader: Some(leader), revision: Revision(9) };
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"election":"db","leader":{"session":"db1","token":7,"value":"10.0.0.7"},"revision":9}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<LeadershipBody>(&json).unwrap(), body);
        body.leader = None;
        let json = serde_json::to_string(&body).unwrap();
        assert_eq!(json, r#"{"election":"db","leader":null,"revision":9}"#);
    }
}
