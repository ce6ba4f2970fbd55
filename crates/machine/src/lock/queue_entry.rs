//! A place in a lock's queue, holding or waiting, and the attempts that keep it.
//!
//! Owns the typed metadata of a entry's znode. Refuses to know queues and trees. There may be many waiters: what few
//! need lies behind a pointer ([`AcquireOptions`], [`Hold`]).
//! Bounds: attempts by `entries_per_hold_max`, the value by
//! [`Acquire::VALUE_MAX`], slots by the permits, which `Policy::LIMIT_MAX` bounds.

use std::sync::Arc;

use holdfast_types::{
    Acquire, Data, FencingToken, LockName, LossCause, Mode, Owner, ReleaseRequest, Revision,
    SessionId, SessionName, Stamp, Ticket, ZnodePath,
};

use crate::lock::rank::Rank;
use crate::session::attempts::Attempts;

/// One entry. Shared between its znode and the index, replaced in both when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueEntry {
    /// Its znode.
    pub(crate) path: ZnodePath,
    /// Its place in the order of the queue, with its number in the directory.
    pub(crate) rank: Rank,
    pub(crate) session: SessionId,
    pub(crate) session_name: SessionName,
    pub(crate) owner: Owner,
    pub(crate) ticket: Ticket,
    /// Revision of the owner's latest acquire; equals the ticket at first.
    pub(crate) asked: Revision,
    pub(crate) since: Stamp,
    /// How long its caller waits from there on; none if as long as the session lives.
    pub(crate) wait_ms: Option<u64>,
    pub(crate) attempts: Attempts,
    /// How it wants to hold. A holder that holds otherwise waits for the change.
    pub(crate) mode: Mode,
    /// None who comes later goes before it: its client judges by the children's order itself.
    pub(crate) fixed: bool,
    /// What it asked for beyond a plain place. Invariant: never the plain options.
    pub(crate) options: Option<Box<AcquireOptions>>,
    /// Present exactly while it holds the lock.
    pub(crate) hold: Option<Box<Hold>>,
}

/// What the grant left on a entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) token: FencingToken,
    pub(crate) granted_at: Stamp,
    pub(crate) granted_in: Revision,
    /// How it holds.
    pub(crate) mode: Mode,
    /// When it was first granted: a conversion to exclusive is a grant of its own.
    pub(crate) since: Stamp,
    /// On a semaphore: one to each permit, sorted. Empty on a lock.
    pub(crate) slots: Arc<[u32]>,
    /// It is asked for.
    pub(crate) release_request: Option<Box<ReleaseRequest>>,
}

/// What a entry asked for, if it is not the plain thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcquireOptions {
    pub(crate) permits: u32,
    pub(crate) priority: u8,
    pub(crate) reentrant: bool,
    pub(crate) max_hold_ms: Option<u64>,
    pub(crate) min_hold_ms: Option<u64>,
    pub(crate) value: Option<Data>,
    /// The locks that it asked for at once, this one among them, sorted.
    pub(crate) multi_lock: Option<Arc<[LockName]>>,
}

/// What the order of the queue and the grant go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockRequest {
    pub(crate) mode: Mode,
    pub(crate) permits: u32,
    pub(crate) priority: u8,
    pub(crate) fixed: bool,
}

impl LockRequest {
    /// Of an acquire for a new place.
    pub(crate) fn of(acquire: &Acquire) -> Self {
        Self {
            mode: acquire.mode.unwrap_or_default(),
            permits: acquire.permits.unwrap_or(1),
            priority: acquire.priority,
            fixed: false,
        }
    }

    /// Of one who asks for several locks at once.
    pub(crate) fn of_multi_lock(mode: Mode) -> Self {
        Self { mode, permits: 1, priority: 0, fixed: true }
    }

    /// Of a entry that comes through the tree.
    pub(crate) fn of_tree(mode: Mode) -> Self {
        Self { mode, permits: 1, priority: 0, fixed: true }
    }
}

impl AcquireOptions {
    /// One permit, without a wish.
    pub(crate) const PLAIN: Self = Self {
        permits: 1,
        priority: 0,
        reentrant: true,
        max_hold_ms: None,
        min_hold_ms: None,
        value: None,
        multi_lock: None,
    };

    /// Those of an acquire.
    pub(crate) fn of(acquire: &Acquire) -> Self {
        Self {
            permits: acquire.permits.unwrap_or(1),
            priority: acquire.priority,
            reentrant: acquire.reentrant,
            max_hold_ms: acquire.max_hold_ms,
            min_hold_ms: acquire.min_hold_ms,
            value: acquire.value.clone(),
            multi_lock: None,
        }
    }

    /// As a entry keeps them.
    pub(crate) fn kept(self) -> Option<Box<Self>> {
        (self != Self::PLAIN).then(|| Box::new(self))
    }
}

impl QueueEntry {
    /// What its client has stored, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let AcquireOptions { value, multi_lock, .. } = self.options();
        let names = multi_lock.iter().flat_map(|multi_lock| multi_lock.iter());
        self.owner.as_str().len()
            + value.as_ref().map_or(0, |value| value.len())
            + names.map(|lock| lock.as_str().len()).sum::<usize>()
    }

    /// What it asked for.
    pub(crate) fn options(&self) -> &AcquireOptions {
        self.options.as_deref().unwrap_or(&AcquireOptions::PLAIN)
    }

    /// What the order of the queue and the grant go by.
    pub(crate) fn request(&self) -> LockRequest {
        let AcquireOptions { permits, priority, .. } = *self.options();
        LockRequest { mode: self.mode, permits, priority, fixed: self.fixed }
    }

    /// Its number in the directory.
    pub(crate) fn sequence(&self) -> u64 {
        self.rank.sequence
    }

    /// Its token, if it holds.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.hold.as_ref().map(|hold| hold.token)
    }

    /// True if it waits: for the lock, or for holding it in another mode.
    pub(crate) fn waits(&self) -> bool {
        self.hold.as_ref().is_none_or(|hold| hold.mode != self.mode)
    }

    /// True if it holds, and waits to hold in another mode.
    pub(crate) fn converts(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.mode != self.mode)
    }

    /// When its hold ends whatever the session does.
    pub(crate) fn ends_at(&self) -> Option<Stamp> {
        let since = self.hold.as_ref()?.since;
        Some(Stamp(since.0.saturating_add(self.options().max_hold_ms?)))
    }

    /// That it is asked to give the lock back.
    pub(crate) fn release_request(&self) -> Option<&ReleaseRequest> {
        self.hold.as_ref()?.release_request.as_deref()
    }

    /// When its hold is taken away, and why.
    pub(crate) fn taken_at(&self) -> Option<(Stamp, LossCause)> {
        let ends = self.ends_at().map(|end| (end, LossCause::MaxHold));
        let revoked = self.release_request().filter(|request| request.revoke);
        let revoked = revoked.map(|request| (request.deadline, LossCause::Revoked));
        [ends, revoked].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
