//! Invariants of every lock: compatible holders, the grant of the first waiter, tokens, and the order of the queue. The index
//! equals the one that is rebuilt from the znodes, also to load a snapshot.
//!
//! The first ones are promises 1, 2 and 4. The state does not store the policy at the time of a grant. A limit that was lowered
//! later is therefore no violation here; the model in the tests checks that case.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::{LockName, LockPolicy, Mode, Revision, SessionId, ZnodePath};

use crate::Machine;
use crate::invariants::ensure;
use crate::lock::entry_name::EntryRecipe;
use crate::lock::index::{Lock, LockIndex, SessionLockKey};
use crate::lock::lock_entry::LockEntry;
use crate::lock::policy::check_servable;
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind};

impl Machine {
    pub(crate) fn check_locks(&self) -> Result<(), String> {
        let mut tokens = BTreeSet::new();
        for (name, lock) in self.locks.range(Bound::Unbounded) {
            self.check_lock(name, lock)?;
            for holder in lock.holders.iter() {
                // Promise 2: no two holds have the same token.
                ensure(tokens.insert(holder.token()), || {
                    format!("two holds have the same token, one of them on {name}")
                })?;
            }
        }
        Ok(())
    }

    fn check_lock(&self, name: &LockName, lock: &Lock) -> Result<(), String> {
        ensure(lock.last_token.is_none_or(|t| t.0 >= 1 && t.0 <= self.locks.grants()), || {
            format!("the last token of {name} was never minted")
        })?;
        let first = lock.waiters.get_min();
        let kept = first.is_none_or(|(_, first)| first.is_of_multi_lock());
        let known = lock.last_token.is_some() || (lock.holders.is_empty() && kept);
        ensure(known, || format!("{name} has a holder or a waiter, but was never granted"))?;
        let mut entries = lock.holders.iter().chain(lock.waiters.values());
        ensure(entries.all(|entry| entry.mode == entry.claims.mode()), || {
            format!("an entry of {name} does not have the strongest mode of its claims")
        })?;
        check_all_servable(name, lock)?;
        lock.holders.iter().try_for_each(|holder| self.check_holder(name, lock, holder))?;
        check_compatible(name, lock)?;
        self.check_turn(name, lock)?;
        self.check_multi_locks(name, lock)?;
        check_order(name, lock)
    }

    fn check_holder(&self, name: &LockName, lock: &Lock, holder: &LockEntry) -> Result<(), String> {
        let Some(hold) = holder.hold.as_deref() else {
            return Err(format!("a holder of {name} has no hold"));
        };
        let sound = Some(hold.token) <= lock.last_token
            && (1..=hold.token.0).contains(&hold.first_token.0)
            && in_time(hold.granted_in, holder, self.revision)
            && hold.since <= hold.granted_at
            && hold
                .release_request
                .as_ref()
                .is_none_or(|request| request.requested_at <= request.deadline);
        ensure(sound, || format!("a holder of {name} has an impossible token, revision or stamp"))?;
        let converts = hold.mode == holder.mode
            || (hold.mode == Mode::Upgradable && holder.mode == Mode::Exclusive);
        ensure(converts, || format!("a holder of {name} waits for an impossible conversion"))?;
        let waits = holder.claims.as_slice().iter().any(|claim| claim.before.is_some());
        ensure(!waits || holder.converts(), || {
            format!("a claim of a holder of {name} waits, but the holder does not")
        })?;
        let slots = hold.slots.len();
        ensure(hold.slots.is_sorted_by(|a, b| a < b), || {
            format!("a holder of {name} has unsorted or repeated slots")
        })?;
        ensure(slots == 0 || u32::try_from(slots) == Ok(holder.permits), || {
            format!("a holder of {name} has more or fewer slots than permits")
        })?;
        // No waiter ranks before the holder if it was queued before the grant. An upgrade is exempt.
        let overtaken = lock.waiters.range(..holder.rank).any(|(_, waiter)| {
            waiter.ticket.0 < hold.granted_in.0 && holder.requested_in.0 == holder.ticket.0
        });
        ensure(!overtaken, || format!("the holder of {name} overtook a waiter"))
    }
}

impl Machine {
    /// Promise 4: without a cooldown, no first waiter waits for a lock that it could hold, together with all locks of
    /// its multi-lock.
    fn check_turn(&self, name: &LockName, lock: &Lock) -> Result<(), String> {
        let is_free_for = |lock: &Lock, first: &LockEntry| {
            lock.cooldowns.is_none() && lock.has_room_for(first.request())
        };
        let first = lock.waiters.get_min().map(|(_, first)| first);
        let lost = first.is_some_and(|first| {
            is_free_for(lock, first)
                && self.locks.tokens_left() >= first.multi_lock().count().max(1) as u64
                && first.multi_lock().all(|other| {
                    self.locks.get(other).is_some_and(|other| {
                        let there = other.waiters.get_min().map(|(_, there)| there);
                        there.is_some_and(|t| t.same_multi_lock(first) && is_free_for(other, t))
                    })
                })
        });
        ensure(!lost, || {
            format!("{name} could be granted to its first waiter, which still waits")
        })?;
        let is_http = |waiter: &&Arc<LockEntry>| waiter.recipe() == EntryRecipe::Own;
        ensure(
            lock.waiters.values().filter(is_http).count() == lock.http_waiters as usize,
            || format!("{name} does not have {} waiters of HTTP", lock.http_waiters),
        )?;
        let stuck = lock.holders.upgrading().is_some()
            && lock.holders.len() == 1
            && self.locks.tokens_left() > 0;
        ensure(!stuck, || format!("the only holder of {name} still waits for its upgrade"))
    }

    /// The entries of a multi-lock are all held or all waiting. A held entry may have been released alone.
    fn check_multi_locks(&self, name: &LockName, lock: &Lock) -> Result<(), String> {
        let waiting = lock.waiters.values().filter(|_| lock.multi_waiters > 0);
        for entry in lock.holders.iter().chain(waiting).filter(|p| p.is_of_multi_lock()) {
            let own = entry.multi_lock().count() > 1 && entry.multi_lock().any(|lock| lock == name);
            ensure(own && entry.never_overtaken, || {
                format!("a multi-lock entry in {name} does not name the lock")
            })?;
            let others = self.other_entries_of_multi_lock(name, entry);
            let same = |key: &SessionLockKey| {
                let other = self.locks.get(&key.lock).and_then(|lock| lock.entry(&key.rank));
                other.is_some_and(|other| other.hold.is_some() == entry.hold.is_some())
            };
            let all = entry.hold.is_some() || others.len() + 1 == entry.multi_lock().count();
            ensure(all && others.iter().all(same), || {
                format!("a multi-lock with {name} is held in some locks and waits in others")
            })?;
        }
        Ok(())
    }
}

/// The policy admits the request of each entry of the HTTP API. A holder may have more permits than a limit that was lowered
/// later.
fn check_all_servable(name: &LockName, lock: &Lock) -> Result<(), String> {
    let mut entries = lock.holders.iter().chain(lock.waiters.values());
    let all = entries.all(|entry| {
        let held = entry.hold.as_ref().map_or(0, |_| entry.permits);
        let limit = lock.policy().limit.map(|limit| limit.max(held));
        let policy = LockPolicy { limit, ..*lock.policy() };
        entry.recipe() != EntryRecipe::Own || check_servable(&policy, entry.request()).is_ok()
    });
    ensure(all, || format!("{name} never grants the request of one of its entries"))
}

/// Promise 1: an exclusive holder is the only one, at most one holder is upgradable, and no slot is held twice.
fn check_compatible(name: &LockName, lock: &Lock) -> Result<(), String> {
    let modes = |mode| {
        let hold = |holder: &&Arc<LockEntry>| holder.hold.as_ref().map(|h| h.mode);
        lock.holders.iter().filter(|holder| hold(holder) == Some(mode)).count()
    };
    if lock.policy().limit.is_none() {
        let alone = modes(Mode::Exclusive) == 0 || lock.holders.len() == 1;
        ensure(alone, || format!("{name} has an exclusive holder beside another holder"))?;
        ensure(modes(Mode::Upgradable) <= 1, || format!("{name} has two upgradable holders"))?;
    }
    let mut slots = BTreeSet::new();
    let held = |holder: &Arc<LockEntry>| holder.hold.as_ref().map(|h| h.slots.clone());
    let own = lock
        .holders
        .iter()
        .filter_map(held)
        .all(|held| held.iter().all(|slot| slots.insert(*slot)));
    ensure(own, || format!("two holders of {name} have the same slot"))
}

/// The queue is in rank order, and no entry that must not be overtaken was overtaken.
fn check_order(name: &LockName, lock: &Lock) -> Result<(), String> {
    let ranked = lock.waiters.iter().all(|(rank, waiter)| *rank == waiter.rank);
    let never_overtaken = lock.waiters.values().filter(|waiter| waiter.never_overtaken).count()
        == lock.never_overtaken.len();
    ensure(ranked && never_overtaken, || format!("the queue of {name} is not in rank order"))?;
    let (mut latest, mut last_fixed) = (None, None);
    for waiter in lock.waiters.values() {
        let sequence = Some(waiter.sequence());
        ensure(sequence > last_fixed && (!waiter.never_overtaken || sequence > latest), || {
            format!("a waiter of {name} overtook a ZooKeeper client or a multi-lock")
        })?;
        latest = latest.max(sequence);
        if waiter.never_overtaken {
            last_fixed = sequence;
        }
    }
    Ok(())
}

fn in_time(granted_in: Revision, holder: &LockEntry, now: Revision) -> bool {
    granted_in.0 >= holder.ticket.0 && granted_in <= now
}

/// The index that the znodes describe, and the number of queue entries of each session.
type Rebuilt = (LockIndex, BTreeMap<SessionId, u32>);

impl Machine {
    /// Builds the index from the znodes alone.
    ///
    /// # Errors
    /// An entry contradicts its znode, lies outside a lock's directory, or repeats a sequence number or an acquire
    /// revision.
    pub(crate) fn rebuild_locks(&self) -> Result<Rebuilt, String> {
        let mut locks = self.locks.without_locks();
        let mut counts = BTreeMap::new();
        for (path, node) in self.tree.iter() {
            if let (Some(lock_directory), Some(lock)) = (node.lock_directory(), path.as_lock())
                && lock_directory.is_of_lock()
            {
                let LockDirectory { last_token, stored_policy, cooldowns, .. } =
                    lock_directory.clone();
                locks.restore_lock(
                    lock,
                    Lock { last_token, stored_policy, cooldowns, ..Lock::new(path.clone()) },
                );
            }
        }
        for (path, node) in self.tree.iter() {
            if let Some(entry) = node.entry() {
                self.rebuild_entry(&mut locks, path, node, entry)?;
                *counts.entry(entry.session).or_default() += 1;
            }
        }
        Ok((locks, counts))
    }

    fn rebuild_entry(
        &self,
        locks: &mut LockIndex,
        path: &ZnodePath,
        node: &Znode,
        entry: &Arc<LockEntry>,
    ) -> Result<(), String> {
        let Some(directory) = path.parent() else {
            return Err("the root is a queue entry".to_owned());
        };
        let counter = self.tree.get(&directory).map_or(0, Znode::counter);
        let name = self.sessions.get(entry.session).map(|session| &session.name);
        let sound = node.kind == ZnodeKind::Ephemeral(entry.session)
            && entry.path == *path
            && entry.ticket.0 == node.czxid.0
            && entry.since == node.ctime
            && entry.requested_in >= node.czxid
            && entry.requested_in <= self.revision
            && entry.sequence() < counter
            && name == Some(&entry.session_name);
        ensure(sound, || format!("{path} contradicts its queue entry"))?;
        let outside = || format!("queue entry {path} is outside a lock's directory");
        let lock = directory.as_lock().ok_or_else(outside)?;
        let own = locks.restore_entry(&lock, &directory, entry);
        ensure(own, || format!("{path} repeats a sequence number or an acquire revision"))
    }

    pub(crate) fn check_index(&self, rebuilt: &LockIndex) -> Result<(), String> {
        match self.locks.difference(rebuilt) {
            Some(part) => Err(format!("the lock index differs from the znodes: {part}")),
            None => Ok(()),
        }
    }

    pub(crate) fn check_queue_entry_counts(
        &self,
        counts: &BTreeMap<SessionId, u32>,
    ) -> Result<(), String> {
        for session in self.sessions.iter() {
            let counted = counts.get(&session.id).copied().unwrap_or(0);
            ensure(session.queue_entries == counted, || {
                format!("session {} has a wrong number of queue entries", session.name)
            })?;
        }
        Ok(())
    }
}
