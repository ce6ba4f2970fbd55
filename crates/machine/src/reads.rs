//! Reads of the machine. Results are copies at its revision; whether that is current is decided by the read barrier.
//!
//! Bound: a page reads at most [`SCAN_MAX`] locks, so that a filter that matches few cannot delay `apply`.

use std::ops::Bound;

use holdfast_types::{
    Command, FenceView, FencingToken, Incarnation, Limits, LockName, LockView, Mode, NodeId, Page,
    Revision, SessionEnd, SessionId, SessionName, SessionStatus, SessionView, Stamp, Ttl,
};

use crate::Machine;
use crate::lock::index::Lock;
use crate::session::store::{KnownSession, Session};

/// Locks read for one page at most. A page may therefore be short, or even empty, and still name where to go on.
pub const SCAN_MAX: usize = 50_000;

/// Holders shown of one lock in a listing at most; the total is always told.
pub const LISTED_HOLDERS_MAX: usize = 16;

/// Places that a listing shows of one session at most; asking for the session itself shows all.
pub const LISTED_PLACES_MAX: usize = 100;

/// Which locks to list. Everything given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFilter {
    /// Names that begin so.
    pub prefix: String,
    /// Held: by the session, if one is named, else by anybody.
    pub held: bool,
    /// Waited for: by the session, if one is named, else by anybody.
    pub waiting: bool,
    /// Locks that this session holds or waits for.
    pub session: Option<SessionName>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live sessions.
    pub sessions: u64,
    /// Znodes, the built-in ones included.
    pub znodes: u64,
    /// Locks with a holder.
    pub locks_held: u64,
    /// Waiters of all locks.
    pub waiters: u64,
    /// Tokens minted ever: the last one's value.
    pub grants: u64,
    /// Bytes that clients have stored, as `tree_bytes_max` bounds them.
    pub tree_bytes: u64,
    /// Those of them that are in znodes, their paths included.
    pub znode_bytes: u64,
    /// Ephemeral znodes, places in queues among them.
    pub ephemerals: u64,
}

impl Machine {
    /// Revision of the last command applied; 0 before the first.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The largest stamp seen.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// The bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How much there is. O(1).
    pub fn counts(&self) -> Counts {
        Counts {
            sessions: self.sessions.len() as u64,
            znodes: self.tree.len() as u64,
            locks_held: self.locks.held(),
            waiters: self.locks.waiting(),
            grants: self.locks.grants(),
            tree_bytes: self.stored_bytes(),
            znode_bytes: self.tree.totals().bytes,
            ephemerals: self.tree.totals().ephemerals,
        }
    }

    /// A lock with its first holders and waiters, so many of each, and all its segments if it is sharded. One that nobody took
    /// since its directory was made is a view without holders.
    pub fn lock(&self, lock: &LockName, shown_max: usize) -> LockView {
        match self.locks.get(lock) {
            Some(indexed) => LockView {
                segments: self.shard_views(lock),
                ..self.lock_view(lock, indexed, (shown_max, shown_max))
            },
            None => self.untaken(lock),
        }
    }

    /// A lock as a listing shows it: with its first holders, and without its waiters, which are only counted.
    pub fn lock_in_list(&self, lock: &LockName) -> LockView {
        match self.locks.get(lock) {
            Some(indexed) => self.lock_view(lock, indexed, (LISTED_HOLDERS_MAX, 0)),
            None => self.untaken(lock),
        }
    }

    /// A page of the locks that pass a filter, by name, after a name; without their waiters, which are only counted.
    /// At most `limit` of them; fewer, with `next`, if [`SCAN_MAX`] locks were read before.
    pub fn locks(&self, filter: &LockFilter, after: Option<&str>, limit: usize) -> Page<LockView> {
        match &filter.session {
            Some(session) => self.locks_of_session(session, filter, after, limit),
            None => self.locks_of_all(filter, after, limit),
        }
    }

    fn locks_of_all(
        &self,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Page<LockView> {
        let start = match after {
            Some(after) if after >= filter.prefix.as_str() => Bound::Excluded(after),
            Some(_) | None => Bound::Included(filter.prefix.as_str()),
        };
        let inside = self
            .locks
            .range(start)
            .take_while(|(name, _)| name.as_str().starts_with(&filter.prefix));
        let matches = |lock: &Lock| {
            (!filter.held || !lock.holders.is_empty())
                && (!filter.waiting || !lock.waiters.is_empty())
        };
        let candidates =
            inside.map(|(name, lock)| (name, Some(lock.as_ref()).filter(|lock| matches(lock))));
        self.page_of_locks(candidates, limit)
    }

    fn locks_of_session(
        &self,
        session: &SessionName,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Page<LockView> {
        let id = match self.sessions.named(session) {
            Some(KnownSession::Open(id)) => id,
            Some(KnownSession::Ended { .. }) | None => SessionId(0),
        };
        let mut keys: Vec<(&LockName, bool)> = self
            .places_with_hold(id)
            .filter(|(lock, token)| {
                lock.as_str().starts_with(&filter.prefix)
                    && after.is_none_or(|after| lock.as_str() > after)
                    && (!filter.held || filter.waiting || token.is_some())
                    && (!filter.waiting || filter.held || token.is_none())
            })
            .map(|(lock, token)| (lock, token.is_some()))
            .collect();
        if filter.held && filter.waiting {
            let waits: Vec<_> = keys.iter().filter(|c| !c.1).map(|c| c.0.clone()).collect();
            keys.retain(|(lock, holds)| *holds && waits.contains(lock));
        }
        keys.dedup_by_key(|(lock, _)| *lock);
        self.page_of_locks(keys.iter().map(|(lock, _)| (*lock, self.locks.get(lock))), limit)
    }

    /// Reads candidates until the page or the scan is full.
    fn page_of_locks<'a>(
        &self,
        candidates: impl Iterator<Item = (&'a LockName, Option<&'a Lock>)>,
        limit: usize,
    ) -> Page<LockView> {
        let (mut items, mut last, mut next) = (Vec::new(), None, None);
        for (read, (name, lock)) in candidates.enumerate() {
            if items.len() >= limit || read >= SCAN_MAX {
                next = last.map(LockName::to_string);
                break;
            }
            last = Some(name);
            items.extend(lock.map(|lock| self.lock_view(name, lock, (LISTED_HOLDERS_MAX, 0))));
        }
        Page { items, next, revision: self.revision }
    }

    /// What is known of a session's name, with all its places.
    pub fn session(&self, session: &SessionName) -> SessionStatus {
        match self.sessions.named(session) {
            Some(KnownSession::Open(id)) => match self.sessions.get(id) {
                Some(session) => SessionStatus::Open(self.session_view(session, usize::MAX)),
                None => SessionStatus::Unknown,
            },
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => SessionStatus::Expired,
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) => SessionStatus::Closed,
            None => SessionStatus::Unknown,
        }
    }

    /// A page of the live sessions, by name, after a name. Each shows at most [`LISTED_PLACES_MAX`] places.
    /// Fewer than `limit`, with `next`, if [`SCAN_MAX`] names were read before.
    pub fn sessions(&self, after: Option<&str>, limit: usize) -> Page<SessionView> {
        let (mut items, mut last, mut next) = (Vec::new(), None, None);
        for (read, (name, named)) in self.sessions.names_after(after).enumerate() {
            if items.len() >= limit || read >= SCAN_MAX {
                next = last.map(SessionName::to_string);
                break;
            }
            last = Some(name);
            if let KnownSession::Open(id) = named
                && let Some(session) = self.sessions.get(id)
            {
                items.push(self.session_view(session, LISTED_PLACES_MAX));
            }
        }
        Page { items, next, revision: self.revision }
    }

    fn session_view(&self, session: &Session, places_max: usize) -> SessionView {
        let (mut holds, mut waits) = (Vec::new(), Vec::new());
        for (lock, token) in self.places_with_hold(session.id).take(places_max) {
            match token {
                Some(token) => holds.push((lock.clone(), token)),
                None => waits.push(lock.clone()),
            }
        }
        SessionView {
            id: session.id,
            session: session.name.clone(),
            ttl: session.ttl,
            generation: session.generation,
            anonymous: session.anonymous,
            opened_at: session.opened_at,
            labels: session.labels.clone(),
            holds,
            waits,
        }
    }

    /// A session's places by lock, with the token of those that hold.
    fn places_with_hold(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = (&LockName, Option<FencingToken>)> {
        self.locks.keys_of(session).filter_map(|key| {
            let lock = key.lock.as_ref()?;
            let entry = self.locks.get(lock)?.entry(&key.rank)?;
            Some((lock, entry.token()))
        })
    }

    /// The name of a live session.
    pub fn session_name(&self, id: SessionId) -> Option<SessionName> {
        self.sessions.get(id).map(|session| session.name.clone())
    }

    /// A live session's number and time-to-live, without its places.
    pub fn session_id(&self, session: &SessionName) -> Option<(SessionId, Ttl)> {
        match self.sessions.named(session)? {
            KnownSession::Open(id) => self.sessions.get(id).map(|session| (id, session.ttl)),
            KnownSession::Ended { .. } => None,
        }
    }

    /// A live session's time-to-live and the generation of its lease.
    pub fn lease(&self, id: SessionId) -> Option<(Ttl, u64)> {
        self.sessions.get(id).map(|session| (session.ttl, session.generation))
    }

    /// The leases of all live sessions, by number.
    pub fn leases(&self) -> impl Iterator<Item = (SessionId, Ttl, u64)> {
        self.sessions.iter().map(|session| (session.id, session.ttl, session.generation))
    }

    /// Whether a command would do no more now than take the last place of an exclusive lock's queue, behind a holder and
    /// somebody who is next. Whatever comes before it in the log, short of the end of both, leaves that so: whichever caller
    /// packs commands can let it wait for another one's entry.
    pub fn only_queues(&self, command: &Command) -> bool {
        let Command::Acquire(acquire) = command else { return false };
        let plain = acquire.wait
            && acquire.options.priority == 0
            && acquire.segments.is_none()
            && acquire.mode.is_none_or(|mode| mode == Mode::Exclusive);
        let Some(name) = acquire.locks.single() else { return false };
        let behind = |lock: &Lock| {
            lock.waiting() > 0 && lock.policy().limit.is_none() && !lock.holders.is_empty()
        };
        plain
            && self.locks.get(name).is_some_and(behind)
            && self.entry_state(&acquire.locks, &acquire.open.session, &acquire.owner).is_none()
    }

    /// The newest tokens of a lock.
    pub fn fence(&self, lock: &LockName) -> FenceView {
        let indexed = self.locks.get(lock);
        FenceView {
            current: indexed.and_then(|lock| lock.holders.tokens()).map(|(_, largest)| largest),
            floor: self.floor_of(indexed),
            highest: indexed.and_then(|lock| lock.last_token),
        }
    }

    /// Whether one of a lock's present holders has this token.
    pub fn is_held_with(&self, lock: &LockName, token: FencingToken) -> bool {
        self.locks.get(lock).is_some_and(|lock| lock.holders.of_token(token).is_some())
    }

    /// The data directory that serves under a node's id.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.members.get(&node).copied()
    }
}
