//! The index over the directories of locks: who holds, who waits, and which places a session has.
//!
//! Owns nothing that the tree does not say: every line of it can be rebuilt from the znodes, and
//! `check_invariants` does so and compares. Refuses to decide who is granted (`grant.rs` does).
//! Bounds: waiters by `waiters_per_lock_max`, places by `contenders_per_session_max`, checked by callers.

use std::sync::Arc;

use holdfast_types::{FencingToken, LockName, Owner, SessionId, Ticket, ZnodePath};
use imbl::{OrdMap, OrdSet};

use crate::contender::Contender;
use crate::waits::Waits;

/// One lock. It exists from its first grant until its directory goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) directory: ZnodePath,
    /// The last token minted for it.
    pub(crate) last_token: FencingToken,
    /// Invariant: absent only if nobody waits.
    pub(crate) holder: Option<Arc<Contender>>,
    /// By sequence.
    pub(crate) waiters: OrdMap<u64, Arc<Contender>>,
}

impl Lock {
    /// A lock that nobody has taken yet.
    pub(crate) fn new(directory: ZnodePath) -> Self {
        let (last_token, holder) = (FencingToken(0), None);
        Self { directory, last_token, holder, waiters: OrdMap::new() }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u32 {
        u32::try_from(self.waiters.len()).unwrap_or(u32::MAX)
    }

    /// The contender with this number.
    pub(crate) fn contender(&self, sequence: u64) -> Option<&Arc<Contender>> {
        match &self.holder {
            Some(holder) if holder.sequence == sequence => Some(holder),
            Some(_) | None => self.waiters.get(&sequence),
        }
    }

    /// How many waiters stand before this number. Reads that many, unless it is the last.
    pub(crate) fn ahead_of(&self, sequence: u64) -> u32 {
        match self.waiters.get_max() {
            Some((last, _)) if *last == sequence => self.waiting() - 1,
            Some(_) | None => {
                u32::try_from(self.waiters.range(..sequence).count()).unwrap_or(u32::MAX)
            }
        }
    }
}

/// A session's place in a lock's queue, in the order in which a session's places are looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) session: SessionId,
    /// None only in the bound of a range, where it sorts before every lock.
    pub(crate) lock: Option<LockName>,
    pub(crate) owner: Owner,
    pub(crate) ticket: Ticket,
    pub(crate) sequence: u64,
}

impl Claim {
    /// Sorts before every claim of a session.
    fn before_all_of(session: SessionId) -> Self {
        Self { session, lock: None, owner: Owner::unnamed(), ticket: Ticket(0), sequence: 0 }
    }

    /// The claim of a contender.
    pub(crate) fn of(lock: &LockName, contender: &Contender) -> Self {
        Self {
            session: contender.session,
            lock: Some(lock.clone()),
            owner: contender.owner.clone(),
            ticket: contender.ticket,
            sequence: contender.sequence,
        }
    }
}

/// All locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locks {
    pub(crate) by_name: OrdMap<LockName, Arc<Lock>>,
    pub(crate) claims: OrdSet<Claim>,
    /// Waiters whose wait ends.
    pub(crate) waits: Waits,
    /// Locks with a holder.
    pub(crate) held: u64,
    /// Waiters of all locks.
    pub(crate) waiting: u64,
    /// Tokens minted so far; the last one's value.
    pub(crate) grants: u64,
}

impl Locks {
    pub(crate) fn new() -> Self {
        let (by_name, claims) = (OrdMap::new(), OrdSet::new());
        Self { by_name, claims, waits: Waits::default(), held: 0, waiting: 0, grants: 0 }
    }

    pub(crate) fn get(&self, lock: &LockName) -> Option<&Lock> {
        self.by_name.get(lock).map(|lock| &**lock)
    }

    pub(crate) fn get_mut(&mut self, lock: &LockName) -> Option<&mut Lock> {
        self.by_name.get_mut(lock).map(Arc::make_mut)
    }

    /// Forgets a lock whose directory has gone.
    pub(crate) fn forget(&mut self, lock: &LockName) {
        self.by_name.remove(lock);
    }

    /// The first place of a session and owner in a lock's queue, from a ticket on.
    pub(crate) fn find(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        from: Ticket,
    ) -> Option<&Arc<Contender>> {
        let start = &Claim {
            session,
            lock: Some(lock.clone()),
            owner: owner.clone(),
            ticket: from,
            sequence: 0,
        };
        let claim = self.claims.range::<_, Claim>(start..).next()?;
        if claim.session != session || claim.lock != start.lock || claim.owner != *owner {
            return None;
        }
        self.get(lock)?.contender(claim.sequence)
    }

    /// A session's places, by lock.
    pub(crate) fn claims_of(&self, session: SessionId) -> impl Iterator<Item = &Claim> {
        self.claims
            .range(Claim::before_all_of(session)..)
            .take_while(move |claim| claim.session == session)
    }
}
