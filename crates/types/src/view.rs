//! What reads answer: copies of a part of the machine, taken at one revision.

use serde::{Deserialize, Serialize};

use crate::{
    FencingToken, Grant, Labels, LockName, Owner, Queued, Revision, SessionId, SessionName, Stamp,
    Stat, Ticket, Ttl, ZnodePath,
};

/// A holder as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderView {
    /// Whose.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Owner,
    /// Its token.
    pub token: FencingToken,
    /// Since when.
    pub granted_at: Stamp,
    /// Entries counted.
    pub entries: u32,
    /// The session's labels.
    pub labels: Labels,
}

/// A waiter as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterView {
    /// Whose.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Owner,
    /// Its place.
    pub ticket: Ticket,
    /// Since when.
    pub since: Stamp,
    /// The session's labels.
    pub labels: Labels,
}

/// A lock at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    /// Which lock.
    pub lock: LockName,
    /// Who holds it.
    pub holder: Option<HolderView>,
    /// Who waits, in order; at most as many as were asked for.
    pub waiters: Vec<WaiterView>,
    /// How many wait in all.
    pub waiters_total: u32,
    /// The last token minted for it; none if never held since its directory was made.
    pub last_token: Option<FencingToken>,
}

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It holds.
    Holding(Grant),
    /// It waits.
    Waiting(Queued),
}

/// What is known of a session's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionStatus {
    /// It lives.
    Open(SessionView),
    /// It expired, and that is still remembered.
    Expired,
    /// It was closed, and that is still remembered.
    Closed,
    /// Nothing is known.
    Unknown,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its number.
    pub id: SessionId,
    /// Its name.
    pub session: SessionName,
    /// What it lives without a renewal.
    pub ttl: Ttl,
    /// Its lease.
    pub generation: u64,
    /// Made by the server for one lock.
    pub anonymous: bool,
    /// Since when.
    pub opened_at: Stamp,
    /// Its labels.
    pub labels: Labels,
    /// Locks it holds, with their tokens.
    pub holds: Vec<(LockName, FencingToken)>,
    /// Locks it waits for.
    pub waits: Vec<LockName>,
}

/// The newest token of a lock, for the question "is mine still good?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceView {
    /// Token of the present holder.
    pub current: Option<FencingToken>,
    /// Largest token ever minted for the lock, as far as its directory remembers.
    pub highest: Option<FencingToken>,
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items, in order of their names.
    pub items: Vec<T>,
    /// Ask again after this name for more.
    pub next: Option<String>,
    /// The revision they were read at.
    pub revision: Revision,
}

/// One znode of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Where.
    pub path: ZnodePath,
    /// Its stat.
    pub stat: Stat,
}
