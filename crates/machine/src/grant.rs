//! Joining a queue, leaving it, and the grant: the one place where tokens are minted.
//!
//! Owns promise 1 (one holder), promise 2 (tokens only grow) and promise 4 (no free lock with a live waiter): every
//! command that changes contenders ends with [`Machine::grant_next`], or joins a free lock and is granted at once.
//! Refuses to know why somebody joins or leaves.

use std::sync::Arc;

use holdfast_types::{Data, Event, FencingToken, LockName, LossCause, SessionId, ZnodePath};

use crate::Machine;
use crate::apply::Step;
use crate::contender::{Contender, Hold};
use crate::locks::{Claim, Lock, Locks};
use crate::plant::Plant;
use crate::znode::{Acl, Kind, Role, Znode};

impl Machine {
    /// Puts a new contender at the end of a lock's queue, with its znode, and grants the lock if it is free.
    /// The directory exists and all checks are done. The grant is for the caller to announce.
    pub(crate) fn enqueue(
        &mut self,
        lock: &LockName,
        directory: &ZnodePath,
        (data, acl): (Data, Acl),
        mut contender: Contender,
        step: &mut Step<'_>,
    ) -> Arc<Contender> {
        let free = self.locks.get(lock).is_none_or(|lock| lock.holder.is_none())
            || self.planted(Plant::TwoHolders);
        if free {
            contender.hold = Some(self.mint(step));
        }
        let contender = Arc::new(contender);
        let kind = Kind::Ephemeral(contender.session);
        let mut node = Znode::new(kind, data, step.revision, step.now);
        node.role = Role::Contender(Arc::clone(&contender));
        node.acl = acl;
        self.add_node(directory, contender.path.clone(), node, step);
        self.index(lock, directory, &contender);
        self.locks.claims.insert(Claim::of(lock, &contender));
        self.locks.waits.enter(lock, &contender);
        if let Some(session) = self.sessions.get_mut(contender.session) {
            session.contenders += 1;
            session.came_back(lock, &contender.owner);
        }
        contender
    }

    /// Enters a new contender into the index, as its hold says.
    fn index(&mut self, lock: &LockName, directory: &ZnodePath, contender: &Arc<Contender>) {
        let Locks { by_name, held, waiting, .. } = &mut self.locks;
        let mut put = |indexed: &mut Lock| {
            if let Some(hold) = contender.hold {
                indexed.holder = Some(Arc::clone(contender));
                indexed.last_token = hold.token;
                *held += 1;
            } else {
                indexed.waiters.insert(contender.sequence, Arc::clone(contender));
                *waiting += 1;
            }
        };
        if let Some(indexed) = by_name.get_mut(lock) {
            put(Arc::make_mut(indexed));
        } else {
            let mut new = Lock::new(directory.clone());
            put(&mut new);
            by_name.insert(lock.clone(), Arc::new(new));
        }
    }

    /// Takes a place out of a lock's queue, with its znode. Whoever calls this grants the next.
    pub(crate) fn leave(&mut self, claim: &Claim, cause: LossCause, step: &mut Step<'_>) {
        let Some(lock) = claim.lock.clone() else { return };
        let Some(contender) = self.take_out(&lock, claim.sequence) else { return };
        self.locks.claims.remove(claim);
        self.locks.waits.leave(&contender);
        if let Some(directory) = self.locks.get(&lock).map(|lock| lock.directory.clone()) {
            self.tree.remove(&directory, &contender.path, step.revision, step.now);
        }
        step.emit(Event::NodeDeleted { path: contender.path.clone() });
        let owner = contender.owner.clone();
        if let Some(session) = self.sessions.get_mut(claim.session) {
            session.contenders = session.contenders.saturating_sub(1);
            if cause == LossCause::Released {
                session.gave_up(lock.clone(), owner.clone());
            }
        }
        let (session, ticket) = (contender.session_name.clone(), contender.ticket);
        step.emit(match contender.hold {
            Some(Hold { token, granted_at, granted_in }) => {
                Event::Lost { lock, session, owner, ticket, token, granted_at, granted_in, cause }
            }
            None => Event::Left { lock, session, owner, ticket, cause },
        });
    }

    /// Takes a contender out of the index.
    fn take_out(&mut self, lock: &LockName, sequence: u64) -> Option<Arc<Contender>> {
        let indexed = self.locks.get_mut(lock)?;
        match indexed.holder.take() {
            Some(holder) if holder.sequence == sequence => {
                self.locks.held = self.locks.held.saturating_sub(1);
                Some(holder)
            }
            other => {
                indexed.holder = other;
                let waiter = indexed.waiters.remove(&sequence)?;
                self.locks.waiting = self.locks.waiting.saturating_sub(1);
                Some(waiter)
            }
        }
    }

    /// Grants a lock that nobody holds to the first in line, if there is one.
    pub(crate) fn grant_next(&mut self, lock: &LockName, step: &mut Step<'_>) {
        let Some(indexed) = self.locks.get(lock).filter(|lock| lock.holder.is_none()) else {
            return;
        };
        let waiters = &indexed.waiters;
        let next =
            if self.planted(Plant::LastFirst) { waiters.get_max() } else { waiters.get_min() };
        let Some(next) = next.map(|(_, waiter)| Arc::clone(waiter)) else { return };
        if self.planted(Plant::GrantSkipped) {
            return;
        }
        let directory = indexed.directory.clone();
        let hold = self.mint(step);
        let granted = Arc::new(Contender { hold: Some(hold), ..(*next).clone() });
        if let Some(indexed) = self.locks.get_mut(lock) {
            indexed.waiters.remove(&granted.sequence);
            indexed.holder = Some(Arc::clone(&granted));
            indexed.last_token = hold.token;
        }
        self.locks.waits.leave(&next);
        self.locks.waiting = self.locks.waiting.saturating_sub(1);
        self.locks.held += 1;
        self.note_token(&directory, hold.token);
        self.note_contender(&granted);
        if let Some(grant) = self.grant_of(lock, &granted, false) {
            step.emit(Event::Granted(grant));
        }
    }

    /// The next token. `Machine::guard_tokens` has made sure that there is one.
    pub(crate) fn mint(&mut self, step: &Step<'_>) -> Hold {
        if !self.planted(Plant::TokenRepeats) || self.locks.grants == 0 {
            self.locks.grants += 1;
        }
        let token = FencingToken(self.locks.grants);
        Hold { token, granted_at: step.now, granted_in: step.revision }
    }

    /// Writes the last token on the directory.
    fn note_token(&mut self, directory: &ZnodePath, token: FencingToken) {
        if let Some(past) = self.tree.get_mut(directory).and_then(Znode::past_mut) {
            past.last_token = Some(token);
        }
    }

    /// Writes a changed contender on its znode.
    fn note_contender(&mut self, contender: &Arc<Contender>) {
        if let Some(node) = self.tree.get_mut(&contender.path) {
            node.role = Role::Contender(Arc::clone(contender));
        }
    }

    /// Changes a contender in the index and on its znode alike.
    pub(crate) fn amend(
        &mut self,
        lock: &LockName,
        sequence: u64,
        change: impl FnOnce(&mut Contender),
    ) -> Option<Arc<Contender>> {
        let before = Arc::clone(self.locks.get(lock)?.contender(sequence)?);
        let mut contender = (*before).clone();
        change(&mut contender);
        let contender = Arc::new(contender);
        self.locks.waits.leave(&before);
        self.locks.waits.enter(lock, &contender);
        let indexed = self.locks.get_mut(lock)?;
        match &mut indexed.holder {
            Some(holder) if holder.sequence == sequence => *holder = Arc::clone(&contender),
            Some(_) | None => drop(indexed.waiters.insert(sequence, Arc::clone(&contender))),
        }
        self.note_contender(&contender);
        Some(contender)
    }

    /// True if a session has no place left.
    pub(crate) fn is_out_of_places(&self, session: SessionId) -> bool {
        self.sessions.get(session).is_some_and(|session| session.contenders == 0)
    }
}
