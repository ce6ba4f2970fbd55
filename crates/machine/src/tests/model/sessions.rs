//! The model's sessions: begin, touch, end.

use holdfast_types::{LockRejection, SessionOpenedReply, SessionRejection};
use std::collections::BTreeSet;

use holdfast_types::*;

use super::locks::entry;
use super::{Ended, Model, Node, full, parent, znode};

#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) struct Session {
    pub(in crate::tests) id: u64,
    pub(in crate::tests) name: SessionName,
    pub(in crate::tests) ttl: Ttl,
    /// Longer TTLs before it, each with the time until which a caller may rely on it.
    replaced_ttls: Vec<(Ttl, u64)>,
    pub(in crate::tests) generation: u64,
    pub(in crate::tests) anonymous: bool,
    pub(in crate::tests) released: Vec<(LockName, Owner)>,
    /// Ended attempts with their lock and owner.
    pub(in crate::tests) ended_attempts: Vec<(LockName, Owner, Attempt)>,
    /// The newest ended attempt of earlier sessions with this name.
    pub(in crate::tests) floor: Attempt,
    /// The newest attempt that set the TTL.
    pub(in crate::tests) settings_by: Attempt,
    pub(in crate::tests) password: Option<Password>,
    pub(in crate::tests) attachment: Option<u64>,
}

impl Model {
    pub(super) fn begin(&mut self, open: &OpenSession, attempt: Option<Attempt>) {
        let id = open.id.map_or_else(
            || {
                self.minted += 1;
                self.minted
            },
            |id| id.0,
        );
        let floor =
            self.ended(&open.session).map_or(Attempt::UNNAMED, |ended| ended.newest_attempt);
        self.ended.retain(|ended| ended.name != open.session);
        self.sessions.push(Session {
            id,
            name: open.session.clone(),
            ttl: open.ttl.unwrap_or(Ttl::DEFAULT),
            replaced_ttls: Vec::new(),
            generation: 1,
            anonymous: open.anonymous || open.session.is_durable(),
            released: Vec::new(),
            ended_attempts: Vec::new(),
            floor,
            settings_by: attempt.unwrap_or(Attempt::UNNAMED),
            password: open.password,
            attachment: open.password.map(|_| self.revision),
        });
        self.recipes.begin(&open.session, SessionId(id));
    }

    pub(super) fn renew_lease(&mut self, name: &SessionName, ttl: Option<Ttl>) {
        let now = self.now;
        let session = self.live_mut(name);
        session.generation += 1;
        let former = session.ttl;
        session.ttl = ttl.unwrap_or(former);
        session.replaced_ttls.push((former, now + 2 * u64::from(former.as_millis())));
        session.replaced_ttls.retain(|(replaced, _)| *replaced > session.ttl);
    }

    /// The longest TTL on which a caller certainly relies, and one that no caller can exceed.
    pub(in crate::tests) fn longest_ttl(&self, name: &SessionName) -> Option<(Ttl, Ttl)> {
        let session = self.live(name)?;
        let relied = session.replaced_ttls.iter().filter(|(_, until)| self.now < *until);
        let relied = relied.map(|(ttl, _)| *ttl).max().unwrap_or(session.ttl);
        let all = session.replaced_ttls.iter().map(|(ttl, _)| *ttl).max().unwrap_or(session.ttl);
        Some((relied, all))
    }

    /// A renewal by name keeps the TTL that a connection agreed on, and that of a newer attempt.
    pub(super) fn renew_lease_by_name(
        &mut self,
        name: &SessionName,
        ttl: Option<Ttl>,
        attempt: Option<Attempt>,
    ) {
        let session = self.live_mut(name);
        let by = attempt.unwrap_or(Attempt::UNNAMED);
        let is_late = by <= session.settings_by && session.settings_by != Attempt::UNNAMED;
        if ttl.is_some() && !is_late {
            session.settings_by = by;
        }
        let agreed = session.password.is_some();
        self.renew_lease(name, if agreed || is_late { None } else { ttl });
    }

    pub(super) fn open(&mut self, open: OpenSession, attempt: Option<Attempt>) -> Outcome {
        let created = self.live(&open.session).is_none();
        if created && self.end_of(&open.session) == Some(SessionEnd::Expired) {
            return Err(SessionRejection::Expired { session: open.session }.into());
        }
        self.check_incarnation(&open)?;
        if !created {
            let live = self.live(&open.session).unwrap();
            if open.password.is_some() && live.password != open.password {
                return Err(SessionRejection::Unknown { session: open.session }.into());
            }
            if open.password.is_none() {
                self.renew_lease_by_name(&open.session, open.ttl, attempt);
                let session = self.live_mut(&open.session);
                session.settings_by = session.settings_by.max(attempt.unwrap_or(Attempt::UNNAMED));
            } else {
                self.renew_lease(&open.session, open.ttl);
                let revision = self.revision;
                self.live_mut(&open.session).attachment = Some(revision);
            }
        } else if let Some(newest) = self.ended(&open.session).map(|ended| ended.newest_attempt)
            && attempt.is_some_and(|attempt| attempt <= newest)
        {
            return Err(Rejection::Lock(LockRejection::AttemptOver { newest }));
        } else if let Some(id) = open.id
            && (!SessionId::CHOSEN.contains(&id.0)
                || self.sessions.iter().any(|session| session.id == id.0)
                || self.ended(&open.session).is_some())
        {
            return Err(SessionRejection::Unknown { session: open.session }.into());
        } else if self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        } else {
            self.begin(&open, attempt);
        }
        let live = self.live(&open.session).unwrap();
        Ok(Reply::SessionOpened(SessionOpenedReply {
            id: SessionId(live.id),
            ttl: live.ttl,
            created,
        }))
    }

    /// An ended session is told by its own rejection before its incarnation is compared.
    pub(super) fn check_incarnation(&self, open: &OpenSession) -> Result<(), Rejection> {
        let live = self.live(&open.session).map(|session| SessionId(session.id));
        match open.incarnation {
            Some(incarnation) if live != Some(incarnation) => {
                let session = open.session.clone();
                Err(SessionRejection::IncarnationEnded { session, incarnation }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn attach_by_id(&mut self, id: SessionId, password: Password, ttl: Ttl) -> Outcome {
        let knows = |s: &&Session| s.id == id.0 && s.password == Some(password);
        let Some(name) = self.sessions.iter().find(knows).map(|s| s.name.clone()) else {
            return Err(SessionRejection::Unknown { session: SessionName::of(id) }.into());
        };
        self.renew_lease(&name, Some(ttl));
        let revision = self.revision;
        self.live_mut(&name).attachment = Some(revision);
        Ok(Reply::SessionAttached { session: name, ttl })
    }

    pub(super) fn check_attachment(
        &self,
        name: &SessionName,
        attachment: Option<Revision>,
    ) -> Result<(), Rejection> {
        match attachment {
            Some(at) if self.live(name).unwrap().attachment != Some(at.0) => {
                Err(Rejection::Session(SessionRejection::Moved { session: name.clone() }))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn end(&mut self, name: &SessionName, cause: LossCause) {
        self.end_without_grants(name, cause);
        self.grant_all_waiters();
    }

    pub(super) fn end_without_grants(&mut self, name: &SessionName, cause: LossCause) {
        let id = self.live(name).unwrap().id as i64;
        let own = |node: &&Node| node.stat.ephemeral_owner == id;
        let paths: Vec<_> = self.nodes.iter().filter(own).map(|n| n.path.clone()).collect();
        let contends = |path: &&String| self.find(path).unwrap().entry.is_some();
        let locks = paths.iter().filter(contends).filter_map(|p| znode(&parent(p)).as_lock());
        let locks: BTreeSet<_> = locks.collect();
        let end = if cause == LossCause::SessionExpired {
            SessionEnd::Expired
        } else {
            SessionEnd::Closed
        };
        paths.iter().for_each(|path| self.leave(path, cause));
        self.follow_in_recipes();
        self.recipes.end(name, end);
        let live = self.live(name).unwrap();
        let over = live.ended_attempts.iter().map(|(.., attempt)| *attempt);
        let newest_attempt = over.chain([live.settings_by]).fold(live.floor, Attempt::max);
        let ended = Ended { name: name.clone(), end, id: live.id, newest_attempt };
        self.sessions.retain(|session| session.name != *name);
        self.ended.push(ended);
        self.changed.extend(locks);
    }

    /// The newest attempt of a session, for any lock.
    pub(in crate::tests) fn newest_attempt(&self, name: &SessionName) -> Attempt {
        let id = self.live(name).map_or(0, |live| live.id as i64);
        let own = self.nodes.iter().filter(|node| node.stat.ephemeral_owner == id);
        let kept = own.filter_map(|node| node.entry.as_ref()).flat_map(super::QueueEntry::numbers);
        let ended = self.live(name).into_iter().flat_map(|live| live.ended_attempts.iter());
        let floor = self.ended(name).map_or(Attempt::UNNAMED, |ended| ended.newest_attempt);
        let set = self.live(name).map(|live| live.settings_by);
        kept.chain(set).chain(ended.map(|(.., attempt)| *attempt)).fold(floor, Attempt::max)
    }

    /// The newest ended attempt of a lock and owner.
    pub(super) fn newest_ended(
        &self,
        name: &SessionName,
        lock: &LockName,
        owner: &Owner,
    ) -> Attempt {
        let Some(live) = self.live(name) else {
            return self.ended(name).map_or(Attempt::UNNAMED, |ended| ended.newest_attempt);
        };
        let own = live.ended_attempts.iter().filter(|(of, by, _)| of == lock && by == owner);
        own.map(|(.., attempt)| *attempt).fold(live.floor, Attempt::max)
    }

    pub(super) fn check_attempt(
        &self,
        lock: &LockName,
        acquire: &Acquire,
    ) -> Result<(), Rejection> {
        let (name, attempt) = (&acquire.open.session, acquire.attempt);
        let newest = self.newest_ended(name, lock, &acquire.owner);
        let keeps = |node: &Node| attempt.is_some_and(|a| entry(node).claim(a).is_some());
        let id = self.live(name).map_or(0, |live| live.id);
        let kept = self.entry_for(lock, id, acquire).is_some_and(keeps);
        match attempt {
            Some(attempt) if attempt <= newest && !kept => {
                Err(Rejection::Lock(LockRejection::AttemptOver { newest }))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ends an attempt: later copies of it are rejected, and no entry is removed.
    pub(super) fn end_attempt(
        &mut self,
        (name, lock, owner): (&SessionName, &LockName, &Owner),
        attempt: Attempt,
    ) {
        if self.live(name).is_some() {
            let ended = (lock.clone(), owner.clone(), attempt);
            return self.live_mut(name).ended_attempts.push(ended);
        }
        let old = self.ended(name).cloned();
        self.ended.retain(|ended| ended.name != *name);
        let (id, newest_attempt) =
            old.map_or((0, attempt), |old| (old.id, old.newest_attempt.max(attempt)));
        self.ended.push(Ended { name: name.clone(), end: SessionEnd::Closed, id, newest_attempt });
    }

    /// An anonymous session closes with its last entry.
    pub(super) fn close_if_anonymous_and_idle(&mut self, id: u64) {
        let anonymous = |session: &&Session| session.id == id && session.anonymous;
        let name = self.sessions.iter().find(anonymous).map(|session| session.name.clone());
        if let Some(name) = name.filter(|_| self.entries_of(id) == 0) {
            self.end(&name, LossCause::SessionClosed);
        }
    }
}
