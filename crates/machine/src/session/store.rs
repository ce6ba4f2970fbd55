//! Live sessions and the tombstones of ended ones.
//!
//! Bounds: `sessions_max` live sessions, which callers check; `tombstones_max` tombstones; for each session,
//! [`EndedAttempts::COUNT_MAX`] records of left locks and `memo_per_session_max` remembered answers.

use std::sync::Arc;

use holdfast_types::{
    Attempt, Labels, Limits, NamespaceName, OpenSession, Password, RequestNumber, Revision,
    SessionEnd, SessionId, SessionName, Stamp, SubjectName, Ttl,
};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::per_namespace::PerNamespace;
use crate::session::attempts::EndedAttempts;
use crate::session::lease_records::SessionTtl;
use crate::session::memo::{Memo, RememberedAnswer};
use crate::session::subject_use::{SubjectUse, SubjectUses};

/// Separates the name of a session from the rest of the name of a session that works for it.
const NESTED: char = '~';

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: SessionName,
    pub(crate) ttl: SessionTtl,
    /// The generation of the lease. Each renewal through the log increments it.
    pub(crate) generation: u64,
    pub(crate) anonymous: bool,
    pub(crate) opened_at: Stamp,
    pub(crate) labels: Labels,
    /// Invariant: the number of its keys in the lock index.
    #[serde(skip)]
    pub(crate) queue_entries: u32,
    pub(crate) ended_attempts: EndedAttempts,
    /// The newest attempt that set the TTL or the labels. An older one replaces neither.
    pub(crate) settings_by: Attempt,
    pub(crate) memo: Memo,
    /// The password that another connection needs to attach the session.
    pub(crate) password: Option<Password>,
    /// The attached connection: the revision of the command that opened or attached the session. Invariant: present
    /// exactly if `password` is.
    pub(crate) attachment: Option<Revision>,
    /// The subject that opened the session; `None` if it had no credential.
    pub(crate) subject: Option<SubjectName>,
}

impl Session {
    /// The number of bytes that the client has stored.
    fn bytes(&self) -> u64 {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        (self.name.as_str().len() + labels + self.memo.bytes_named()) as u64
    }

    /// What counts for its subject.
    pub(super) fn usage(&self) -> SubjectUse {
        let queue_entries = self.queue_entries.into();
        SubjectUse { sessions: 1, queue_entries, bytes: self.bytes() }
    }
}

/// The session, live or ended, that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownSession {
    /// A live session.
    Open(SessionId),
    /// An ended session.
    Ended {
        /// The kind of end.
        end: SessionEnd,
        /// The number of its tombstone.
        number: u64,
    },
}

/// The record of an ended session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub(crate) name: SessionName,
    pub(crate) ended_at: Stamp,
    /// The ended session; 0 if no session of that name was ever open.
    pub(crate) incarnation: SessionId,
    /// All its attempts up to this one are over.
    pub(crate) over: Attempt,
    /// No call with a number up to this one is executed.
    pub(crate) requests_over: RequestNumber,
    /// The subject that opened the session.
    pub(crate) subject: Option<SubjectName>,
}

/// All live sessions and tombstones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    pub(super) by_id: OrdMap<SessionId, Arc<Session>>,
    /// Invariant: exactly the names of the live sessions and the tombstones.
    by_name: OrdMap<SessionName, KnownSession>,
    /// Invariant: the live sessions whose name has [`NESTED`].
    nested: OrdMap<SessionName, SessionId>,
    /// Tombstones of expired sessions, in the order of their ends.
    expired: OrdMap<u64, Tombstone>,
    closed: OrdMap<u64, Tombstone>,
    /// The last assigned session number.
    minted: u64,
    /// The last tombstone number.
    tombstones_minted: u64,
    /// Invariant: the number of bytes that the clients of live sessions have stored.
    bytes: u64,
    /// Invariant: the number of live sessions of each namespace.
    namespaces: PerNamespace<u64>,
    /// Invariant: the use of each subject with a live session.
    pub(super) subjects: SubjectUses,
}

/// Whether a session with this name works for another one.
pub(crate) fn is_nested(name: &SessionName) -> bool {
    name.without_subject().contains(NESTED)
}

impl Sessions {
    /// The largest number of tombstones forgotten for each new one. It bounds the work of a command after the limit was
    /// lowered.
    const FORGET_MAX: usize = 8;

    /// Creates an empty store with the counters of a snapshot.
    pub(crate) fn restored(minted: u64, tombstones_minted: u64) -> Self {
        Self { minted, tombstones_minted, ..Self::default() }
    }

    /// The last session number and the last tombstone number.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.minted, self.tombstones_minted)
    }

    /// Skips the session numbers up to this one. Never goes back.
    pub(crate) fn advance_minted(&mut self, last: u64) {
        self.minted = self.minted.max(last);
    }

    /// Returns the session with a name, live or ended; `None` if the name is unknown.
    pub(crate) fn named(&self, name: &SessionName) -> Option<KnownSession> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id).map(|session| &**session)
    }

    /// Returns a session for a change. The caller must change neither its stored bytes nor its number of queue entries.
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id).map(Arc::make_mut)
    }

    /// Replaces the labels.
    pub(crate) fn set_labels(&mut self, id: SessionId, labels: Labels) {
        self.store(id, |session| session.labels = labels);
    }

    /// Remembers an answer.
    pub(crate) fn remember(&mut self, id: SessionId, answer: RememberedAnswer, count_max: u32) {
        self.store(id, |session| session.memo.remember(answer, count_max));
    }

    /// Changes what a session stores.
    fn store(&mut self, id: SessionId, change: impl FnOnce(&mut Session)) {
        let Some(session) = self.by_id.get_mut(&id).map(Arc::make_mut) else { return };
        let before = session.bytes();
        self.subjects.remove(session.subject.as_ref(), session.usage());
        change(session);
        self.subjects.add(session.subject.as_ref(), session.usage());
        self.bytes = self.bytes + session.bytes() - before;
    }

    /// The number of bytes that the clients of live sessions have stored.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of live sessions of each namespace.
    pub(crate) fn namespaces(&self) -> &PerNamespace<u64> {
        &self.namespaces
    }

    /// Counts the sessions of some namespaces from now on.
    pub(crate) fn start_namespaces<'a>(
        &mut self,
        namespaces: impl IntoIterator<Item = &'a NamespaceName>,
    ) {
        for namespace in namespaces {
            self.namespaces.set(namespace.clone(), 0);
        }
        self.namespaces = self.counted_namespaces();
    }

    pub(crate) fn stop_namespace(&mut self, namespace: &NamespaceName) {
        self.namespaces.remove(namespace);
    }

    /// Computes [`Sessions::namespaces`] from the sessions.
    pub(crate) fn counted_namespaces(&self) -> PerNamespace<u64> {
        let mut counted = self.namespaces.zeroed();
        for subject in self.iter().filter_map(|session| session.subject.as_ref()) {
            if let Some(count) = counted.get_mut(NamespaceName::of_subject(subject)) {
                *count += 1;
            }
        }
        counted
    }

    /// The number of sessions of the namespace of a subject.
    fn count_of(&mut self, subject: Option<&SubjectName>) -> Option<&mut u64> {
        self.namespaces.get_mut(NamespaceName::of_subject(subject?))
    }

    /// Computes [`Sessions::bytes`] from the sessions.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.iter().map(|session| session.bytes()).sum()
    }

    /// The number of live sessions.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The number of tombstones.
    pub(crate) fn tombstones(&self) -> usize {
        self.expired.len() + self.closed.len()
    }

    /// Live sessions, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.by_id.values()
    }

    /// Live sessions, in the order of their numbers, after one.
    pub(crate) fn iter_after(&self, after: SessionId) -> impl Iterator<Item = &Arc<Session>> {
        let start = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.by_id.range(start).map(|(_, session)| session)
    }

    /// Live and ended sessions in name order, after a name.
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

    /// Tombstones of one kind of end, in the order of the ends, after one.
    pub(crate) fn tombstones_after(
        &self,
        end: SessionEnd,
        after: u64,
    ) -> impl Iterator<Item = (u64, &Tombstone)> {
        let start = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.tombstones_of(end).range(start).map(|(number, tombstone)| (*number, tombstone))
    }

    fn tombstones_of(&self, end: SessionEnd) -> &OrdMap<u64, Tombstone> {
        match end {
            SessionEnd::Expired => &self.expired,
            SessionEnd::Closed => &self.closed,
        }
    }

    fn tombstones_of_mut(&mut self, end: SessionEnd) -> &mut OrdMap<u64, Tombstone> {
        match end {
            SessionEnd::Expired => &mut self.expired,
            SessionEnd::Closed => &mut self.closed,
        }
    }

    /// Opens a session under a name, and with an id, that no live session has. Removes a tombstone of that name.
    pub(crate) fn open(
        &mut self,
        open: OpenSession,
        attempt: Option<Attempt>,
        subject: Option<SubjectName>,
        now: Stamp,
    ) -> SessionId {
        let ended = self.tombstone(&open.session);
        let (over, requests_over) =
            ended.map_or_else(Default::default, |ended| (ended.over, ended.requests_over));
        self.forget(&open.session);
        let id = open.id.unwrap_or_else(|| {
            self.minted += 1;
            SessionId(self.minted)
        });
        let session = Session {
            id,
            name: open.session,
            ttl: SessionTtl::new(open.ttl.unwrap_or(Ttl::DEFAULT)),
            generation: 1,
            anonymous: open.anonymous,
            opened_at: now,
            labels: open.labels,
            queue_entries: 0,
            ended_attempts: EndedAttempts::after(over),
            settings_by: attempt.unwrap_or(Attempt::UNNAMED),
            memo: Memo::after(requests_over),
            password: open.password,
            attachment: None,
            subject,
        };
        self.bytes += session.bytes();
        self.subjects.add(session.subject.as_ref(), session.usage());
        if let Some(count) = self.count_of(session.subject.as_ref()) {
            *count += 1;
        }
        self.by_name.insert(session.name.clone(), KnownSession::Open(id));
        self.add_nested(&session.name, id);
        self.by_id.insert(id, Arc::new(session));
        id
    }

    fn add_nested(&mut self, name: &SessionName, id: SessionId) {
        if is_nested(name) {
            self.nested.insert(name.clone(), id);
        }
    }

    /// Live sessions of the same subject that work for a session, directly or indirectly.
    pub(crate) fn nested_in(&self, outer: SessionId) -> impl Iterator<Item = SessionId> {
        let outer = self.get(outer);
        let prefix = outer.map(|outer| format!("{}{NESTED}", outer.name)).unwrap_or_default();
        let subject = outer.and_then(|outer| outer.subject.clone());
        let range = (std::ops::Bound::Included(prefix.as_str()), std::ops::Bound::Unbounded);
        let from = self.nested.range::<_, str>(range);
        let nested = from.take_while(move |(name, _)| name.as_str().starts_with(&prefix));
        let nested = nested.map(|(_, id)| *id).filter(move |_| outer.is_some());
        nested.filter(move |id| self.get(*id).is_some_and(|nested| nested.subject == subject))
    }

    /// Live sessions of the same subject for which a session works, the nearest first.
    pub(crate) fn outer_of(&self, nested: SessionId) -> impl Iterator<Item = SessionId> {
        let nested = self.get(nested);
        let ends = nested.map(|nested| nested.name.as_str().rmatch_indices(NESTED));
        let outer = ends.into_iter().flatten().filter_map(move |(end, _)| {
            match self.by_name.get(nested?.name.as_str().get(..end)?)? {
                KnownSession::Open(id) => self.get(*id),
                KnownSession::Ended { .. } => None,
            }
        });
        let is_same = move |outer: &&Session| nested.is_some_and(|n| n.subject == outer.subject);
        outer.filter(is_same).map(|outer| outer.id)
    }

    /// Gives a subject to a live session that has none.
    pub(crate) fn set_subject(&mut self, id: SessionId, subject: SubjectName) {
        if let Some(count) = self.count_of(Some(&subject)) {
            *count += 1;
        }
        self.store(id, |session| session.subject = Some(subject));
    }

    /// Ends a live session and adds its tombstone.
    pub(crate) fn end(&mut self, id: SessionId, end: SessionEnd, now: Stamp, limits: &Limits) {
        let Some(session) = self.by_id.remove(&id) else { return };
        self.bytes -= session.bytes();
        self.subjects.remove(session.subject.as_ref(), session.usage());
        if let Some(count) = self.count_of(session.subject.as_ref()) {
            *count -= 1;
        }
        self.nested.remove(&session.name);
        let name = session.name.clone();
        let over = session.ended_attempts.newest().max(session.settings_by);
        let requests_over = session.memo.newest();
        let subject = session.subject.clone();
        let (ended_at, incarnation) = (now, id);
        self.add_tombstone(
            end,
            Tombstone { name, ended_at, incarnation, over, requests_over, subject },
        );
        self.forget_old(now, limits);
    }

    /// Records that the client has acknowledged the expiry. A new session can then have the name.
    pub(crate) fn acknowledge_expiry(&mut self, name: &SessionName) {
        let Some(tombstone) = self.tombstone(name).cloned() else { return };
        self.forget(name);
        self.add_tombstone(SessionEnd::Closed, tombstone);
    }

    /// Ends the attempts up to this one of a session that is not open.
    pub(crate) fn record_ended_attempt(
        &mut self,
        name: SessionName,
        attempt: Attempt,
        now: Stamp,
        limits: &Limits,
    ) {
        let old = self.tombstone(&name);
        let incarnation = old.map_or(SessionId(0), |old| old.incarnation);
        let over = old.map_or(attempt, |old| old.over.max(attempt));
        let requests_over = old.map_or_else(Default::default, |old| old.requests_over);
        let subject = old.and_then(|old| old.subject.clone());
        self.forget(&name);
        self.add_tombstone(
            SessionEnd::Closed,
            Tombstone { name, ended_at: now, incarnation, over, requests_over, subject },
        );
        self.forget_old(now, limits);
    }

    fn add_tombstone(&mut self, end: SessionEnd, tombstone: Tombstone) {
        self.tombstones_minted += 1;
        let number = self.tombstones_minted;
        self.by_name.insert(tombstone.name.clone(), KnownSession::Ended { end, number });
        self.tombstones_of_mut(end).insert(number, tombstone);
    }

    /// The subject of the session with this name, if it is open or has expired.
    pub(crate) fn subject_of(&self, name: &SessionName) -> Option<&SubjectName> {
        match self.named(name)? {
            KnownSession::Open(id) => self.get(id)?.subject.as_ref(),
            KnownSession::Ended { end: SessionEnd::Expired, number } => {
                self.expired.get(&number)?.subject.as_ref()
            }
            KnownSession::Ended { end: SessionEnd::Closed, .. } => None,
        }
    }

    /// The tombstone of the session with this name; `None` if the session is open or unknown.
    pub(crate) fn tombstone(&self, name: &SessionName) -> Option<&Tombstone> {
        let Some(KnownSession::Ended { end, number }) = self.named(name) else { return None };
        self.tombstones_of(end).get(&number)
    }

    /// When the last of the sessions with a tombstone ended.
    pub(crate) fn last_end(&self) -> Option<Stamp> {
        let last = [self.expired.get_max(), self.closed.get_max()];
        last.into_iter().flatten().map(|(_, tombstone)| tombstone.ended_at).max()
    }

    /// Removes a tombstone, if the name has one.
    pub(crate) fn forget(&mut self, name: &SessionName) {
        if let Some(KnownSession::Ended { end, number }) = self.named(name) {
            self.by_name.remove(name);
            self.tombstones_of_mut(end).remove(&number);
        }
    }

    /// Forgets tombstones that are too old or exceed the limit. Closed sessions come first, because a client that lost
    /// its session by expiry may not have observed it.
    fn forget_old(&mut self, now: Stamp, limits: &Limits) {
        let room = usize::try_from(limits.tombstones_max).unwrap_or(usize::MAX);
        for _ in 0..Self::FORGET_MAX {
            let over_limit = self.tombstones() > room;
            let removable = |numbered: &&(u64, Tombstone)| {
                over_limit || numbered.1.ended_at.0.saturating_add(limits.tombstone_ms) < now.0
            };
            let oldest = self.closed.get_min().filter(removable);
            let Some((_, oldest)) = oldest.or_else(|| self.expired.get_min().filter(removable))
            else {
                return;
            };
            let name = oldest.name.clone();
            self.forget(&name);
        }
    }

    /// Adds a live session from a snapshot. Returns false if its number or name exists.
    pub(crate) fn restore(&mut self, session: Arc<Session>) -> bool {
        let (id, name) = (session.id, session.name.clone());
        self.bytes += session.bytes();
        self.subjects.add(session.subject.as_ref(), session.usage());
        self.add_nested(&name, id);
        self.by_name.insert(name, KnownSession::Open(id)).is_none()
            && self.by_id.insert(id, session).is_none()
    }

    /// Adds a tombstone from a snapshot. Returns false if its number or name exists.
    pub(crate) fn restore_tombstone(
        &mut self,
        number: u64,
        end: SessionEnd,
        tombstone: Tombstone,
    ) -> bool {
        let named = KnownSession::Ended { end, number };
        self.by_name.insert(tombstone.name.clone(), named).is_none()
            && self.tombstones_of_mut(end).insert(number, tombstone).is_none()
    }
}
