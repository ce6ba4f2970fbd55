//! The model's sessions: begin, touch, end.

use std::collections::BTreeSet;

use holdfast_types::*;

use super::{Model, Node, Session, full, parent, znode};

impl Model {
    pub(super) fn begin(&mut self, open: &OpenSession) {
        self.minted += 1;
        self.ended.retain(|(name, _)| *name != open.session);
        self.sessions.push(Session {
            id: self.minted,
            name: open.session.clone(),
            ttl: open.ttl.unwrap_or(Ttl::DEFAULT),
            generation: 1,
            anonymous: open.anonymous,
            given_up: Vec::new(),
            password: open.password,
            attachment: open.password.map(|_| self.revision),
        });
        self.recipes.begin(&open.session, SessionId(self.minted));
    }

    pub(super) fn touch(&mut self, name: &SessionName, ttl: Option<Ttl>) {
        let session = self.live_mut(name);
        session.generation += 1;
        session.ttl = ttl.unwrap_or(session.ttl);
    }

    /// Whoever knows a session by its name alone does not change what its connection counts on.
    pub(super) fn touch_by_name(&mut self, name: &SessionName, ttl: Option<Ttl>) {
        let agreed = self.live_mut(name).password.is_some();
        self.touch(name, if agreed { None } else { ttl });
    }

    pub(super) fn open(&mut self, open: OpenSession) -> Outcome {
        let created = self.live(&open.session).is_none();
        if created && self.end_of(&open.session) == Some(SessionEnd::Expired) {
            return Err(Rejection::SessionExpired { session: open.session });
        }
        if !created {
            let live = self.live(&open.session).unwrap();
            if open.password.is_some() && live.password != open.password {
                return Err(Rejection::NoSession { session: open.session });
            }
            if open.password.is_none() {
                self.touch_by_name(&open.session, open.ttl);
            } else {
                self.touch(&open.session, open.ttl);
                let revision = self.revision;
                self.live_mut(&open.session).attachment = Some(revision);
            }
        } else if self.sessions.len() as u32 >= self.limits.sessions_max {
            return full(Bound::Sessions, self.limits.sessions_max);
        } else {
            self.begin(&open);
        }
        let live = self.live(&open.session).unwrap();
        Ok(Reply::SessionOpened { id: SessionId(live.id), ttl: live.ttl, created })
    }

    pub(super) fn attach_by_id(&mut self, id: SessionId, password: Password, ttl: Ttl) -> Outcome {
        let knows = |s: &&Session| s.id == id.0 && s.password == Some(password);
        let Some(name) = self.sessions.iter().find(knows).map(|s| s.name.clone()) else {
            return Err(Rejection::NoSession { session: SessionName::of(id) });
        };
        self.touch(&name, Some(ttl));
        let revision = self.revision;
        self.live_mut(&name).attachment = Some(revision);
        Ok(Reply::SessionAttached { session: name, ttl })
    }

    pub(super) fn refuse_moved(
        &self,
        name: &SessionName,
        attachment: Option<Revision>,
    ) -> Result<(), Rejection> {
        match attachment {
            Some(at) if self.live(name).unwrap().attachment != Some(at.0) => {
                Err(Rejection::SessionMoved { session: name.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn end(&mut self, name: &SessionName, end: SessionEnd) {
        let id = self.live(name).unwrap().id as i64;
        let own = |node: &&Node| node.stat.ephemeral_owner == id;
        let paths: Vec<_> = self.nodes.iter().filter(own).map(|n| n.path.clone()).collect();
        let contends = |path: &&String| self.find(path).unwrap().place.is_some();
        let locks = paths.iter().filter(contends).filter_map(|p| znode(&parent(p)).as_lock());
        let locks: BTreeSet<_> = locks.collect();
        let cause = match end {
            SessionEnd::Closed => LossCause::SessionClosed,
            SessionEnd::Expired => LossCause::SessionExpired,
        };
        paths.iter().for_each(|path| self.leave(path, cause));
        self.follow_in_recipes();
        self.recipes.end(name, end);
        self.sessions.retain(|session| session.name != *name);
        self.ended.push((name.clone(), end));
        locks.iter().for_each(|lock| self.settle(lock));
    }

    /// A session that was made for one lock ends with its last place.
    pub(super) fn end_if_spent(&mut self, id: u64) {
        let spent = |session: &&Session| session.id == id && session.anonymous;
        let name = self.sessions.iter().find(spent).map(|session| session.name.clone());
        if let Some(name) = name.filter(|_| self.places(id) == 0) {
            self.end(&name, SessionEnd::Closed);
        }
    }
}
