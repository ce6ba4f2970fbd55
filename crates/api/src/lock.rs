//! What is said about locks: grants, holders, queues, pages, and the judgement of a token.
//!
//! Ages are milliseconds before the answer, computed from stamps with a clock reading handed in: information, not
//! something to decide by. Deadlines are relative (`expires_in_ms`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    CooldownCause, Data, FenceView, FencingToken, Grant, HolderNote, HolderView, Labels, LockName,
    LockPolicy, LockView, Mode, Owner, Page, QueueOrder, ReleaseRequest, Revision, SessionName,
    Stamp, WaiterView,
};

use crate::SegmentBody;

/// The answer to an acquire: you hold the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantBody {
    /// Which lock.
    pub lock: LockName,
    /// How it is held.
    pub mode: Mode,
    /// The fencing token, to be carried into every write.
    pub token: FencingToken,
    /// The smallest token of the lock that is still good: what a store of shared holders goes by.
    #[serde(default)]
    pub floor: FencingToken,
    /// Whose; made by the server if the call named none.
    pub session: SessionName,
    /// Who within the session, if the call said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// What is certainly left of the session's life, counted from when the answer was made.
    pub expires_in_ms: u64,
    /// True if the caller held it before.
    pub renewed: bool,
    /// How long the call waited.
    pub waited_ms: u64,
    /// Who waits behind it.
    pub waiters: u32,
    /// Entries counted.
    pub entries: u32,
    /// Of a semaphore: how many permits.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub permits: u32,
    /// Of a semaphore: a slot to each permit, held by nobody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<u32>,
    /// When the hold ends whatever the session does, milliseconds from now, if the call set an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// Which segment it is, if the call asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<u32>,
    /// The revision of this answer.
    pub revision: Revision,
}

impl GrantBody {
    /// The body for a grant.
    pub fn new(
        grant: Grant,
        (waited, expires_in): (Duration, Duration),
        now: Stamp,
        revision: Revision,
    ) -> Self {
        Self {
            lock: grant.lock,
            mode: grant.mode,
            token: grant.token,
            floor: grant.floor,
            session: grant.session,
            owner: named_owner(grant.owner),
            expires_in_ms: holdfast_types::millis(expires_in),
            renewed: grant.renewed,
            waited_ms: holdfast_types::millis(waited),
            waiters: grant.waiters,
            entries: grant.hold_count,
            permits: grant.permits,
            slots: grant.slots,
            ends_in_ms: grant.ends_at.map(|end| age(now, end)),
            segment: None,
            revision,
        }
    }
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HolderBody {
    /// Whose.
    pub session: SessionName,
    /// Who within the session, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Its token.
    pub token: FencingToken,
    /// How long it has held.
    pub since_ms: u64,
    /// Entries counted.
    pub entries: u32,
    /// The session's labels.
    pub labels: Labels,
    /// How it holds.
    #[serde(default)]
    pub mode: Mode,
    /// Of a semaphore: how many permits.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub permits: u32,
    /// Of a semaphore: a slot to each permit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<u32>,
    /// It waits to hold exclusively.
    #[serde(default, skip_serializing_if = "is_false")]
    pub upgrading: bool,
    /// When the hold ends whatever the session does, milliseconds from now, if it set an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// What its call gave to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// It is asked to give the lock back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_request: Option<ReleaseRequestBody>,
    /// The locks that were granted together with it, itself among them, if it did not come alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multi_lock: Vec<LockName>,
    /// How long ago its session was renewed, if the leader was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed_ms_ago: Option<u64>,
    /// When its session expires unless it is renewed, if the leader was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

impl HolderBody {
    /// The body for a holder, as of now.
    pub fn new(holder: HolderView, now: Stamp) -> Self {
        Self {
            session: holder.session,
            owner: named_owner(holder.owner),
            token: holder.token,
            since_ms: age(holder.granted_at, now),
            entries: holder.hold_count,
            labels: holder.labels,
            mode: holder.mode,
            permits: holder.permits,
            slots: holder.slots,
            upgrading: holder.upgrading,
            ends_in_ms: holder.ends_at.map(|end| age(now, end)),
            value: holder.value.map(|value| text(&value)),
            release_request: None,
            multi_lock: Vec::new(),
            renewed_ms_ago: None,
            expires_in_ms: None,
        }
    }
}

/// Who waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaiterBody {
    /// Whose.
    pub session: SessionName,
    /// Who within the session, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// How long it has waited.
    pub since_ms: u64,
    /// The session's labels.
    pub labels: Labels,
    /// How it wants to hold.
    #[serde(default)]
    pub mode: Mode,
    /// Of a semaphore: how many permits it wants.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub permits: u32,
    /// From 0 to 9.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
    /// What its call gave to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The locks that it waits for together, this one among them, if it wants several at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multi_lock: Vec<LockName>,
}

impl HolderBody {
    /// The same, with what is said of few holders only.
    fn noted(self, note: Option<HolderNote>, now: Stamp) -> Self {
        let Some(HolderNote { token: _, release_request, bundle }) = note else { return self };
        let asked = |asked: ReleaseRequest| ReleaseRequestBody {
            reason: asked.reason.map(|reason| reason.to_string()),
            wanted_in_ms: age(now, asked.deadline),
            revoke: asked.revoke,
        };
        Self { release_request: release_request.map(asked), multi_lock: bundle, ..self }
    }
}

impl WaiterBody {
    fn new(waiter: WaiterView, now: Stamp) -> Self {
        Self {
            session: waiter.session,
            owner: named_owner(waiter.owner),
            since_ms: age(waiter.since, now),
            labels: waiter.labels,
            mode: waiter.mode,
            permits: waiter.permits,
            priority: waiter.priority,
            value: waiter.value.map(|value| text(&value)),
            multi_lock: waiter.bundle,
        }
    }
}

/// A lock as a reader sees it. One that nobody ever took is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockBody {
    /// Which lock.
    pub lock: LockName,
    /// How its first holder holds it; exclusively if nobody does.
    pub mode: Mode,
    /// Whether anybody holds it.
    pub held: bool,
    /// Who holds it, in the order in which they came; the first ones only if there are many.
    pub holders: Vec<HolderBody>,
    /// How many hold it in all.
    #[serde(default)]
    pub holders_total: u32,
    /// How many wait in all.
    pub waiters: u32,
    /// Who waits, in order; the first ones only if there are many.
    pub queue: Vec<WaiterBody>,
    /// The last token minted for it, if one is remembered.
    pub last_token: Option<FencingToken>,
    /// The smallest token that is still good.
    #[serde(default)]
    pub floor: FencingToken,
    /// Of a semaphore: how many permits are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits_held: Option<u32>,
    /// Its rules, if they are not the default ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyBody>,
    /// Why it is granted to nobody, if it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedBody>,
    /// Its segments, if it is cut into some; none in a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentBody>,
    /// The revision it was read at; in a list, the list says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

fn holders(holders: Vec<HolderView>, notes: &[HolderNote], now: Stamp) -> Vec<HolderBody> {
    let one = |holder: HolderView| {
        let note = notes.iter().find(|note| note.token == holder.token);
        HolderBody::new(holder, now).noted(note.cloned(), now)
    };
    holders.into_iter().map(one).collect()
}

impl LockBody {
    /// The body for a lock, as of now.
    pub fn new(view: LockView, now: Stamp, revision: Option<Revision>) -> Self {
        Self {
            mode: view.holder().map_or(Mode::Exclusive, |holder| holder.mode),
            lock: view.lock,
            held: view.holders_total > 0,
            holders: holders(view.holders, &view.notes, now),
            holders_total: view.holders_total,
            waiters: view.waiters_total,
            queue: view.waiters.into_iter().map(|waiter| WaiterBody::new(waiter, now)).collect(),
            last_token: view.last_token,
            floor: view.floor,
            permits_held: view.policy.limit.map(|_| view.permits_held),
            policy: (view.policy != LockPolicy::DEFAULT).then(|| PolicyBody::new(view.policy)),
            closed: view.cooldown.map(|cooldown| ClosedBody {
                why: cooldown.cause,
                opens_in_ms: age(now, cooldown.until),
            }),
            segments: SegmentBody::all(view.segments),
            revision,
        }
    }

    /// The first holder, if the lock is held.
    pub fn holder(&self) -> Option<&HolderBody> {
        self.holders.first()
    }
}

/// Why a lock is granted to nobody, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClosedBody {
    /// Why.
    pub why: CooldownCause,
    /// What is left of it.
    pub opens_in_ms: u64,
}

/// The rules of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyBody {
    /// Permits, if it is a semaphore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Who goes before whom.
    pub order: QueueOrder,
    /// How much waiting one level of priority is worth.
    pub ageing_ms: u64,
    /// How long it stays closed after an unclean loss.
    pub lock_delay_ms: u64,
    /// How long there is no other grant after one.
    pub cooldown_ms: u64,
    /// Whether requests that would close a cycle of waiters are refused.
    pub detect_deadlocks: bool,
    /// Into how many segments the resource is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u32>,
}

impl PolicyBody {
    /// The body for a policy.
    pub fn new(policy: LockPolicy) -> Self {
        let LockPolicy {
            limit,
            order,
            ageing_ms,
            lock_delay_ms,
            cooldown_ms,
            detect_deadlocks,
            segments,
        } = policy;
        Self { limit, order, ageing_ms, lock_delay_ms, cooldown_ms, detect_deadlocks, segments }
    }
}

/// The answer to a call for several locks: you hold them all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantAllBody {
    /// One to each lock, by name.
    pub grants: Vec<GrantBody>,
    /// The revision of this answer.
    pub revision: Revision,
}

/// A holder is asked to give the lock back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseRequestBody {
    /// Why, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// By when the lock is wanted, milliseconds from now.
    pub wanted_in_ms: u64,
    /// Whether the hold ends then.
    pub revoke: bool,
}

/// A lock was taken from its holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BrokenBody {
    /// Which lock.
    pub lock: LockName,
    /// How many held it.
    pub broken: u32,
    /// The revision of this answer.
    pub revision: Revision,
}

/// Holders of a lock were asked to give it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskedBody {
    /// Which lock.
    pub lock: LockName,
    /// How many hold it, and were asked.
    pub asked: u32,
    /// The revision of this answer.
    pub revision: Revision,
}

/// A lock was handed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandedBody {
    /// Which lock.
    pub lock: LockName,
    /// Who holds it now.
    pub to: SessionName,
    /// Who within the session, if the call said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_owner: Option<Owner>,
    /// Under which token.
    pub token: FencingToken,
    /// The revision of this answer.
    pub revision: Revision,
}

impl HandedBody {
    /// The body for the new hold.
    pub fn new(grant: Grant, revision: Revision) -> Self {
        let (lock, to, token) = (grant.lock, grant.session, grant.token);
        Self { lock, to, to_owner: named_owner(grant.owner), token, revision }
    }
}

/// A page of locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocksBody {
    /// In order of their names.
    pub locks: Vec<LockBody>,
    /// Give it back as `page_token` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision they were read at.
    pub revision: Revision,
}

impl LocksBody {
    /// The body for a page, as of now.
    pub fn new(page: Page<LockView>, now: Stamp) -> Self {
        Self {
            locks: page.items.into_iter().map(|view| LockBody::new(view, now, None)).collect(),
            next_page_token: page.next,
            revision: page.revision,
        }
    }
}

/// The judgement that a token is good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FenceBody {
    /// Of which lock.
    pub lock: LockName,
    /// The token judged.
    pub token: FencingToken,
    /// Always true: a token that is not good is a problem `stale-token`.
    pub valid: bool,
    /// The present holder's token, if there is one; of several the newest.
    pub current: Option<FencingToken>,
    /// The smallest token that is still good.
    #[serde(default)]
    pub floor: FencingToken,
    /// The largest token minted for the lock, if one is remembered.
    pub highest: Option<FencingToken>,
    /// The revision it was read at.
    pub revision: Revision,
}

impl FenceBody {
    /// The body for a good token.
    pub fn new(lock: LockName, token: FencingToken, view: FenceView, revision: Revision) -> Self {
        let FenceView { current, floor, highest } = view;
        Self { lock, token, valid: true, current, floor, highest, revision }
    }
}

/// The owner of a call that named none is not shown.
pub fn named_owner(owner: Owner) -> Option<Owner> {
    Some(owner).filter(|owner| *owner != Owner::unnamed())
}

/// What was given to be shown, as text.
pub(crate) fn text(value: &Data) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// What most have.
fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &u8) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Milliseconds from a stamp to now; none if this clock is behind the leader's.
pub(crate) fn age(since: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(since.0)
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Cooldown, Ticket, Ttl};

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
        let expected = r#"{"lock":"job","mode":"exclusive","token":4812,"floor":4812,"session":"web1-812","expires_in_ms":30000,"renewed":false,"waited_ms":0,"waiters":0,"entries":1,"revision":4812}"#;
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
            bundle: Vec::new(),
        };
        let view = LockView {
            lock: LockName::new("job").unwrap(),
            holders: vec![holder],
            holders_total: 1,
            permits_held: 1,
            waiters: vec![waiter],
            waiters_total: 1,
            last_token: Some(FencingToken(5)),
            floor: FencingToken(5),
            policy: LockPolicy::DEFAULT,
            cooldown: Some(Cooldown { until: Stamp(4_000), cause: CooldownCause::Cooldown }),
            notes: Vec::new(),
            segments: Vec::new(),
        };
        let body = LockBody::new(view, Stamp(3_500), Some(Revision(9)));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"lock":"job","mode":"shared","held":true,"holders":[{"session":"a","token":5,"since_ms":2500,"entries":1,"labels":{"host":"web3"},"mode":"shared","ends_in_ms":1000,"value":"10.0.0.7"}],"holders_total":1,"waiters":1,"queue":[{"session":"a","since_ms":0,"labels":{},"mode":"exclusive","priority":3}],"last_token":5,"floor":5,"closed":{"why":"cooldown","opens_in_ms":500},"revision":9}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<LockBody>(&json).unwrap(), body);
    }
}
