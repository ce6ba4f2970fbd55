//! The index of locks as the znodes alone make it, and that it is the one that is kept.
//!
//! Owns what every line of the index follows from. Refuses to judge it (`locks.rs` does).

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::{SessionId, ZnodePath};

use super::ensure;
use crate::Machine;
use crate::contender::Contender;
use crate::locks::{Claim, Lock, Locks};
use crate::znode::{Kind, Past, Znode};

/// What the znodes say about locks, and how many places each session has.
type Rebuilt = (Locks, BTreeMap<SessionId, u32>);

impl Machine {
    /// The index as the znodes alone make it.
    ///
    /// # Errors
    /// A contender where none can be.
    pub(crate) fn rebuild_locks(&self) -> Result<Rebuilt, String> {
        let mut locks = Locks::new();
        let mut places = BTreeMap::new();
        locks.grants = self.locks.grants;
        for (path, node) in self.tree.iter() {
            if let (Some(past), Some(lock)) = (node.past(), path.as_lock())
                && past.is_of_lock()
            {
                let Past { last_token, rules, closed, .. } = past.clone();
                locks.enter(lock, Lock { last_token, rules, closed, ..Lock::new(path.clone()) });
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
            && contender.sequence() < counter
            && name == Some(&contender.session_name);
        ensure(sound, || format!("{path} and its contender say the same"))?;
        let nowhere = || format!("{path} contends in a directory that is no lock's");
        let lock = directory.as_lock().ok_or_else(nowhere)?;
        // It may be kept for somebody, and never have been granted.
        if locks.get(&lock).is_none() {
            locks.enter(lock.clone(), Lock::new(directory.clone()));
        }
        let last = locks.get(&lock).and_then(|indexed| indexed.last_token);
        let alone = locks.change(&lock, |indexed| {
            let alone = indexed.put(Arc::clone(contender));
            indexed.last_token = last;
            alone
        });
        let alone = alone.ok_or_else(nowhere)?;
        ensure(alone, || format!("{lock} has one contender to a number"))?;
        locks.claims.insert(Claim::of(&lock, contender));
        let alone = locks.waits.enter(&lock, contender);
        ensure(alone, || format!("{path} asked in a revision of its own"))
    }

    pub(super) fn check_index(&self, rebuilt: &Locks) -> Result<(), String> {
        let say = |what: &str| format!("the index of locks is that of the znodes: {what}");
        ensure(self.locks.by_name == rebuilt.by_name, || say("holders and queues"))?;
        ensure(self.locks.claims == rebuilt.claims, || say("claims"))?;
        ensure(self.locks.waits == rebuilt.waits, || say("waits"))?;
        ensure(self.locks.dues == rebuilt.dues, || say("dues"))?;
        ensure(self.locks.delays == rebuilt.delays, || say("delays"))?;
        ensure(self.locks.held == rebuilt.held, || say("locks held"))?;
        ensure(self.locks.waiting == rebuilt.waiting, || say("waiters"))?;
        ensure(self.locks.bundled == rebuilt.bundled, || say("waiters for several"))
    }

    pub(super) fn check_places(&self, places: &BTreeMap<SessionId, u32>) -> Result<(), String> {
        for session in self.sessions.iter() {
            let counted = places.get(&session.id).copied().unwrap_or(0);
            ensure(session.contenders == counted, || {
                format!("session {} counts its places", session.name)
            })?;
        }
        Ok(())
    }
}
