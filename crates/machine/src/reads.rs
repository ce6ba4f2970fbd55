//! Reads of the machine. Results are copies at its revision. The read barrier decides whether that revision is current.
//!
//! Bound: a page reads at most [`SCAN_MAX`] locks, so a filter with few matches does not delay `apply`.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::{
    Command, FenceView, FencingToken, HolderView, Limits, LockName, LockView, Mode, Page, Revision,
    SessionEnd, SessionHold, SessionId, SessionName, SessionStatus, SessionView, Stamp,
    SubjectName, Ttl, ZnodePath,
};

use crate::Machine;
use crate::lock::index::Lock;
use crate::lock::lock_entry::LockEntry;
use crate::session::store::{KnownSession, Session};

/// The largest number of locks read for one page. A page may therefore be short or empty, and still have a `next`.
pub const SCAN_MAX: usize = 50_000;

/// The largest number of holders of one lock in a listing. `holders_total` counts all holders.
pub const LISTED_HOLDERS_MAX: usize = 16;

/// The largest number of queue entries of one session in a listing. [`Machine::session`] returns all.
pub const LISTED_ENTRIES_MAX: usize = 100;

/// Selects the locks to list. A lock must match all given fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFilter {
    /// The prefix of the lock names.
    pub prefix: String,
    /// Only locks with a holder; with `session`, only locks that the session holds.
    pub held: bool,
    /// Only locks with a waiter; with `session`, only locks for which the session waits.
    pub waiting: bool,
    /// Only locks that this session holds or waits for.
    pub session: Option<SessionName>,
}

/// Sizes of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live sessions.
    pub sessions: u64,
    /// Znodes, including the built-in ones.
    pub znodes: u64,
    /// Locks with a holder.
    pub locks_held: u64,
    /// Waiters of all locks.
    pub waiters: u64,
    /// Tokens minted so far, which is the value of the last one.
    pub grants: u64,
    /// Bytes that clients have stored, as `tree_bytes_max` bounds them.
    pub tree_bytes: u64,
    /// The part of `tree_bytes` that is in znodes, including their paths.
    pub znode_bytes: u64,
    /// Ephemeral znodes, including queue entries.
    pub ephemerals: u64,
}

impl Machine {
    /// The revision of the last applied command; 0 before the first.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether the end of a session would end anything else: a hold, a wait, an ephemeral znode or a part in a recipe.
    pub fn is_session_in_use(&self, session: SessionId) -> bool {
        self.locks.keys_of(session).next().is_some()
            || self.tree.node_indexes.owned_by(session) > 0
            || self.recipes.participation_count(session) > 0
    }

    /// The largest stamp so far.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// The current limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the first znode of a client that does not see HTTP callers, and the number of all of them.
    pub fn first_foreign_znode(&self) -> Option<(&ZnodePath, usize)> {
        self.tree.node_indexes.first_foreign()
    }

    /// Returns the sizes of the state. O(1).
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

    /// Returns a lock with its first `shown_max` holders and waiters, and all its shards if it is sharded. A lock that
    /// was never granted has no holders.
    pub fn lock(&self, lock: &LockName, shown_max: usize) -> LockView {
        let free = Lock::new(ZnodePath::of_lock(lock));
        let indexed = self.locks.get(lock).unwrap_or(&free);
        let foreign_znodes = self.foreign_znodes(lock).take(shown_max).cloned().collect();
        let view = self.lock_view(lock, indexed, shown_max, shown_max);
        LockView { shards: self.shard_views(lock), foreign_znodes, ..view }
    }

    /// Returns the list view of a lock: its first holders, and the number of its waiters.
    pub fn lock_in_list(&self, lock: &LockName) -> LockView {
        let free = Lock::new(ZnodePath::of_lock(lock));
        self.lock_view(lock, self.locks.get(lock).unwrap_or(&free), LISTED_HOLDERS_MAX, 0)
    }

    /// Returns a page of the locks that match a filter, in name order, after a name. The views have the number of
    /// waiters, but no waiters. The page has at most `limit` locks; fewer, with `next`, if it read [`SCAN_MAX`] locks.
    pub fn locks(
        &self,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
        is_visible: impl Fn(&LockName) -> bool,
    ) -> Page<LockView> {
        match &filter.session {
            Some(session) => self.locks_of_session(session, filter, after, limit, is_visible),
            None => self.locks_of_all(filter, after, limit, is_visible),
        }
    }

    fn locks_of_all(
        &self,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
        is_visible: impl Fn(&LockName) -> bool,
    ) -> Page<LockView> {
        let start = match after {
            Some(after) if after >= filter.prefix.as_str() => Bound::Excluded(after),
            Some(_) | None => Bound::Included(filter.prefix.as_str()),
        };
        let inside = self
            .locks
            .range(start)
            .take_while(|(name, _)| name.as_str().starts_with(&filter.prefix));
        let matches = |name: &LockName, lock: &Lock| {
            (!filter.held || !lock.holders.is_empty())
                && (!filter.waiting || !lock.waiters.is_empty())
                && is_visible(name)
        };
        let candidates = inside
            .map(|(name, lock)| (name, Some(lock.as_ref()).filter(|lock| matches(name, lock))));
        self.page_of_locks(candidates, limit)
    }

    fn locks_of_session(
        &self,
        session: &SessionName,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
        is_visible: impl Fn(&LockName) -> bool,
    ) -> Page<LockView> {
        let id = match self.sessions.named(session) {
            Some(KnownSession::Open(id)) => id,
            Some(KnownSession::Ended { .. }) | None => SessionId(0),
        };
        let mut keys: Vec<(&LockName, bool)> = self
            .entries_of_session(id)
            .map(|(lock, entry)| (lock, entry.hold.is_some()))
            .filter(|(lock, holds)| {
                lock.as_str().starts_with(&filter.prefix)
                    && after.is_none_or(|after| lock.as_str() > after)
                    && (!filter.held || filter.waiting || *holds)
                    && (!filter.waiting || filter.held || !*holds)
                    && is_visible(lock)
            })
            .collect();
        if filter.held && filter.waiting {
            let waits: Vec<_> = keys.iter().filter(|c| !c.1).map(|c| c.0.clone()).collect();
            // Both are in the order of the locks.
            keys.retain(|(lock, holds)| *holds && waits.binary_search(lock).is_ok());
        }
        keys.dedup_by_key(|(lock, _)| *lock);
        self.page_of_locks(keys.iter().map(|(lock, _)| (*lock, self.locks.get(lock))), limit)
    }

    /// Reads candidates until the page is full, or the scan reaches its bound.
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
            items.extend(lock.map(|lock| self.lock_view(name, lock, LISTED_HOLDERS_MAX, 0)));
        }
        Page { items, next, revision: self.revision }
    }

    /// Returns the status of a session by name; for a live session, all its queue entries.
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

    /// Returns a page of the live sessions, except those of durable holds, in name order, after a name. Each has at most [`LISTED_ENTRIES_MAX`] queue
    /// entries. The page has fewer than `limit` sessions, with `next`, if it read [`SCAN_MAX`] names.
    pub fn sessions(
        &self,
        after: Option<&str>,
        limit: usize,
        is_visible: impl Fn(&SessionName) -> bool,
    ) -> Page<SessionView> {
        let (mut items, mut last, mut next) = (Vec::new(), None, None);
        for (read, (name, named)) in self.sessions.names_after(after).enumerate() {
            if items.len() >= limit || read >= SCAN_MAX {
                next = last.map(SessionName::to_string);
                break;
            }
            last = Some(name);
            if let KnownSession::Open(id) = named
                && let Some(session) = self.sessions.get(id)
                && !name.is_durable()
                && is_visible(name)
            {
                items.push(self.session_view(session, LISTED_ENTRIES_MAX));
            }
        }
        Page { items, next, revision: self.revision }
    }

    fn session_view(&self, session: &Session, entries_max: usize) -> SessionView {
        let (mut holds, mut waits) = (Vec::new(), Vec::new());
        for (lock, entry) in self.entries_of_session(session.id).take(entries_max) {
            let (lock, ticket) = (lock.clone(), entry.ticket);
            match entry.token() {
                Some(token) => holds.push(SessionHold { lock, ticket, token }),
                None => waits.push(lock),
            }
        }
        SessionView {
            id: session.id,
            session: session.name.clone(),
            ttl: session.ttl.present,
            generation: session.generation,
            anonymous: session.anonymous,
            opened_at: session.opened_at,
            labels: session.labels.clone(),
            subject: session.subject.clone(),
            holds,
            waits,
        }
    }

    fn entries_of_session(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = (&LockName, &Arc<LockEntry>)> {
        self.locks.keys_of(session).filter_map(|key| {
            let entry = self.locks.get(&key.lock)?.entry(&key.rank)?;
            Some((&key.lock, entry))
        })
    }

    /// The name of a live session.
    pub fn session_name(&self, id: SessionId) -> Option<SessionName> {
        self.sessions.get(id).map(|session| session.name.clone())
    }

    /// The subject of a session that is open or has expired; `None` without one.
    pub fn subject_of_session(&self, session: &SessionName) -> Option<&SubjectName> {
        self.sessions.subject_of(session)
    }

    /// True if connections take the session over with its password, and no subject opened it.
    pub(crate) fn is_of_connection(&self, session: &SessionName) -> bool {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return false };
        let session = self.sessions.get(id);
        session.is_some_and(|session| session.password.is_some() && session.subject.is_none())
    }

    /// The number and the TTL of a live session.
    pub fn session_id(&self, session: &SessionName) -> Option<(SessionId, Ttl)> {
        match self.sessions.named(session)? {
            KnownSession::Open(id) => {
                self.sessions.get(id).map(|session| (id, session.ttl.present))
            }
            KnownSession::Ended { .. } => None,
        }
    }

    /// The TTL of a live session and the generation of its lease.
    pub fn lease(&self, id: SessionId) -> Option<(Ttl, u64)> {
        self.sessions.get(id).map(|session| (session.ttl.present, session.generation))
    }

    /// The durable holds that were granted before a time: the lock and the holder, at most `count_max`.
    pub fn durable_holds_before(
        &self,
        granted_before: Stamp,
        count_max: usize,
    ) -> Vec<(LockName, HolderView)> {
        let named = self.sessions.names_after(Some(SessionName::DURABLE));
        let named = named.take_while(|(name, _)| name.is_durable());
        let ids = named.filter_map(|(_, named)| match named {
            KnownSession::Open(id) => Some(id),
            KnownSession::Ended { .. } => None,
        });
        let entries = ids.flat_map(|id| self.locks.keys_of(id)).filter_map(|key| {
            let entry = self.locks.get(&key.lock)?.entry(&key.rank)?;
            Some((key.lock.clone(), self.holder_view(entry)?))
        });
        entries.filter(|(_, holder)| holder.granted_at < granted_before).take(count_max).collect()
    }

    /// True if a command would only add a waiter at the end of an exclusive lock's queue, behind a holder and another
    /// waiter. Earlier commands in the log keep this true, unless both leave. A proposer may therefore delay the
    /// command until it proposes another one.
    pub fn only_adds_waiter(&self, command: &Command) -> bool {
        let Command::Acquire(acquire) = command else { return false };
        let plain = acquire.wait
            && acquire.options.priority == 0
            && acquire.shards.is_none()
            && acquire.mode.is_none_or(|mode| mode == Mode::Exclusive);
        let Some(name) = acquire.locks.single() else { return false };
        let behind = |lock: &Lock| {
            lock.waiting() > 0 && lock.policy().limit.is_none() && !lock.holders.is_empty()
        };
        plain
            && self.locks.get(name).is_some_and(behind)
            && self
                .entry_state(&acquire.locks, &acquire.open.session, &acquire.owner, None)
                .is_none()
    }

    /// Returns the tokens of a lock: the largest of its holders, the floor, and the last one minted.
    pub fn fence(&self, lock: &LockName) -> FenceView {
        let indexed = self.locks.get(lock);
        FenceView {
            current: indexed.and_then(|lock| lock.holders.tokens()).map(|(_, largest)| largest),
            floor: self.floor_of(indexed),
            highest: indexed.and_then(|lock| lock.last_token),
        }
    }

    /// True if a current holder of the lock has this token.
    pub fn is_held_with(&self, lock: &LockName, token: FencingToken) -> bool {
        self.locks.get(lock).is_some_and(|lock| lock.holders.of_token(token).is_some())
    }
}
