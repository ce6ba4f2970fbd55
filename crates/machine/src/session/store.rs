//! Live sessions and the tombstones of ended ones.
//!
//! Bounds: live sessions by `sessions_max` (checked by callers); tombstones by `tombstones_max`; in each session
//! [`LeftLocks::COUNT_MAX`] records of left locks and `memo_per_session_max` remembered answers.

use std::sync::Arc;

use holdfast_types::{
    Attempt, Labels, Limits, OpenSession, Outcome, Password, RequestId, Revision, SessionEnd,
    SessionId, SessionName, Stamp, Ttl,
};
use imbl::OrdMap;

use crate::session::attempts::LeftLocks;
use crate::session::memo::Memo;

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
    /// Invariant: equals the number of its keys.
    pub(crate) queue_entries: u32,
    pub(crate) left: LeftLocks,
    pub(crate) memo: Memo,
    /// What another connection must show to take it over.
    pub(crate) password: Option<Password>,
    /// The connection that speaks for it: the revision that opened or attached it. Invariant: present exactly with a
    /// password.
    pub(crate) attachment: Option<Revision>,
}

impl Session {
    /// What its client has stored, bytes.
    fn bytes(&self) -> u64 {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        (self.name.as_str().len() + labels + self.memo.bytes_named()) as u64
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownSession {
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
    /// The session that ended; 0 if none of that name was ever opened.
    pub(crate) incarnation: SessionId,
    /// Its attempts up to this one are over.
    pub(crate) over: Attempt,
}

/// All sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sessions {
    by_id: OrdMap<SessionId, Arc<Session>>,
    /// Invariant: names every live session and every tombstone, and nothing else.
    by_name: OrdMap<SessionName, KnownSession>,
    /// Tombstones in the order of the endings, by how the session ended.
    expired: OrdMap<u64, Tombstone>,
    closed: OrdMap<u64, Tombstone>,
    /// The last session number given.
    minted: u64,
    /// The last tombstone number given.
    buried: u64,
    /// Invariant: what the clients of live sessions have stored.
    bytes: u64,
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
        let (expired, closed) = (OrdMap::new(), OrdMap::new());
        Self { by_id, by_name, expired, closed, minted, buried, bytes: 0 }
    }

    /// The last session number given, and the last tombstone's.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.minted, self.buried)
    }

    /// What a name stands for; none if nothing is known.
    pub(crate) fn named(&self, name: &SessionName) -> Option<KnownSession> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id).map(|session| &**session)
    }

    /// The session, to be changed. The caller leaves alone what its client has stored.
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id).map(Arc::make_mut)
    }

    /// Replaces the labels.
    pub(crate) fn set_labels(&mut self, id: SessionId, labels: Labels) {
        self.store(id, |session| session.labels = labels);
    }

    /// Remembers an answer.
    pub(crate) fn remember(
        &mut self,
        id: SessionId,
        request: RequestId,
        outcome: Outcome,
        count_max: u32,
    ) {
        self.store(id, |session| session.memo.remember(request, outcome, count_max));
    }

    fn store(&mut self, id: SessionId, change: impl FnOnce(&mut Session)) {
        let Some(session) = self.by_id.get_mut(&id).map(Arc::make_mut) else { return };
        let before = session.bytes();
        change(session);
        self.bytes = self.bytes + session.bytes() - before;
    }

    /// What the clients of live sessions have stored, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same, counted anew.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.iter().map(|session| session.bytes()).sum()
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
    ) -> impl Iterator<Item = (&'a SessionName, KnownSession)> + use<'a> {
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
        let start = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.graves(end).range(start).map(|(number, tombstone)| (*number, tombstone))
    }

    fn graves(&self, end: SessionEnd) -> &OrdMap<u64, Tombstone> {
        match end {
            SessionEnd::Expired => &self.expired,
            SessionEnd::Closed => &self.closed,
        }
    }

    fn graves_mut(&mut self, end: SessionEnd) -> &mut OrdMap<u64, Tombstone> {
        match end {
            SessionEnd::Expired => &mut self.expired,
            SessionEnd::Closed => &mut self.closed,
        }
    }

    /// A new session under a name that no live one has; a tombstone of that name goes.
    pub(crate) fn open(&mut self, open: OpenSession, now: Stamp) -> SessionId {
        let over = self.tombstone(&open.session).map_or(Attempt::UNNAMED, |ended| ended.over);
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
            queue_entries: 0,
            left: LeftLocks::after(over),
            memo: Memo::default(),
            password: open.password,
            attachment: None,
        };
        self.bytes += session.bytes();
        self.by_name.insert(session.name.clone(), KnownSession::Open(id));
        self.by_id.insert(id, Arc::new(session));
        id
    }

    /// Ends a live session and remembers how.
    pub(crate) fn end(&mut self, id: SessionId, end: SessionEnd, now: Stamp, limits: &Limits) {
        let Some(session) = self.by_id.remove(&id) else { return };
        self.bytes -= session.bytes();
        let (name, over) = (session.name.clone(), session.left.newest());
        self.bury(end, Tombstone { name, ended_at: now, incarnation: id, over });
        self.forget_old(now, limits);
    }

    /// Notes that the client of an expired session knows of the loss: the name is free for a new session.
    pub(crate) fn acknowledge_expiry(&mut self, name: &SessionName) {
        let Some(tombstone) = self.tombstone(name).cloned() else { return };
        self.forget(name);
        self.bury(SessionEnd::Closed, tombstone);
    }

    /// Ends the attempts up to this one under the name of a session that is not open.
    pub(crate) fn bury_attempt(
        &mut self,
        name: SessionName,
        attempt: Attempt,
        now: Stamp,
        limits: &Limits,
    ) {
        let old = self.tombstone(&name);
        let incarnation = old.map_or(SessionId(0), |old| old.incarnation);
        let over = old.map_or(attempt, |old| old.over.max(attempt));
        self.forget(&name);
        self.bury(SessionEnd::Closed, Tombstone { name, ended_at: now, incarnation, over });
        self.forget_old(now, limits);
    }

    fn bury(&mut self, end: SessionEnd, tombstone: Tombstone) {
        self.buried += 1;
        let number = self.buried;
        self.by_name.insert(tombstone.name.clone(), KnownSession::Ended { end, number });
        self.graves_mut(end).insert(number, tombstone);
    }

    /// The memory of the session of this name that ended; `None` if it is open or not remembered.
    pub(crate) fn tombstone(&self, name: &SessionName) -> Option<&Tombstone> {
        let Some(KnownSession::Ended { end, number }) = self.named(name) else { return None };
        self.graves(end).get(&number)
    }

    /// Drops a tombstone, if the name has one.
    pub(crate) fn forget(&mut self, name: &SessionName) {
        if let Some(KnownSession::Ended { end, number }) = self.named(name) {
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
        self.bytes += session.bytes();
        self.by_name.insert(name, KnownSession::Open(id)).is_none()
            && self.by_id.insert(id, Arc::new(session)).is_none()
    }

    /// Puts a tombstone where a snapshot had it. False if its number or name is taken.
    pub(crate) fn restore_tombstone(
        &mut self,
        number: u64,
        end: SessionEnd,
        tombstone: Tombstone,
    ) -> bool {
        let named = KnownSession::Ended { end, number };
        self.by_name.insert(tombstone.name.clone(), named).is_none()
            && self.graves_mut(end).insert(number, tombstone).is_none()
    }
}
