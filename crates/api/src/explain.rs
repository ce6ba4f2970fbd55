//! Why a lock is not free, and who held it before.
//!
//! Times and histories are what one node has seen since it started: information, not a basis for decisions.

use serde::{Deserialize, Serialize};

use holdfast_types::{FencingToken, LockName, Owner, Revision, SessionName};

use crate::LockBody;

/// A lock, and what is known of why it is not free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedBody {
    /// Who holds it and who waits.
    #[serde(flatten)]
    pub lock: LockBody,
    /// What the holder waits for itself, and so on.
    #[serde(default)]
    pub blocked_by: Vec<LinkBody>,
    /// When the next in line gets it at the latest if its holder shows no sign of life from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_if_dead_in_ms: Option<u64>,
    /// How long waiters waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<TimesBody>,
    /// How long it was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<TimesBody>,
}

impl ExplainedBody {
    /// A lock of which nothing else is known.
    pub fn of(lock: LockBody) -> Self {
        Self { lock, blocked_by: Vec::new(), free_if_dead_in_ms: None, wait: None, hold: None }
    }
}

/// A holder that waits itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkBody {
    /// The holder of the lock before.
    pub session: SessionName,
    /// Who within the session, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// What it waits for.
    pub waits_for: LockName,
    /// For how long it has waited.
    pub since_ms: u64,
    /// Who holds that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<SessionName>,
    /// Those in between wait for each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadlock: bool,
}

/// How long something took, as one node has seen it since it started; halved every ten minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimesBody {
    /// How many times.
    pub count: u64,
    /// Half of them took no longer.
    pub p50_ms: u64,
    /// 99 of 100 took no longer.
    pub p99_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

/// The locks that are waited for most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentionBody {
    /// Those with the longest queues first.
    pub locks: Vec<ExplainedBody>,
    /// The revision the queues were read at.
    pub revision: Revision,
}

/// Who held a lock when, as one node remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryBody {
    /// Which lock.
    pub lock: LockName,
    /// The youngest first.
    pub holds: Vec<PastHoldBody>,
    /// No hold that ended after this revision is missing; earlier ones may be.
    pub complete_after: Revision,
    /// The revision of the answer.
    pub revision: Revision,
}

/// A hold, present or past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PastHoldBody {
    /// Its token.
    pub token: FencingToken,
    /// Whose.
    pub session: SessionName,
    /// Who within the session, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// When it began, milliseconds of the Unix epoch by the leader's clock.
    pub since_at_ms: u64,
    /// When it ended; absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_at_ms: Option<u64>,
    /// The revision that ended it; absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_revision: Option<Revision>,
    /// Why it ended, as in [`EventBody::cause`]; absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}
