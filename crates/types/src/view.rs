//! Results of reads: copies of a part of the machine's state at one revision.

use serde::{Deserialize, Serialize};

use crate::{
    Cooldown, Data, FencingToken, Labels, LockName, LockPolicy, Mode, Owner, Reason,
    ReleaseRequest, Revision, SessionId, SessionName, ShardView, Stamp, Stat, SubjectName, Ticket,
    Ttl, ZnodePath,
};

/// The public view of a holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderView {
    pub session: SessionName,
    pub owner: Owner,
    pub token: FencingToken,
    pub granted_at: Stamp,
    /// Attempts that hold the lock: each re-entrance counts once.
    pub hold_count: u32,
    /// Labels of the session.
    pub labels: Labels,
    pub mode: Mode,
    /// Permits held; 1 unless the lock is a semaphore.
    pub permits: u32,
    /// One slot for each permit of a semaphore, sorted.
    pub slots: Vec<u32>,
    /// Whether it waits to become exclusive.
    pub upgrading: bool,
    /// When `max_hold` or a revoke deadline ends the hold, even if the session is renewed.
    pub ends_at: Option<Stamp>,
    /// The `value` option of its acquire.
    pub value: Option<Data>,
    /// The `durable` option of its acquire.
    pub durable: Option<Reason>,
}

/// The public view of a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterView {
    pub session: SessionName,
    pub owner: Owner,
    pub ticket: Ticket,
    /// Stamp of the enqueue.
    pub since: Stamp,
    /// Labels of the session.
    pub labels: Labels,
    /// The requested mode.
    pub mode: Mode,
    /// Permits requested; 1 unless the lock is a semaphore.
    pub permits: u32,
    /// From 0 to [`crate::AcquireOptions::PRIORITY_MAX`].
    pub priority: u8,
    /// The `value` option of its acquire.
    pub value: Option<Data>,
    /// The locks of its multi-lock, this one included, sorted; empty for an acquire of one lock.
    pub multi_lock: Vec<LockName>,
}

/// A lock at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    pub lock: LockName,
    /// In the order of their queue entries; at most the number that the read requests.
    pub holders: Vec<HolderView>,
    /// The number of all holders.
    pub holders_total: u32,
    /// Permits of all holders; one for each holder unless the lock is a semaphore.
    pub permits_held: u32,
    /// In queue order; at most the number that the read requests.
    pub waiters: Vec<WaiterView>,
    /// The number of all waiters.
    pub waiters_total: u32,
    /// The grant of the oldest hold.
    pub held_since: Option<Stamp>,
    /// The start of the longest wait.
    pub waiting_since: Option<Stamp>,
    /// The last token minted for the lock; `None` if it was never held since its directory was created.
    pub last_token: Option<FencingToken>,
    /// The smallest valid token: the smallest one of the holders; without a holder, the next token to mint.
    pub floor: FencingToken,
    pub policy: LockPolicy,
    pub cooldown: Option<Cooldown>,
    /// Further facts of some of [`LockView::holders`].
    pub notes: Vec<HolderDetails>,
    /// The shards of a sharded lock, from 0; empty in a list.
    pub shards: Vec<ShardView>,
    /// The first znodes of ZooKeeper clients that do not see HTTP callers, sorted; empty in a list.
    pub foreign_znodes: Vec<ZnodePath>,
}

/// Facts that only few holders have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderDetails {
    /// Identifies the holder.
    pub token: FencingToken,
    /// The open request to release the lock.
    pub release_request: Option<ReleaseRequest>,
    /// The locks of its multi-lock, this one included, sorted; some may be released since. Empty for an acquire of one
    /// lock.
    pub multi_lock: Vec<LockName>,
}

impl LockView {
    /// The first of the holders.
    pub fn holder(&self) -> Option<&HolderView> {
        self.holders.first()
    }

    /// The further facts of a holder, if it has any.
    pub fn note(&self, holder: &HolderView) -> Option<&HolderDetails> {
        self.notes.iter().find(|note| note.token == holder.token)
    }
}

/// The state of a session name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionStatus {
    Open(SessionView),
    /// Expired, and the tombstone is not yet forgotten.
    Expired,
    /// Closed, and the tombstone is not yet forgotten.
    Closed,
    /// Never opened, or its tombstone is forgotten.
    Unknown,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    pub id: SessionId,
    pub session: SessionName,
    pub ttl: Ttl,
    /// Number of the lease; each renewal through the log increases it.
    pub generation: u64,
    /// Whether the server created the session for one acquire.
    pub anonymous: bool,
    pub opened_at: Stamp,
    pub labels: Labels,
    /// The subject that opened the session; `None` if it had no credential.
    pub subject: Option<SubjectName>,
    pub holds: Vec<SessionHold>,
    pub waits: Vec<LockName>,
}

/// A lock that a session holds. An upgrade changes the token, not the ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHold {
    pub lock: LockName,
    pub ticket: Ticket,
    pub token: FencingToken,
}

/// The tokens of a lock, for the check whether a token is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceView {
    /// The token of the present holder; of several holders the largest.
    pub current: Option<FencingToken>,
    /// The smallest valid token, as in [`LockView::floor`].
    pub floor: FencingToken,
    /// The largest token minted for the lock since its directory was created.
    pub highest: Option<FencingToken>,
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// In order of their names.
    pub items: Vec<T>,
    /// The last name that was read for this page, if more items may follow.
    pub next: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

/// One znode of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub path: ZnodePath,
    pub stat: Stat,
}
