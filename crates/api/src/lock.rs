//! What is said about locks: grants, holders, queues, pages, and the judgement of a token.
//!
//! Ages are milliseconds before the answer, computed from stamps with a clock reading handed in: information, not
//! something to decide by. Deadlines are relative (`expires_in_ms`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use holdfast_types::{
    FenceView, FencingToken, Grant, HolderView, Labels, LockName, LockView, Owner, Page, Revision,
    SessionName, Stamp, WaiterView,
};

/// How a lock is held. Only exclusively, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By one holder.
    #[default]
    Exclusive,
}

/// The answer to an acquire: you hold the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantBody {
    /// Which lock.
    pub lock: LockName,
    /// How it is held.
    pub mode: Mode,
    /// The fencing token, to be carried into every write.
    pub token: FencingToken,
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
    /// The revision of this answer.
    pub revision: Revision,
}

impl GrantBody {
    /// The body for a grant.
    pub fn new(grant: Grant, waited: Duration, expires_in: Duration, revision: Revision) -> Self {
        Self {
            lock: grant.lock,
            mode: Mode::Exclusive,
            token: grant.token,
            session: grant.session,
            owner: named(grant.owner),
            expires_in_ms: millis(expires_in),
            renewed: grant.renewed,
            waited_ms: millis(waited),
            waiters: grant.waiters,
            entries: grant.entries,
            revision,
        }
    }
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            owner: named(holder.owner),
            token: holder.token,
            since_ms: age(holder.granted_at, now),
            entries: holder.entries,
            labels: holder.labels,
            renewed_ms_ago: None,
            expires_in_ms: None,
        }
    }
}

/// Who waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl WaiterBody {
    fn new(waiter: WaiterView, now: Stamp) -> Self {
        Self {
            session: waiter.session,
            owner: named(waiter.owner),
            since_ms: age(waiter.since, now),
            labels: waiter.labels,
        }
    }
}

/// A lock as a reader sees it. One that nobody ever took is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockBody {
    /// Which lock.
    pub lock: LockName,
    /// How it is held, or would be.
    pub mode: Mode,
    /// Whether anybody holds it.
    pub held: bool,
    /// Who holds it: at most one while locks are exclusive.
    pub holders: Vec<HolderBody>,
    /// How many wait in all.
    pub waiters: u32,
    /// Who waits, in order; the first ones only if there are many.
    pub queue: Vec<WaiterBody>,
    /// The last token minted for it, if one is remembered.
    pub last_token: Option<FencingToken>,
    /// The revision it was read at; in a list, the list says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

impl LockBody {
    /// The body for a lock, as of now.
    pub fn new(view: LockView, now: Stamp, revision: Option<Revision>) -> Self {
        Self {
            lock: view.lock,
            mode: Mode::Exclusive,
            held: view.holder.is_some(),
            holders: view.holder.into_iter().map(|holder| HolderBody::new(holder, now)).collect(),
            waiters: view.waiters_total,
            queue: view.waiters.into_iter().map(|waiter| WaiterBody::new(waiter, now)).collect(),
            last_token: view.last_token,
            revision,
        }
    }

    /// The exclusive holder, if the lock is held.
    pub fn holder(&self) -> Option<&HolderBody> {
        self.holders.first()
    }
}

/// A page of locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct FenceBody {
    /// Of which lock.
    pub lock: LockName,
    /// The token judged.
    pub token: FencingToken,
    /// Always true: a token that is not good is a problem `stale-token`.
    pub valid: bool,
    /// The present holder's token, if there is one.
    pub current: Option<FencingToken>,
    /// The largest token minted for the lock, if one is remembered.
    pub highest: Option<FencingToken>,
    /// The revision it was read at.
    pub revision: Revision,
}

impl FenceBody {
    /// The body for a good token.
    pub fn new(lock: LockName, token: FencingToken, view: FenceView, revision: Revision) -> Self {
        let FenceView { current, highest } = view;
        Self { lock, token, valid: true, current, highest, revision }
    }
}

/// The owner of a call that named none is not shown.
pub(crate) fn named(owner: Owner) -> Option<Owner> {
    Some(owner).filter(|owner| *owner != Owner::unnamed())
}

/// Whole milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds from a stamp to now; none if this clock is behind the leader's.
pub(crate) fn age(since: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(since.0)
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Ticket, Ttl};

    use super::*;

    fn grant() -> Grant {
        Grant {
            lock: LockName::new("job").unwrap(),
            session: SessionName::new("web1-812").unwrap(),
            owner: Owner::unnamed(),
            ticket: Ticket(7),
            token: FencingToken(4812),
            ttl: Ttl::DEFAULT,
            entries: 1,
            renewed: false,
            waiters: 0,
            granted_at: Stamp(1_000),
            granted_in: Revision(4812),
        }
    }

    #[test]
    fn a_grant_looks_as_specified() {
        let (waited, left) = (Duration::ZERO, Duration::from_secs(30));
        let body = GrantBody::new(grant(), waited, left, Revision(4812));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"lock":"job","mode":"exclusive","token":4812,"session":"web1-812","expires_in_ms":30000,"renewed":false,"waited_ms":0,"waiters":0,"entries":1,"revision":4812}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<GrantBody>(&json).unwrap(), body);
    }

    #[test]
    fn an_owner_is_shown_only_if_it_was_named() {
        let owner = Owner::new("thread-3").unwrap();
        let grant = Grant { owner, ..grant() };
        let body = GrantBody::new(grant, Duration::ZERO, Duration::ZERO, Revision(1));
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
            entries: 1,
            labels,
        };
        let waiter = WaiterView {
            session,
            owner: Owner::unnamed(),
            ticket: Ticket(9),
            since: Stamp(9_999),
            labels: Labels::default(),
        };
        let view = LockView {
            lock: LockName::new("job").unwrap(),
            holder: Some(holder),
            waiters: vec![waiter],
            waiters_total: 1,
            last_token: Some(FencingToken(5)),
        };
        let body = LockBody::new(view, Stamp(3_500), Some(Revision(9)));
        let json = serde_json::to_string(&body).unwrap();
        let expected = r#"{"lock":"job","mode":"exclusive","held":true,"holders":[{"session":"a","token":5,"since_ms":2500,"entries":1,"labels":{"host":"web3"}}],"waiters":1,"queue":[{"session":"a","since_ms":0,"labels":{}}],"last_token":5,"revision":9}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<LockBody>(&json).unwrap(), body);
    }
}
