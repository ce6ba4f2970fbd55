//! Joining a queue, leaving it, and the grant: the one place where tokens are minted.
//!
//! Owns promise 1 (compatible holders only), promise 2 (tokens only grow) and promise 4 (no open lock whose first waiter
//! could hold it): every command that changes contenders ends with [`Machine::grant_next`], or joins a lock and is
//! granted at once. Refuses to know why somebody joins or leaves.

use std::sync::Arc;

use holdfast_types::{
    Data, Event, FencingToken, LockName, LossCause, Mode, SessionEnd, SessionId, ZnodePath,
};

use crate::Machine;
use crate::apply::Step;
use crate::contender::{Contender, Hold};
use crate::locks::{Claim, Lock};
use crate::znode::{Acl, Kind, Role, Znode};

impl Machine {
    /// Puts a new contender into a lock's queue, with its znode, and grants the lock if it may hold it now.
    /// The directory exists and all checks are done.
    pub(crate) fn enqueue(
        &mut self,
        lock: &LockName,
        directory: &ZnodePath,
        (data, acl): (Data, Acl),
        mut contender: Contender,
        step: &mut Step<'_>,
    ) -> Arc<Contender> {
        if self.locks.get(lock).is_none() {
            self.locks.enter(lock.clone(), Lock::new(directory.clone()));
        }
        if let Some(indexed) = self.locks.get(lock) {
            let ask = contender.ask();
            contender.rank = indexed.rank_of(ask, step.now, contender.sequence());
            // Who asks for several is granted when it stands in all queues.
            if contender.bundle().is_empty() && indexed.admits(ask, step.now) {
                contender.hold = self.hold_for(lock, &contender, step).map(Box::new);
            }
        }
        self.put_in(lock, directory, (data, acl), contender, step)
    }

    /// Puts a contender into a lock's queue as it is, holding or waiting, with its znode.
    pub(crate) fn put_in(
        &mut self,
        lock: &LockName,
        directory: &ZnodePath,
        (data, acl): (Data, Acl),
        contender: Contender,
        step: &mut Step<'_>,
    ) -> Arc<Contender> {
        let contender = Arc::new(contender);
        let kind = Kind::Ephemeral(contender.session);
        let mut node = Znode::new(kind, data, step.revision, step.now);
        node.role = Role::Contender(Arc::clone(&contender));
        node.acl = acl;
        self.add_node(directory, contender.path.clone(), node, step);
        self.locks.change(lock, |indexed| indexed.put(Arc::clone(&contender)));
        self.locks.claims.insert(Claim::of(lock, &contender));
        self.locks.waits.enter(lock, &contender);
        let remembered = self.remembered_as(lock);
        if let Some(session) = self.sessions.get_mut(contender.session) {
            session.contenders += 1;
            session.left.came_back(&remembered, &contender.owner);
        }
        if let Some(grant) = self.grant_of(lock, &contender, false) {
            step.emit(Event::Granted(grant));
            self.close_after_grant(lock, step);
        }
        contender
    }

    /// Takes a place out of a lock's queue, with its znode; with a waiting member of several go the others. Whoever calls
    /// this grants the next.
    pub(crate) fn leave(&mut self, claim: &Claim, cause: LossCause, step: &mut Step<'_>) {
        let Some(lock) = claim.lock.as_ref() else { return };
        let place = self.locks.get(lock).and_then(|indexed| indexed.contender(&claim.rank));
        let others = place.filter(|place| place.hold.is_none() && !place.bundle().is_empty());
        let others = others.map_or(Vec::new(), |place| self.others_of(lock, place));
        self.leave_one(claim, cause, step);
        for (other, claim) in others {
            self.leave_one(&claim, cause, step);
            step.stale.insert(other);
        }
    }

    fn leave_one(&mut self, claim: &Claim, cause: LossCause, step: &mut Step<'_>) {
        let Some(lock) = claim.lock.clone() else { return };
        let taken = self.locks.change(&lock, |indexed| {
            indexed.take(&claim.rank).map(|contender| (contender, indexed.directory.clone()))
        });
        let Some((contender, directory)) = taken.flatten() else { return };
        self.locks.claims.remove(claim);
        self.locks.waits.leave(&contender);
        self.tree.remove(&directory, &contender.path, step.revision, step.now);
        if self.locks.get(&lock).is_some_and(Lock::is_nothing) {
            self.locks.forget(&lock);
        }
        step.emit(Event::NodeDeleted { path: contender.path.clone() });
        let owner = contender.owner.clone();
        let remembered = self.remembered_as(&lock);
        if let Some(session) = self.sessions.get_mut(claim.session) {
            session.contenders = session.contenders.saturating_sub(1);
            let released = cause == LossCause::Released;
            session.left.end(&remembered, &owner, contender.attempts.newest(), released);
        }
        let (session, ticket) = (contender.session_name.clone(), contender.ticket);
        let Some(hold) = &contender.hold else {
            return step.emit(Event::Left { lock, session, owner, ticket, cause });
        };
        let Hold { token, granted_at, granted_in, .. } = **hold;
        step.emit(Event::Lost {
            lock: lock.clone(),
            session,
            owner,
            ticket,
            token,
            granted_at,
            granted_in,
            cause,
        });
        self.close_after(&lock, &contender, cause, step);
    }

    /// Grants a lock to the first in line as long as that one may hold it beside those who do, and every other lock whose
    /// queue changed with it.
    pub(crate) fn grant_next(&mut self, lock: &LockName, step: &mut Step<'_>) {
        step.stale.insert(lock.clone());
        self.grant_stale(step);
    }

    /// The same for locks whose queues changed on the way.
    pub(crate) fn grant_stale(&mut self, step: &mut Step<'_>) {
        while let Some(lock) = step.stale.pop_first() {
            self.reopen(&lock, step);
            self.upgrade_if_alone(&lock, step);
            while let Some(next) = self.next_of(&lock, step) {
                if next.bundle().is_empty() {
                    self.grant(&lock, &next, step);
                } else {
                    self.grant_members(&next, step);
                }
            }
        }
    }

    /// The first in line, if it may hold now.
    fn next_of(&self, lock: &LockName, step: &Step<'_>) -> Option<Arc<Contender>> {
        let indexed = self.locks.get(lock).filter(|indexed| indexed.is_open(step.now))?;
        let (_, next) = indexed.waiters.get_min()?;
        let tokens = next.bundle().len().max(1) as u64;
        let may_hold = indexed.has_room_for(next.ask())
            && self.locks.tokens_left() >= tokens
            && (next.bundle().is_empty() || self.may_hold_all(next, step.now));
        may_hold.then(|| Arc::clone(next))
    }

    pub(crate) fn grant(&mut self, lock: &LockName, next: &Arc<Contender>, step: &mut Step<'_>) {
        let Some(hold) = self.hold_for(lock, next, step) else { return };
        let granted = Arc::new(Contender { hold: Some(Box::new(hold)), ..(**next).clone() });
        self.locks.change(lock, |indexed| {
            indexed.take(&next.rank);
            indexed.put(Arc::clone(&granted));
        });
        self.locks.waits.leave(next);
        self.note_contender(&granted);
        self.granted(lock, &granted, step);
    }

    /// Says that somebody who waited holds, and does what follows from it.
    pub(crate) fn granted(&mut self, lock: &LockName, granted: &Contender, step: &mut Step<'_>) {
        let directory = self.locks.get(lock).map(|indexed| indexed.directory.clone());
        if let Some(token) = granted.token() {
            self.note_token(directory.as_ref(), token);
        }
        if let Some(grant) = self.grant_of(lock, granted, false) {
            step.emit(Event::Granted(grant));
        }
        self.close_after_grant(lock, step);
    }

    /// The hold that a contender is granted now; `None` if no token is left.
    pub(crate) fn hold_for(
        &mut self,
        lock: &LockName,
        contender: &Contender,
        step: &Step<'_>,
    ) -> Option<Hold> {
        let indexed = self.locks.get(lock);
        let slots = match indexed.map(|indexed| (&indexed.holders, indexed.policy().limit)) {
            Some((holders, Some(_))) => holders.free_slots(contender.terms().permits),
            Some((_, None)) | None => Arc::default(),
        };
        Some(Hold {
            token: self.locks.mint()?,
            granted_at: step.now,
            granted_in: step.revision,
            mode: contender.mode,
            since: step.now,
            slots,
            asked_for: None,
        })
    }

    /// Writes the last token on the directory.
    pub(crate) fn note_token(&mut self, directory: Option<&ZnodePath>, token: FencingToken) {
        let node = directory.and_then(|directory| self.tree.get_mut(directory));
        if let Some(past) = node.and_then(Znode::past_mut) {
            past.last_token = Some(token);
        }
    }

    /// Writes on the directory what its lock's rules are and whether it is closed.
    pub(crate) fn note_lock(&mut self, lock: &LockName) {
        let Some(indexed) = self.locks.get(lock) else { return };
        let (rules, closed) = (indexed.rules.clone(), indexed.closed.clone());
        self.tree.note(&indexed.directory, |past| (past.rules, past.closed) = (rules, closed));
    }

    /// Writes a changed contender on its znode.
    pub(crate) fn note_contender(&mut self, contender: &Arc<Contender>) {
        let role = Role::Contender(Arc::clone(contender));
        let _node = self.tree.rewrite(&contender.path, |node| node.role = role);
    }

    /// Changes a contender in the index and on its znode alike. Its rank stays, and whether it holds.
    pub(crate) fn amend(
        &mut self,
        lock: &LockName,
        before: &Arc<Contender>,
        change: impl FnOnce(&mut Contender),
    ) -> Arc<Contender> {
        let mut contender = (**before).clone();
        change(&mut contender);
        let contender = Arc::new(contender);
        self.replace(lock, before, &contender);
        contender
    }

    /// Puts a contender in the place of itself.
    pub(crate) fn replace(&mut self, lock: &LockName, before: &Contender, after: &Arc<Contender>) {
        self.locks.waits.leave(before);
        self.locks.waits.enter(lock, after);
        self.locks.change(lock, |indexed| indexed.put(Arc::clone(after)));
        self.note_contender(after);
    }

    /// True if a session has no place left.
    pub(crate) fn is_out_of_places(&self, session: SessionId) -> bool {
        self.sessions.get(session).is_some_and(|session| session.contenders == 0)
    }

    /// Ends a session that was made for one lock when it has no place left.
    pub(crate) fn end_if_spent(&mut self, session: SessionId, step: &mut Step<'_>) {
        let anonymous = self.sessions.get(session).is_some_and(|session| session.anonymous);
        if anonymous && self.is_out_of_places(session) {
            self.end_session(session, SessionEnd::Closed, step);
        }
    }
}

/// How a contender of the tree wants to hold: clients of `ZooKeeper` say it by the names they choose, Curator and the C
/// recipe with `__READ__`, kazoo with `__rlock__`.
pub(crate) fn mode_of_name(name: &str) -> Mode {
    let shared = ["__READ__", "__rlock__"].iter().any(|word| name.contains(word));
    if shared { Mode::Shared } else { Mode::Exclusive }
}
