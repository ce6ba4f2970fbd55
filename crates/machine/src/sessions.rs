//! Live sessions, and the memory of ended ones.
//!
//! Owns session numbers, names, leases' generations and the tombstones. Refuses to know what a session owns in the
//! tree; whoever ends one takes that away in the same command (`ending.rs`).
//! Bounds: live sessions by `sessions_max` (checked by callers); tombstones by `tombstones_max`; per session
//! [`Session::GIVEN_UP_MAX`] given-up locks and `memo_per_session_max` remembered answers.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_types::{
    Labels, Limits, LockName, OpenSession, Owner, Password, Revision, SessionEnd, SessionId,
    SessionName, Stamp, Ttl,
};
use imbl::OrdMap;

use crate::memo::Memo;

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: SessionName,
    pub(crate) ttl: Ttl,
    /// The lease. Moves with every sign of life that came through the log.
    pub(crate) generation: u64,
    pub(crate) anonymous: bool,
    pub(crate) opened_at: Stamp,
    pub(crate) labels: Labels,
    /// Invariant: equals the number of its claims.
    pub(crate) contenders: u32,
    /// Locks it gave up itself, oldest first, so that a retried release is told the truth.
    pub(crate) given_up: VecDeque<(LockName, Owner)>,
    pub(crate) memo: Memo,
    /// What another connection must show to take it over.
    pub(crate) password: Option<Password>,
    /// The connection that speaks for it: the revision that opened or attached it. Invariant: present exactly with a
    /// password.
    pub(crate) attachment: Option<Revision>,
}

impl Session {
    /// How many given-up locks are remembered; the oldest is forgotten first.
    pub(crate) const GIVEN_UP_MAX: usize = 64;

    /// Notes that it gave a lock up.
    pub(crate) fn gave_up(&mut self, lock: LockName, owner: Owner) {
        if self.given_up.len() >= Self::GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back((lock, owner));
    }

    /// True if it gave this lock up and did not come back since, as far as is remembered.
    pub(crate) fn has_given_up(&self, lock: &LockName, owner: &Owner) -> bool {
        self.given_up.iter().any(|(l, o)| l == lock && o == owner)
    }

    /// Notes that it contends again.
    pub(crate) fn came_back(&mut self, lock: &LockName, owner: &Owner) {
        self.given_up.retain(|(l, o)| l != lock || o != owner);
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A live session.
    Open(SessionId),
    /// One that ended.
    Ended {
        /// How.
        end: SessionEnd,
        /// Its tombstone.
        number: u64,
    },
}

/// The memory of an ended session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) name: SessionName,
    pub(crate) ended_at: Stamp,
}

/// All sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sessions {
    by_id: OrdMap<SessionId, Arc<Session>>,
    /// Invariant: names every live session and every tombstone, and nothing else.
    by_name: OrdMap<SessionName, Named>,
    /// Tombstones in the order of the endings, by how the session ended.
    expired: OrdMap<u64, Tombstone>,
    closed: OrdMap<u64, Tombstone>,
    /// The last session number given.
    minted: u64,
    /// The last tombstone number given.
    buried: u64,
}

impl Sessions {
    /// Tombstones forgotten at most for each new one: keeps a command short after the bound was lowered.
    const FORGET_MAX: usize = 8;

    pub(crate) fn new() -> Self {
        Self::restored(0, 0)
    }

    /// Empty, with the counters of a snapshot.
    pub(crate) fn restored(minted: u64, buried: u64) -> Self {
        let (by_id, by_name) = (OrdMap::new(), OrdMap::new());
        Self { by_id, by_name, expired: OrdMap::new(), closed: OrdMap::new(), minted, buried }
    }

    /// The last session number given, and the last tombstone's.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.minted, self.buried)
    }

    /// What a name stands for; none if nothing is known.
    pub(crate) fn named(&self, name: &SessionName) -> Option<Named> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id).map(|session| &**session)
    }

    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id).map(Arc::make_mut)
    }

    /// How many live.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many tombstones there are.
    pub(crate) fn tombstones(&self) -> usize {
        self.expired.len() + self.closed.len()
    }

    /// Live sessions by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.by_id.values()
    }

    /// Live sessions by number, after one.
    pub(crate) fn iter_after(&self, after: SessionId) -> impl Iterator<Item = &Arc<Session>> {
        let start = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.by_id.range(start).map(|(_, session)| session)
    }

    /// What names stand for, by name, after one.
    pub(crate) fn names_after<'a>(
        &'a self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a SessionName, Named)> + use<'a> {
        let start = match after {
            Some(name) => std::ops::Bound::Excluded(name.to_owned()),
            None => std::ops::Bound::Unbounded,
        };
        let start = start.as_ref().map(String::as_str);
        let range = (start, std::ops::Bound::<&str>::Unbounded);
        self.by_name.range::<_, str>(range).map(|(name, named)| (name, *named))
    }

    /// Tombstones of one kind in the order of the endings, after one.
    pub(crate) fn tombstones_after(
        &self,
        end: SessionEnd,
        after: u64,
    ) -> impl Iterator<Item = (u64, &Tombstone)> {
        let graves = match end {
            SessionEnd::Expired => &self.expired,
            SessionEnd::Closed => &self.closed,
        };
        let start = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        graves.range(start).map(|(number, tombstone)| (*number, tombstone))
    }

    fn graves_mut(&mut self, end: SessionEnd) -> &mut OrdMap<u64, Tombstone> {
        match end {
            SessionEnd::Expired => &mut self.expired,
            SessionEnd::Closed => &mut self.closed,
        }
    }

    /// A new session under a name that no live one has; a tombstone of that name goes.
    pub(crate) fn open(&mut self, open: OpenSession, now: Stamp) -> SessionId {
        self.forget(&open.session);
        self.minted += 1;
        let id = SessionId(self.minted);
        let session = Session {
            id,
            name: open.session,
            ttl: open.ttl.unwrap_or(Ttl::DEFAULT),
            generation: 1,
            anonymous: open.anonymous,
            opened_at: now,
            labels: open.labels,
            contenders: 0,
            given_up: VecDeque::new(),
            memo: Memo::default(),
            password: open.password,
            attachment: None,
        };
        self.by_name.insert(session.name.clone(), Named::Open(id));
        self.by_id.insert(id, Arc::new(session));
        id
    }

    /// Ends a live session and remembers how.
    pub(crate) fn end(&mut self, id: SessionId, end: SessionEnd, now: Stamp, limits: &Limits) {
        let Some(session) = self.by_id.remove(&id) else { return };
        self.buried += 1;
        let number = self.buried;
        let name = session.name.clone();
        match self.by_name.get_mut(&name) {
            Some(named) => *named = Named::Ended { end, number },
            None => drop(self.by_name.insert(name.clone(), Named::Ended { end, number })),
        }
        self.graves_mut(end).insert(number, Tombstone { name, ended_at: now });
        self.forget_old(now, limits);
    }

    /// Drops a tombstone, if the name has one.
    pub(crate) fn forget(&mut self, name: &SessionName) {
        if let Some(Named::Ended { end, number }) = self.named(name) {
            self.by_name.remove(name);
            self.graves_mut(end).remove(&number);
        }
    }

    /// Forgets what is old, and what is too many. Those that were closed go first: who closed its session knows, who
    /// lost it may not have heard yet.
    fn forget_old(&mut self, now: Stamp, limits: &Limits) {
        let room = usize::try_from(limits.tombstones_max).unwrap_or(usize::MAX);
        for _ in 0..Self::FORGET_MAX {
            let crowded = self.tombstones() > room;
            let aged = |grave: &&(u64, Tombstone)| {
                crowded || grave.1.ended_at.0.saturating_add(limits.tombstone_ms) < now.0
            };
            let oldest = self.closed.get_min().filter(aged);
            let Some((_, oldest)) = oldest.or_else(|| self.expired.get_min().filter(aged)) else {
                return;
            };
            let name = oldest.name.clone();
            self.forget(&name);
        }
    }

    /// Puts a live session where a snapshot had it. False if its number or name is taken.
    pub(crate) fn restore(&mut self, session: Session) -> bool {
        let (id, name) = (session.id, session.name.clone());
        self.by_name.insert(name, Named::Open(id)).is_none()
            && self.by_id.insert(id, Arc::new(session)).is_none()
    }

    /// Puts a tombstone where a snapshot had it. False if its number or name is taken.
    pub(crate) fn restore_tombstone(
        &mut self,
        number: u64,
        end: SessionEnd,
        tombstone: Tombstone,
    ) -> bool {
        let named = Named::Ended { end, number };
        self.by_name.insert(tombstone.name.clone(), named).is_none()
            && self.graves_mut(end).insert(number, tombstone).is_none()
    }
}
