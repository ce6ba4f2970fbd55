//! What reads answer: copies of a part of the machine, taken at one revision.

use serde::{Deserialize, Serialize};

use crate::{
    Cooldown, Data, FencingToken, Labels, LockName, LockPolicy, Mode, Owner, ReleaseRequest,
    Revision, SegmentView, SessionId, SessionName, Stamp, Stat, Ticket, Ttl, ZnodePath,
};

/// A holder as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderView {
    pub session: SessionName,
    pub owner: Owner,
    pub token: FencingToken,
    /// Since when.
    pub granted_at: Stamp,
    /// Entries counted.
    pub hold_count: u32,
    /// The session's labels.
    pub labels: Labels,
    /// How it holds.
    pub mode: Mode,
    /// Permits held; 1 on a lock that is no semaphore.
    pub permits: u32,
    /// On a semaphore: one slot to each permit, sorted.
    pub slots: Vec<u32>,
    /// It waits to become exclusive.
    pub upgrading: bool,
    /// When the hold ends whatever the session does.
    pub ends_at: Option<Stamp>,
    /// What its acquire said to show.
    pub value: Option<Data>,
}

/// A waiter as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterView {
    pub session: SessionName,
    pub owner: Owner,
    pub ticket: Ticket,
    /// Since when.
    pub since: Stamp,
    /// The session's labels.
    pub labels: Labels,
    /// How it wants to hold.
    pub mode: Mode,
    /// Permits it wants; 1 on a lock that is no semaphore.
    pub permits: u32,
    /// From 0 to [`crate::AcquireOptions::PRIORITY_MAX`].
    pub priority: u8,
    /// What its acquire said to show.
    pub value: Option<Data>,
    /// The locks that it waits for together, this one among them, sorted; empty if it waits for this one alone.
    pub bundle: Vec<LockName>,
}

/// A lock at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    pub lock: LockName,
    /// Who holds it, in the order of their places; at most as many as were asked for.
    pub holders: Vec<HolderView>,
    /// How many hold it in all.
    pub holders_total: u32,
    /// Permits held in all; on a lock that is no semaphore as many as holders.
    pub permits_held: u32,
    /// Who waits, in order; at most as many as were asked for.
    pub waiters: Vec<WaiterView>,
    /// How many wait in all.
    pub waiters_total: u32,
    /// The last token minted for it; none if never held since its directory was made.
    pub last_token: Option<FencingToken>,
    /// The smallest token that is still good: that of the oldest grant among the holders, or if nobody holds, the next one
    /// that could be minted.
    pub floor: FencingToken,
    pub policy: LockPolicy,
    pub cooldown: Option<Cooldown>,
    /// What else there is to say of those of [`LockView::holders`] of whom there is.
    pub notes: Vec<HolderNote>,
    /// Its segments from 0 on, if it is cut into some; none in a list.
    pub segments: Vec<SegmentView>,
}

/// What is said of few holders only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderNote {
    /// Which: the token that it holds under.
    pub token: FencingToken,
    /// It is asked to give the lock back.
    pub release_request: Option<ReleaseRequest>,
    /// The locks that were granted together with it, itself among them, sorted; some may have been given back since. Empty
    /// if it came alone.
    pub bundle: Vec<LockName>,
}

impl LockView {
    /// The first of the holders.
    pub fn holder(&self) -> Option<&HolderView> {
        self.holders.first()
    }

    /// What else there is to say of a holder.
    pub fn note(&self, holder: &HolderView) -> Option<&HolderNote> {
        self.notes.iter().find(|note| note.token == holder.token)
    }
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
    pub id: SessionId,
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
    /// Token of the present holder; of several the largest.
    pub current: Option<FencingToken>,
    /// Smallest token that is still good, as in [`LockView::floor`].
    pub floor: FencingToken,
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
    pub path: ZnodePath,
    pub stat: Stat,
}
