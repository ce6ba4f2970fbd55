//! The sentences that hold after every command, as code.
//!
//! Owns the check that tests and the simulator run after each apply, and that every snapshot passes on its way in.
//! The index of locks is rebuilt from the znodes alone and compared. Walks the whole state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_types::{FencingToken, LockName, Revision, SessionEnd, SessionId, ZnodePath};

use crate::Machine;
use crate::contender::Contender;
use crate::create::COUNTER_END;
use crate::locks::{Claim, Lock, Locks};
use crate::sessions::{Named, Session};
use crate::tree::{BUILT_IN, holds_locks};
use crate::znode::{Kind, Past, Znode};

/// What the znodes say about locks, and how many places each session has.
type Rebuilt = (Locks, BTreeMap<SessionId, u32>);

impl Machine {
    /// Checks every sentence.
    ///
    /// # Errors
    /// The first sentence that does not hold, with the place where it does not.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_counters()?;
        self.check_sessions()?;
        self.check_tree()?;
        self.check_orders()?;
        let (rebuilt, places) = self.rebuild_locks()?;
        self.check_index(&rebuilt)?;
        self.check_places(&places)?;
        self.check_locks()?;
        self.check_recipes()
    }

    fn check_counters(&self) -> Result<(), String> {
        let (sessions, tombstones) = self.sessions.counters();
        for counter in [self.revision.0, sessions, tombstones] {
            ensure(counter <= COUNTER_END, || "a counter is beyond its end".to_owned())?;
        }
        ensure(self.locks.grants < FencingToken::END, || "tokens stay below 2^53".to_owned())
    }

    fn check_sessions(&self) -> Result<(), String> {
        let (minted, buried) = self.sessions.counters();
        let mut names = 0;
        for session in self.sessions.iter() {
            let Session { id, name, attachment, .. }: &Session = session;
            names += 1;
            let attached = attachment.is_none_or(|at| at.0 > 0 && at <= self.revision);
            ensure(attached && attachment.is_some() == session.password.is_some(), || {
                format!("session {name} was attached if it has a password")
            })?;
            ensure(self.sessions.named(name) == Some(Named::Open(*id)), || {
                format!("session {name} is not found by its name")
            })?;
            ensure(id.0 >= 1 && id.0 <= minted && session.generation <= COUNTER_END, || {
                format!("session {name} has a number that was never given")
            })?;
        }
        for end in [SessionEnd::Expired, SessionEnd::Closed] {
            for (number, tombstone) in self.sessions.tombstones_after(end, 0) {
                names += 1;
                let name = &tombstone.name;
                let found = self.sessions.named(name) == Some(Named::Ended { end, number });
                ensure(found, || format!("the tombstone of {name} is not found by its name"))?;
                ensure(number <= buried, || "a tombstone has a number never given".to_owned())?;
            }
        }
        let known = self.sessions.names_after(None).count();
        ensure(known == names && names == self.sessions.len() + self.sessions.tombstones(), || {
            "a name stands for nothing".to_owned()
        })
    }

    fn check_tree(&self) -> Result<(), String> {
        for path in BUILT_IN.iter().filter_map(|path| ZnodePath::new(path).ok()) {
            let kind = self.tree.get(&path).map(|node| node.kind);
            ensure(kind == Some(Kind::Persistent), || format!("{path} is built in"))?;
        }
        let mut children: BTreeMap<ZnodePath, u32> = BTreeMap::new();
        for (path, node) in self.tree.iter() {
            self.check_node(path, node)?;
            if let Some(parent) = path.parent() {
                let parent_node = self.tree.get(&parent);
                ensure(parent_node.is_some_and(|parent| !parent.is_ephemeral()), || {
                    format!("{path} has a parent, which is not ephemeral")
                })?;
                *children.entry(parent).or_default() += 1;
            }
        }
        for (path, node) in self.tree.iter() {
            let counted = children.get(path).copied().unwrap_or(0);
            ensure(node.children == counted, || format!("{path} counts its children"))?;
        }
        Ok(())
    }

    fn check_node(&self, path: &ZnodePath, node: &Znode) -> Result<(), String> {
        if let Kind::Ephemeral(session) = node.kind {
            // Promise 8: ephemerals die with their session.
            ensure(self.sessions.get(session).is_some(), || format!("{path} has a live owner"))?;
        }
        let revisions = [node.czxid, node.mzxid, node.pzxid];
        ensure(revisions.iter().all(|r| *r >= node.czxid && *r <= self.revision), || {
            format!("the revisions of {path} lie between its creation and now")
        })?;
        let built_in = BUILT_IN.contains(&path.as_str());
        ensure(built_in || node.czxid.0 > 0, || format!("{path} was created by a command"))?;
        ensure(node.created <= COUNTER_END, || format!("{path} counts beyond the end"))?;
        ensure(node.past().is_none_or(|past| self.is_a_past(path, node, past)), || {
            format!("{path} cannot have the past of a directory of locks that it has")
        })
    }

    /// Only directories of locks have a past, and it is one that they can have had.
    fn is_a_past(&self, path: &ZnodePath, node: &Znode, past: &Past) -> bool {
        let Past { base, floor, last_token } = past;
        // A directory began to count where the one above it said, which since then only went up.
        let above = path.parent().filter(holds_locks);
        let above = above.and_then(|parent| self.tree.get(&parent)).map_or(0, Znode::floor);
        *past != Past::default()
            && holds_locks(path)
            && !node.is_ephemeral()
            && base <= floor
            && *base <= above
            && *floor <= COUNTER_END
            && node.counter() <= COUNTER_END
            && (last_token.is_none() || path.as_lock().is_some())
    }

    /// The orders over the tree are those that the nodes give, and what is used of quotas is what the nodes have.
    fn check_orders(&self) -> Result<(), String> {
        let (orders, quotas) = self.tree.rebuilt();
        let (kept_orders, kept_quotas) = self.tree.kept();
        ensure(*kept_orders == orders, || {
            "the orders of the tree are those of its nodes".to_owned()
        })?;
        ensure(*kept_quotas == quotas, || "quotas count what the nodes have".to_owned())
    }

    /// The index as the znodes alone make it.
    ///
    /// # Errors
    /// A contender where none can be.
    pub(crate) fn rebuild_locks(&self) -> Result<Rebuilt, String> {
        let mut locks = Locks::new();
        let mut places = BTreeMap::new();
        locks.grants = self.locks.grants;
        for (path, node) in self.tree.iter() {
            if let (Some(token), Some(lock)) = (node.last_token(), path.as_lock()) {
                let new = Lock { last_token: token, ..Lock::new(path.clone()) };
                locks.by_name.insert(lock, Arc::new(new));
            }
        }
        for (path, node) in self.tree.iter() {
            if let Some(contender) = node.contender() {
                self.rebuild_contender(&mut locks, path, node, contender)?;
                *places.entry(contender.session).or_default() += 1;
            }
        }
        Ok((locks, places))
    }

    fn rebuild_contender(
        &self,
        locks: &mut Locks,
        path: &ZnodePath,
        node: &Znode,
        contender: &Arc<Contender>,
    ) -> Result<(), String> {
        let Some(directory) = path.parent() else { return Err("the root contends".to_owned()) };
        let counter = self.tree.get(&directory).map_or(0, Znode::counter);
        let name = self.sessions.get(contender.session).map(|session| &session.name);
        let sound = node.kind == Kind::Ephemeral(contender.session)
            && contender.path == *path
            && contender.ticket.0 == node.czxid.0
            && contender.since == node.ctime
            && contender.asked >= node.czxid
            && contender.asked <= self.revision
            && contender.sequence < counter
            && name == Some(&contender.session_name);
        ensure(sound, || format!("{path} and its contender say the same"))?;
        let lock = directory.as_lock();
        let Some((lock, indexed)) = lock.and_then(|lock| {
            let indexed = locks.by_name.get_mut(&lock).map(Arc::make_mut)?;
            Some((lock, indexed))
        }) else {
            return Err(format!("{path} contends in a directory that is no lock's"));
        };
        let (waits, twice) = match contender.hold {
            // Promise 1: one holder.
            Some(_) => (0, indexed.holder.replace(Arc::clone(contender)).is_some()),
            None => {
                (1, indexed.waiters.insert(contender.sequence, Arc::clone(contender)).is_some())
            }
        };
        ensure(!twice, || format!("{lock} has one holder, and one waiter to a number"))?;
        locks.waiting += waits;
        locks.held += 1 - waits;
        locks.claims.insert(Claim::of(&lock, contender));
        let alone = locks.waits.enter(&lock, contender);
        ensure(alone, || format!("{path} asked in a revision of its own"))
    }

    fn check_index(&self, rebuilt: &Locks) -> Result<(), String> {
        let say = |what: &str| format!("the index of locks is that of the znodes: {what}");
        ensure(self.locks.by_name == rebuilt.by_name, || say("holders and queues"))?;
        ensure(self.locks.claims == rebuilt.claims, || say("claims"))?;
        ensure(self.locks.waits == rebuilt.waits, || say("waits"))?;
        ensure(self.locks.held == rebuilt.held, || say("locks held"))?;
        ensure(self.locks.waiting == rebuilt.waiting, || say("waiters"))
    }

    fn check_places(&self, places: &BTreeMap<SessionId, u32>) -> Result<(), String> {
        for session in self.sessions.iter() {
            let counted = places.get(&session.id).copied().unwrap_or(0);
            ensure(session.contenders == counted, || {
                format!("session {} counts its places", session.name)
            })?;
        }
        Ok(())
    }

    fn check_locks(&self) -> Result<(), String> {
        let mut tokens = BTreeSet::new();
        for (name, lock) in &self.locks.by_name {
            self.check_lock(name, lock)?;
            if let Some(hold) = lock.holder.as_ref().and_then(|holder| holder.hold) {
                // Promise 2: no token twice.
                ensure(tokens.insert(hold.token), || format!("{name} has a token of its own"))?;
            }
        }
        Ok(())
    }

    fn check_lock(&self, name: &LockName, lock: &Lock) -> Result<(), String> {
        let Lock { last_token, holder, waiters, .. } = lock;
        // Promise 4: a free lock with a live waiter does not exist.
        ensure(holder.is_some() || waiters.is_empty(), || {
            format!("{name} is free, and waited for")
        })?;
        ensure(last_token.0 >= 1 && last_token.0 <= self.locks.grants, || {
            format!("the last token of {name} was minted")
        })?;
        if let Some(holder) = holder {
            let hold = holder.hold;
            let sound = hold.is_some_and(|hold| {
                hold.token == *last_token && in_time(hold.granted_in, holder, self.revision)
            });
            ensure(sound, || format!("the holder of {name} has the last token minted for it"))?;
            // FIFO: nobody who came before the holder still waits.
            let overtaken = waiters.get_min().is_some_and(|(first, _)| *first < holder.sequence);
            ensure(!overtaken, || format!("the holder of {name} came before its waiters"))?;
        }
        let in_order = waiters
            .values()
            .zip(waiters.values().skip(1))
            .all(|(earlier, later)| earlier.ticket <= later.ticket);
        ensure(in_order, || format!("the queue of {name} is in the order of its tickets"))
    }
}

fn in_time(granted_in: Revision, holder: &Contender, now: Revision) -> bool {
    granted_in.0 >= holder.ticket.0 && granted_in <= now
}

pub(crate) fn ensure(holds: bool, sentence: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(sentence()) }
}
