//! What waiters, sessions and curious people are told: places in queues, news of a session, why a lock is not free.
//!
//! Estimates and times come from what one node has seen since it started: information, not something to decide by.

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FencingToken, HolderView, LockName, LossCause, Owner, ReleaseRequest, Revision, SessionName,
    Stamp, Ttl, WaiterView,
};

use crate::lock::{age, named};
use crate::{LockBody, Problem, SessionBody};

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
        Self { session: holder.session, owner: named(holder.owner), holds: true, since_ms }
    }

    /// A waiter, as of now.
    pub fn waiter(waiter: WaiterView, now: Stamp) -> Self {
        let since_ms = age(waiter.since, now);
        Self { session: waiter.session, owner: named(waiter.owner), holds: false, since_ms }
    }
}

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
        let (owner, reason, wanted_in_ms, revoke) = (named(owner), None, None, None);
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
    pub fn renewed(session: SessionName, ttl: Ttl, expires_in: std::time::Duration) -> Self {
        let expires_in_ms = Some(holdfast_types::millis(expires_in));
        Self { session, ttl_ms: Some(ttl.as_millis()), expires_in_ms, problem: None }
    }

    /// One that was not.
    pub fn refused(session: SessionName, problem: Box<Problem>) -> Self {
        Self { session, ttl_ms: None, expires_in_ms: None, problem: Some(problem) }
    }
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

/// The locks that are waited for most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentionBody {
    /// Those with the longest queues first.
    pub locks: Vec<ExplainedBody>,
    /// The revision the queues were read at.
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
