//! Bodies of locks: grants, holders, queues, pages, and the check of a token.
//!
//! Ages are milliseconds before the response, computed from stamps and a clock reading of the caller: information, not
//! a basis for decisions. Deadlines are relative (`expires_in_ms`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    Data, FenceView, FencingToken, Grant, HolderDetails, HolderView, Labels, LockName, LockPolicy,
    LockView, Mode, Owner, Page, ReleaseRequest, Revision, SessionName, ShardRequest, Stamp,
    Ticket, WaiterView, ZnodePath,
};

use crate::name_note::lock_note;
use crate::{CooldownBody, PolicyBody, ShardBody};

/// The response to an acquire: the caller holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantBody {
    /// The lock.
    pub lock: LockName,
    /// The mode of the hold.
    pub mode: Mode,
    /// The fencing token, to send with every write.
    pub token: FencingToken,
    /// The number of the queue entry: entries that arrived later have larger numbers. It stays the same from the
    /// arrival to the release.
    #[serde(default)]
    pub ticket: Ticket,
    /// The smallest token of the lock that is still valid. A store with shared holders rejects smaller tokens.
    #[serde(default)]
    pub min_valid_token: FencingToken,
    /// The session of the holder; created by the server for a call without a session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Milliseconds until the session expires, counted from the time of the response; absent for a durable hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Whether the caller already held the lock.
    pub renewed: bool,
    /// How long the call waited.
    pub waited_ms: u64,
    /// The number of waiters in the queue.
    pub waiters: u32,
    /// The number of attempts that hold the lock; each re-entry counts once.
    pub hold_count: u32,
    /// The number of permits of a semaphore.
    #[serde(default = "one")]
    pub permits: u32,
    /// The slot of each permit of a semaphore; no two holders share a slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<u32>,
    /// When `max_hold` or a release request that revokes ends the hold, milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// The number of the shard, if the call acquired one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// A hint, if the name of the lock looks like a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The revision of this response.
    pub revision: Revision,
}

impl GrantBody {
    pub fn new(
        grant: Grant,
        (waited, expires_in): (Duration, Duration),
        now: Stamp,
        revision: Revision,
    ) -> Self {
        Self {
            note: lock_note(&grant.lock),
            lock: grant.lock,
            mode: grant.mode,
            token: grant.token,
            ticket: grant.ticket,
            min_valid_token: grant.floor,
            expires_in_ms: (!grant.session.is_durable())
                .then(|| holdfast_types::millis(expires_in)),
            session: grant.session,
            owner: named_owner(grant.owner),
            renewed: grant.renewed,
            waited_ms: holdfast_types::millis(waited),
            waiters: grant.waiters,
            hold_count: grant.hold_count,
            permits: grant.permits,
            slots: grant.slots,
            ends_in_ms: grant.ends_at.map(|end| age(now, end)),
            shard: None,
            revision,
        }
    }

    /// Adds the shard number to a grant of a shard of `whole`.
    #[must_use]
    pub fn of_whole(self, whole: &LockName) -> Self {
        Self { shard: ShardRequest::shard_index(whole, &self.lock), ..self }
    }
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HolderBody {
    /// The session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The fencing token.
    pub token: FencingToken,
    /// The age of the hold.
    pub held_for_ms: u64,
    /// The number of attempts that hold the lock; each re-entry counts once.
    pub hold_count: u32,
    /// The session's labels.
    pub labels: Labels,
    /// The mode of the hold.
    #[serde(default)]
    pub mode: Mode,
    /// The number of permits; 1 for a lock that is not a semaphore.
    #[serde(default = "one")]
    pub permits: u32,
    /// The slot of each permit of a semaphore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<u32>,
    /// Whether the holder waits for an upgrade to exclusive mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upgrading: bool,
    /// When `max_hold` or a release request that revokes ends the hold, milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// The value that the caller set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The reason of a durable hold, which has no session of a client; absent for every other hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_reason: Option<String>,
    /// The pending request to release the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_request: Option<ReleaseRequestBody>,
    /// The locks of the multi-lock that acquired this lock, including this lock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multi_lock: Vec<LockName>,
    /// Milliseconds since the last renewal of the session; absent in stale reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_renewal_ms: Option<u64>,
    /// Milliseconds until the session expires without a renewal; absent in stale reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

impl HolderBody {
    pub fn new(holder: HolderView, now: Stamp) -> Self {
        Self {
            session: holder.session,
            owner: named_owner(holder.owner),
            token: holder.token,
            held_for_ms: age(holder.granted_at, now),
            hold_count: holder.hold_count,
            labels: holder.labels,
            mode: holder.mode,
            permits: holder.permits,
            slots: holder.slots,
            upgrading: holder.upgrading,
            ends_in_ms: holder.ends_at.map(|end| age(now, end)),
            value: holder.value.map(|value| text(&value)),
            durable_reason: holder.durable.map(|reason| reason.to_string()),
            release_request: None,
            multi_lock: Vec::new(),
            since_renewal_ms: None,
            expires_in_ms: None,
        }
    }
}

/// A waiter in the queue of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaiterBody {
    /// The session.
    pub session: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The number of the queue entry: entries that arrived later have larger numbers.
    #[serde(default)]
    pub ticket: Ticket,
    /// The time since the start of the wait.
    pub waiting_for_ms: u64,
    /// The session's labels.
    pub labels: Labels,
    /// The requested mode.
    #[serde(default)]
    pub mode: Mode,
    /// The number of requested permits; 1 for a lock that is not a semaphore.
    #[serde(default = "one")]
    pub permits: u32,
    /// The priority, 0 to 9.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
    /// The value that the caller set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The locks of the multi-lock for which the caller waits, including this lock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multi_lock: Vec<LockName>,
}

impl HolderBody {
    /// Adds the facts that few holders have.
    fn noted(self, note: Option<HolderDetails>, now: Stamp) -> Self {
        let Some(HolderDetails { token: _, release_request, multi_lock }) = note else {
            return self;
        };
        let asked = |asked: ReleaseRequest| ReleaseRequestBody {
            reason: asked.reason.map(|reason| reason.to_string()),
            wanted_in_ms: age(now, asked.deadline),
            revoke: asked.revoke,
        };
        Self { release_request: release_request.map(asked), multi_lock, ..self }
    }
}

impl WaiterBody {
    fn new(waiter: WaiterView, now: Stamp) -> Self {
        Self {
            session: waiter.session,
            owner: named_owner(waiter.owner),
            ticket: waiter.ticket,
            waiting_for_ms: age(waiter.since, now),
            labels: waiter.labels,
            mode: waiter.mode,
            permits: waiter.permits,
            priority: waiter.priority,
            value: waiter.value.map(|value| text(&value)),
            multi_lock: waiter.multi_lock,
        }
    }
}

/// A lock. A lock that was never acquired is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockBody {
    /// The lock.
    pub lock: LockName,
    /// The mode of the first holder; exclusive if the lock is free.
    pub mode: Mode,
    /// Whether the lock has a holder.
    pub held: bool,
    /// The first holders, in queue order.
    pub holders: Vec<HolderBody>,
    /// The number of all holders.
    #[serde(default)]
    pub holders_total: u32,
    /// The number of all waiters.
    pub waiters: u32,
    /// The first waiters, in queue order.
    pub queue: Vec<WaiterBody>,
    /// The age of the oldest hold; absent without a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_hold_ms: Option<u64>,
    /// The longest present wait; absent without a waiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_wait_ms: Option<u64>,
    /// The last fencing token minted for the lock; null if the lock was not held since the creation of its directory.
    pub last_token: Option<FencingToken>,
    /// The smallest token that is still valid.
    #[serde(default)]
    pub min_valid_token: FencingToken,
    /// The number of held permits of a semaphore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits_held: Option<u32>,
    /// The policy, if it is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyBody>,
    /// The cooldown, if the lock is free but is not granted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<CooldownBody>,
    /// The shards of a sharded lock; absent in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardBody>,
    /// A hint, if the name of the lock looks like a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Znodes of ZooKeeper clients that do not see HTTP callers: a new acquire is rejected while they exist. Absent in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_znodes: Vec<ZnodePath>,
    /// The revision of the read; absent in lists, which have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

fn holders(holders: Vec<HolderView>, notes: &[HolderDetails], now: Stamp) -> Vec<HolderBody> {
    let one = |holder: HolderView| {
        let note = notes.iter().find(|note| note.token == holder.token);
        HolderBody::new(holder, now).noted(note.cloned(), now)
    };
    holders.into_iter().map(one).collect()
}

impl LockBody {
    pub fn new(view: LockView, now: Stamp, revision: Option<Revision>) -> Self {
        Self {
            note: lock_note(&view.lock),
            mode: view.holder().map_or(Mode::Exclusive, |holder| holder.mode),
            lock: view.lock,
            held: view.holders_total > 0,
            holders: holders(view.holders, &view.notes, now),
            holders_total: view.holders_total,
            waiters: view.waiters_total,
            queue: view.waiters.into_iter().map(|waiter| WaiterBody::new(waiter, now)).collect(),
            oldest_hold_ms: view.held_since.map(|since| age(since, now)),
            longest_wait_ms: view.waiting_since.map(|since| age(since, now)),
            last_token: view.last_token,
            min_valid_token: view.floor,
            permits_held: view.policy.limit.map(|_| view.permits_held),
            policy: (view.policy != LockPolicy::DEFAULT).then(|| PolicyBody::new(view.policy)),
            cooldown: view.cooldown.map(|cooldown| CooldownBody {
                cause: cooldown.cause,
                ends_in_ms: age(now, cooldown.until),
            }),
            shards: ShardBody::all(view.shards),
            foreign_znodes: view.foreign_znodes,
            revision,
        }
    }

    /// The first holder, if the lock is held.
    pub fn holder(&self) -> Option<&HolderBody> {
        self.holders.first()
    }
}

/// The response to an acquire of a multi-lock: the caller holds every lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantAllBody {
    /// The grant of each lock, ordered by lock name.
    pub grants: Vec<GrantBody>,
    /// A hint, if one name looks like a list of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The revision of this response.
    pub revision: Revision,
}

/// A pending request that a holder release the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseRequestBody {
    /// The reason, if the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The deadline of the request, milliseconds from now.
    pub wanted_in_ms: u64,
    /// Whether the hold ends at the deadline.
    pub revoke: bool,
}

/// The response to a forced release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForceReleasedBody {
    /// The lock.
    pub lock: LockName,
    /// The number of holds that ended.
    pub ended: u32,
    /// The revision of this response.
    pub revision: Revision,
}

/// The response to a release request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseRequestedBody {
    /// The lock.
    pub lock: LockName,
    /// The number of holders that received the request.
    pub asked: u32,
    /// The revision of this response.
    pub revision: Revision,
}

/// The response to a hand-over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandedOverBody {
    /// The lock.
    pub lock: LockName,
    /// The session that holds it now.
    pub to: SessionName,
    /// The owner within the session, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_owner: Option<Owner>,
    /// The fencing token.
    pub token: FencingToken,
    /// The revision of this response.
    pub revision: Revision,
}

impl HandedOverBody {
    pub fn new(grant: Grant, revision: Revision) -> Self {
        let (lock, to, token) = (grant.lock, grant.session, grant.token);
        Self { lock, to, to_owner: named_owner(grant.owner), token, revision }
    }
}

/// A page of locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocksBody {
    /// The locks, ordered by name.
    pub locks: Vec<LockBody>,
    /// The `page_token` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

impl LocksBody {
    pub fn new(page: Page<LockView>, now: Stamp) -> Self {
        Self {
            locks: page.items.into_iter().map(|view| LockBody::new(view, now, None)).collect(),
            next_page_token: page.next,
            revision: page.revision,
        }
    }
}

/// The response to the check of a valid token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FenceBody {
    /// The lock.
    pub lock: LockName,
    /// The checked token.
    pub token: FencingToken,
    /// Always true: an invalid token is the error `stale-token`.
    pub valid: bool,
    /// The token of the current holder; the newest token if the lock has several holders.
    pub current: Option<FencingToken>,
    /// The smallest token that is still valid.
    #[serde(default)]
    pub min_valid_token: FencingToken,
    /// The largest token minted for the lock; null if the lock was not held since the creation of its directory.
    pub highest: Option<FencingToken>,
    /// The revision of the read.
    pub revision: Revision,
}

impl FenceBody {
    pub fn new(lock: LockName, token: FencingToken, view: FenceView, revision: Revision) -> Self {
        let FenceView { current, floor, highest } = view;
        Self { lock, token, valid: true, current, min_valid_token: floor, highest, revision }
    }
}

/// The owner; `None` for a call without one.
pub fn named_owner(owner: Owner) -> Option<Owner> {
    Some(owner).filter(|owner| *owner != Owner::unnamed())
}

/// A value as text.
pub(crate) fn text(value: &Data) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &u8) -> bool {
    *n == 0
}

/// Milliseconds from a stamp to now; 0 if this clock is behind the leader's.
pub(crate) fn age(since: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(since.0)
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Cooldown, CooldownCause, Ttl};

    use super::*;

    fn grant() -> Grant {
        Grant {
            lock: LockName::new("job").unwrap(),
            session: SessionName::new("web1-812").unwrap(),
            owner: Owner::unnamed(),
            ticket: Ticket(7),
            token: FencingToken(4812),
            mode: Mode::Exclusive,
            permits: 1,
            slots: Vec::new(),
            floor: FencingToken(4812),
            ends_at: None,
            ttl: Ttl::DEFAULT,
            hold_count: 1,
            renewed: false,
            waiters: 0,
            granted_at: Stamp(1_000),
            granted_in: Revision(4812),
            value: None,
        }
    }

    #[test]
    fn a_grant_looks_as_specified() {
        let (waited, left) = (Duration::ZERO, Duration::from_secs(30));
        let body = GrantBody::new(grant(), (waited, left), Stamp(1_000), Revision(4812));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"lock":"job","mode":"exclusive","token":4812,"ticket":7,"min_valid_token":4812,"session":"web1-812","expires_in_ms":30000,"renewed":false,"waited_ms":0,"waiters":0,"hold_count":1,"permits":1,"revision":4812}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<GrantBody>(&json).unwrap(), body);
    }

    #[test]
    fn an_owner_is_shown_only_if_it_was_named() {
        let owner = Owner::new("thread-3").unwrap();
        let grant = Grant { owner, ..grant() };
        let body = GrantBody::new(grant, (Duration::ZERO, Duration::ZERO), Stamp(0), Revision(1));
        assert!(serde_json::to_string(&body).unwrap().contains(r#""owner":"thread-3""#));
    }

    #[test]
    fn a_lock_shows_holders_and_queue_with_their_ages() {
        let session = SessionName::new("a").unwrap();
        let labels: Labels = serde_json::from_str(r#"{"host":"web3"}"#).unwrap();
        let holder = HolderView {
            session: session.clone(),
            owner: Owner::unnamed(),
            token: FencingToken(5),
            granted_at: Stamp(1_000),
            hold_count: 1,
            labels,
            mode: Mode::Shared,
            permits: 1,
            slots: Vec::new(),
            upgrading: false,
            ends_at: Some(Stamp(4_500)),
            value: Some(b"10.0.0.7".as_slice().into()),
            durable: None,
        };
        let waiter = WaiterView {
            session,
            owner: Owner::unnamed(),
            ticket: Ticket(9),
            since: Stamp(9_999),
            labels: Labels::default(),
            mode: Mode::Exclusive,
            permits: 1,
            priority: 3,
            value: None,
            multi_lock: Vec::new(),
        };
        let view = LockView {
            lock: LockName::new("job").unwrap(),
            holders: vec![holder],
            holders_total: 1,
            permits_held: 1,
            waiters: vec![waiter],
            waiters_total: 1,
            held_since: Some(Stamp(1_000)),
            waiting_since: Some(Stamp(3_000)),
            last_token: Some(FencingToken(5)),
            floor: FencingToken(5),
            policy: LockPolicy::DEFAULT,
            cooldown: Some(Cooldown { until: Stamp(4_000), cause: CooldownCause::Cooldown }),
            notes: Vec::new(),
            shards: Vec::new(),
            foreign_znodes: Vec::new(),
        };
        let body = LockBody::new(view, Stamp(3_500), Some(Revision(9)));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"lock":"job","mode":"shared","held":true,"holders":[{"session":"a","token":5,"held_for_ms":2500,"hold_count":1,"labels":{"host":"web3"},"mode":"shared","permits":1,"ends_in_ms":1000,"value":"10.0.0.7"}],"holders_total":1,"waiters":1,"queue":[{"session":"a","ticket":9,"waiting_for_ms":0,"labels":{},"mode":"exclusive","permits":1,"priority":3}],"oldest_hold_ms":2500,"longest_wait_ms":500,"last_token":5,"min_valid_token":5,"cooldown":{"cause":"cooldown","ends_in_ms":500},"revision":9}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<LockBody>(&json).unwrap(), body);
    }
}
