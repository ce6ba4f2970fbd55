//! The index over the directories of locks: holders, queues, timers, and the entries of each session.
//!
//! The index duplicates the tree: [`LockIndex::restore_lock`] and [`LockIndex::restore_entry`] rebuild every field from
//! the znodes. Only functions of this file change a lock or an entry, and each writes the znode in the same step.
//! Callers check the bounds: `waiters_per_lock_max` waiters in a queue, `queue_entries_per_session_max` entries of a
//! session. A lock has one timer.

mod lock;

pub(crate) use lock::{EntryPosition, Lock, StoredPolicy};

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use holdfast_types::{
    FencingToken, LockName, LockPolicy, NamespaceName, Owner, SessionId, SessionName, Stamp,
    Ticket, ZnodePath,
};
use imbl::{OrdMap, OrdSet};

use crate::context::ApplyContext;
use crate::lock::cooldown::Cooldowns;
use crate::lock::lock_entry::{AnyShardWaiter, LockEntry};
use crate::lock::rank::{GrantRequest, Rank};
use crate::lock::wait_deadlines::WaitDeadlines;
use crate::per_namespace::PerNamespace;
use crate::tree::Tree;
use crate::tree::znode::{Acl, Znode, ZnodeRole};

/// The key of an entry among the entries of its session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionLockKey {
    pub(crate) session: SessionId,
    pub(crate) lock: LockName,
    pub(crate) owner: Owner,
    pub(crate) ticket: Ticket,
    pub(crate) rank: Rank,
}

impl SessionLockKey {
    pub(crate) fn of(lock: &LockName, entry: &LockEntry) -> Self {
        Self {
            session: entry.session,
            lock: lock.clone(),
            owner: entry.owner.clone(),
            ticket: entry.ticket,
            rank: entry.rank,
        }
    }
}

/// The start of a range of keys: directly before the first key that compares as equal or greater. The function compares
/// the start with a key.
struct RangeStart<F>(F);

impl<F, K> Equivalent<K> for RangeStart<F> {
    fn equivalent(&self, _: &K) -> bool {
        false
    }
}

impl<F: Fn(&K) -> Ordering, K> Comparable<K> for RangeStart<F> {
    fn compare(&self, key: &K) -> Ordering {
        (self.0)(key).then(Ordering::Less)
    }
}

/// All locks: an index over the directories and entries in the tree, and the token counter.
///
/// Invariant: the index equals the one that [`LockIndex::restore_lock`] and [`LockIndex::restore_entry`] build from the
/// znodes alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockIndex {
    by_name: OrdMap<LockName, Arc<Lock>>,
    keys: OrdSet<SessionLockKey>,
    /// Waits with a deadline.
    waits: WaitDeadlines,
    /// Locks with a timer, by the stamp of the earliest one.
    dues: OrdSet<(Stamp, LockName)>,
    /// Locks with a lock delay, by the lost sessions that can end it.
    delays: OrdSet<(SessionName, LockName)>,
    /// Locks whose policy raises an alarm.
    alarmed: OrdSet<LockName>,
    /// The number of locks with a holder.
    held: u64,
    /// The number of waiters of all locks.
    waiting: u64,
    /// The number of waiters that are multi-lock entries.
    multi_waiters: u64,
    any_shard_waiters: OrdSet<AnyShardWaiter>,
    /// The number of tokens minted so far, which is the value of the last one.
    grants: u64,
    namespaces: PerNamespace<NamespaceLocks>,
}

/// The locks of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceLocks {
    /// With a holder or a waiter.
    pub(crate) locks: u64,
    /// Holders and waiters.
    pub(crate) entries: u64,
}

/// The share of one lock in the counters and timers over all locks; without a lock, nothing.
#[derive(Debug, Default)]
struct Tally {
    held: u64,
    entries: u64,
    waiting: u64,
    multi_waiters: u64,
    due: Option<Stamp>,
    cooldowns: Option<Arc<Cooldowns>>,
}

impl Tally {
    fn of(lock: &Lock) -> Self {
        Self {
            held: u64::from(!lock.holders.is_empty()),
            entries: (lock.holders.len() + lock.waiters.len()) as u64,
            waiting: lock.waiters.len() as u64,
            multi_waiters: lock.multi_waiters.into(),
            due: lock.due(),
            cooldowns: lock.cooldowns.clone(),
        }
    }

    /// The sessions of the lost holds that can end its lock delay.
    fn lost(&self) -> impl Iterator<Item = &SessionName> {
        let lost = self.cooldowns.iter().flat_map(|cooldowns| cooldowns.lost());
        lost.map(|hold| &hold.session)
    }
}

impl LockIndex {
    /// Creates an index without locks, after `grants` minted tokens.
    pub(crate) fn new(grants: u64) -> Self {
        Self { grants, ..Self::default() }
    }

    /// The number of locks with a holder.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// The number of waiters of all locks.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(crate) fn has_any_shard_waiter(&self) -> bool {
        !self.any_shard_waiters.is_empty()
    }

    /// The first waiter for any shard of a lock, with the shard in whose queue it waits.
    pub(crate) fn first_for_any_shard(
        &self,
        sharded: &LockName,
    ) -> Option<(&LockName, &Arc<LockEntry>)> {
        let start = RangeStart(|waiter: &AnyShardWaiter| sharded.cmp(&waiter.sharded));
        let first = self.any_shard_waiters.range(start..).next();
        let first = first.filter(|waiter| waiter.sharded == *sharded)?;
        Some((&first.shard, self.get(&first.shard)?.waiters.get(&first.rank)?))
    }

    /// The number of tokens minted so far, which is the value of the last one.
    pub(crate) fn grants(&self) -> u64 {
        self.grants
    }

    /// Locks in name order, from a bound on.
    pub(crate) fn range(
        &self,
        start: Bound<&str>,
    ) -> impl Iterator<Item = (&LockName, &Arc<Lock>)> {
        self.by_name.range::<_, str>((start, Bound::Unbounded))
    }

    /// A lock, with its name in the index.
    pub(crate) fn named(&self, name: &LockName) -> Option<(&LockName, &Arc<Lock>)> {
        self.by_name.get_key_value(name)
    }

    pub(crate) fn waits(&self) -> &WaitDeadlines {
        &self.waits
    }

    /// Locks with a timer that expires at or before a stamp, in expiry order.
    pub(crate) fn timers_until(&self, stamp: Stamp) -> impl Iterator<Item = &LockName> {
        self.dues.iter().take_while(move |(due, _)| *due <= stamp).map(|(_, lock)| lock)
    }

    /// The stamp at which the next timer of any lock expires.
    pub(crate) fn next_timer(&self) -> Option<Stamp> {
        self.dues.get_min().map(|(due, _)| *due)
    }

    /// Adds an entry, held or waiting, and its znode. Returns the quotas whose soft limit this exceeds.
    pub(crate) fn enter(
        &mut self,
        tree: &mut Tree,
        lock: &LockName,
        entry: &Arc<LockEntry>,
        node: Znode,
    ) -> Vec<ZnodePath> {
        let indexed = self.get(lock).map(|indexed| indexed.directory.clone());
        let directory = indexed.or_else(|| entry.path.parent()).unwrap_or_else(ZnodePath::root);
        let node = Znode { role: ZnodeRole::LockEntry(Arc::clone(entry)), ..node };
        let exceeded = tree.insert(&directory, entry.path.clone(), node);
        self.index_entry(lock, &directory, entry, Lock::put_granted);
        exceeded
    }

    /// Removes an entry and its znode. Also removes the lock if it has no other state to keep. Returns the entry, and the
    /// access list of its znode.
    pub(crate) fn leave(
        &mut self,
        tree: &mut Tree,
        key: &SessionLockKey,
        ctx: &ApplyContext<'_>,
    ) -> Option<(Arc<LockEntry>, Acl)> {
        let lock = &key.lock;
        let taken = self.change(lock, |indexed| {
            indexed.take(&key.rank).map(|entry| (entry, indexed.directory.clone()))
        });
        let (entry, directory) = taken.flatten()?;
        self.keys.remove(key);
        self.waits.leave(&entry);
        self.remove_any_shard_waiter(lock, &entry);
        let acl = tree.remove(&directory, &entry.path, ctx.revision, ctx.now);
        if self.get(lock).is_some_and(Lock::is_forgettable) {
            self.forget(lock);
        }
        Some((entry, acl))
    }

    /// Replaces an entry by its next state, in the index and on its znode. A new token is also stored on the directory.
    pub(crate) fn replace(
        &mut self,
        tree: &mut Tree,
        lock: &LockName,
        before: &LockEntry,
        after: &Arc<LockEntry>,
    ) {
        self.waits.leave(before);
        self.waits.enter(lock, after);
        self.remove_any_shard_waiter(lock, before);
        self.any_shard_waiters.extend(AnyShardWaiter::of(lock, after));
        if before.rank != after.rank {
            self.keys.remove(&SessionLockKey::of(lock, before));
            self.keys.insert(SessionLockKey::of(lock, after));
        }
        let granted = after.token().filter(|token| before.token() != Some(*token));
        let directory = self.change(lock, |indexed| {
            indexed.take(&before.rank);
            indexed.put_granted(Arc::clone(after));
            indexed.directory.clone()
        });
        let role = ZnodeRole::LockEntry(Arc::clone(after));
        let _node = tree.rewrite(&after.path, |node| node.role = role);
        if let (Some(directory), Some(token)) = (directory, granted) {
            tree.update_lock_directory(&directory, |lock_directory| {
                lock_directory.last_token = Some(token);
            });
        }
    }

    /// Sets the policy of a lock. A lock with the default policy and no other state leaves the index.
    pub(crate) fn set_policy(
        &mut self,
        tree: &mut Tree,
        lock: &LockName,
        directory: &ZnodePath,
        stored_policy: StoredPolicy,
    ) {
        if self.get(lock).is_none() {
            self.restore_lock(lock.clone(), Lock::new(directory.clone()));
        }
        let is_default = stored_policy.policy == LockPolicy::DEFAULT;
        let stored_policy = (!is_default).then(|| Arc::new(stored_policy));
        tree.update_lock_directory(directory, |lock_directory| {
            lock_directory.stored_policy.clone_from(&stored_policy);
        });
        let forgettable = self.change(lock, |indexed| {
            indexed.stored_policy = stored_policy;
            indexed.is_forgettable()
        });
        self.index_alarm(lock);
        if forgettable == Some(true) {
            self.forget(lock);
        }
    }

    /// Locks whose policy raises an alarm, in name order.
    pub(crate) fn alarmed(&self) -> impl Iterator<Item = (&LockName, &Lock)> {
        self.alarmed.iter().filter_map(|name| Some((name, self.get(name)?)))
    }

    fn index_alarm(&mut self, lock: &LockName) {
        if self.get(lock).is_some_and(|indexed| indexed.policy().has_alarm()) {
            self.alarmed.insert(lock.clone());
        } else {
            self.alarmed.remove(lock);
        }
    }

    /// Sets the cooldowns of a lock. Returns the previous cooldowns.
    pub(crate) fn set_cooldowns(
        &mut self,
        tree: &mut Tree,
        lock: &LockName,
        cooldowns: Option<Arc<Cooldowns>>,
    ) -> Option<Arc<Cooldowns>> {
        let changed = self.change(lock, |indexed| {
            let before = std::mem::replace(&mut indexed.cooldowns, cooldowns.clone());
            (before, indexed.directory.clone())
        });
        let (before, directory) = changed?;
        tree.update_lock_directory(&directory, |lock_directory| {
            lock_directory.cooldowns = cooldowns;
        });
        before
    }

    pub(crate) fn namespaces(&self) -> &PerNamespace<NamespaceLocks> {
        &self.namespaces
    }

    /// Counts the locks of a namespace from now on.
    pub(crate) fn start_namespace(&mut self, namespace: &NamespaceName) {
        let mut found = NamespaceLocks::default();
        for name in namespace.names() {
            let below = format!("{name}/");
            let top = self.by_name.get_key_value(name.as_str());
            let rest = self.range(Bound::Included(&below));
            let rest = rest.take_while(|(lock, _)| lock.as_str().starts_with(&below));
            for (_, lock) in top.into_iter().chain(rest) {
                let entries = Tally::of(lock).entries;
                found.locks += u64::from(entries > 0);
                found.entries += entries;
            }
        }
        self.namespaces.set(namespace.clone(), found);
    }

    pub(crate) fn stop_namespace(&mut self, namespace: &NamespaceName) {
        self.namespaces.remove(namespace);
    }

    /// Creates an index without locks that counts the same namespaces.
    pub(crate) fn without_locks(&self) -> Self {
        Self { namespaces: self.namespaces.zeroed(), ..Self::new(self.grants) }
    }

    pub(crate) fn tokens_left(&self) -> u64 {
        (FencingToken::END - 1).saturating_sub(self.grants)
    }

    /// Skips the tokens up to this one. Never goes back.
    pub(crate) fn advance_grants(&mut self, last: u64) {
        self.grants = self.grants.max(last);
    }

    /// Mints the next token, greater than every earlier token; `None` at the end of the counter.
    pub(crate) fn mint(&mut self) -> Option<FencingToken> {
        (self.tokens_left() > 0).then(|| {
            self.grants += 1;
            FencingToken(self.grants)
        })
    }

    /// The position of a new entry in a lock's queue. A lock that is not in the index has no entries.
    pub(crate) fn position(
        &self,
        lock: &LockName,
        request: GrantRequest,
        now: Stamp,
    ) -> EntryPosition {
        let free = || EntryPosition::of_free_lock(request, now);
        self.get(lock).map_or_else(free, |indexed| indexed.position(request, now))
    }

    pub(crate) fn get(&self, lock: &LockName) -> Option<&Lock> {
        self.by_name.get(lock).map(|lock| &**lock)
    }

    /// True for the name of a sharded lock.
    pub(crate) fn has_shards(&self, lock: &str) -> bool {
        self.by_name.get(lock).is_some_and(|lock| lock.policy().shards.is_some())
    }

    /// Indexes a lock from the state of its directory.
    pub(crate) fn restore_lock(&mut self, name: LockName, lock: Lock) {
        self.recount(&name, &Tally::default(), &Tally::of(&lock));
        if lock.policy().has_alarm() {
            self.alarmed.insert(name.clone());
        }
        self.by_name.insert(name, Arc::new(lock));
    }

    /// Indexes an entry from its znode. Returns false if another entry has the same sequence number or the same acquire
    /// revision.
    pub(crate) fn restore_entry(
        &mut self,
        lock: &LockName,
        directory: &ZnodePath,
        entry: &Arc<LockEntry>,
    ) -> bool {
        self.index_entry(lock, directory, entry, Lock::put)
    }

    fn index_entry(
        &mut self,
        lock: &LockName,
        directory: &ZnodePath,
        entry: &Arc<LockEntry>,
        put: fn(&mut Lock, Arc<LockEntry>) -> bool,
    ) -> bool {
        let put = |indexed: &mut Lock| put(indexed, Arc::clone(entry));
        // A lock that is reserved for a multi-lock may never have been granted.
        let own_number = self.change(lock, put).or_else(|| {
            self.restore_lock(lock.clone(), Lock::new(directory.clone()));
            self.change(lock, put)
        });
        self.keys.insert(SessionLockKey::of(lock, entry));
        self.any_shard_waiters.extend(AnyShardWaiter::of(lock, entry));
        let own_revision = self.waits.enter(lock, entry);
        own_number == Some(true) && own_revision
    }

    fn remove_any_shard_waiter(&mut self, lock: &LockName, entry: &LockEntry) {
        if let Some(waiter) = AnyShardWaiter::of(lock, entry) {
            self.any_shard_waiters.remove(&waiter);
        }
    }

    /// Returns the name of the first part in which two indexes differ.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        let parts = [
            (self.by_name == other.by_name, "holders and queues"),
            (self.keys == other.keys, "entries of sessions"),
            (self.waits == other.waits, "waits"),
            (self.dues == other.dues, "timers"),
            (self.delays == other.delays, "lock delays"),
            (self.alarmed == other.alarmed, "locks with an alarm"),
            (self.held == other.held, "locks held"),
            (self.waiting == other.waiting, "waiters"),
            (self.multi_waiters == other.multi_waiters, "waiters of multi-locks"),
            (self.any_shard_waiters == other.any_shard_waiters, "waiters for any shard"),
            (self.namespaces == other.namespaces, "locks of namespaces"),
        ];
        parts.into_iter().find_map(|(same, part)| (!same).then_some(part))
    }

    /// Changes a lock, and updates the counters and timers over all locks.
    fn change<T>(&mut self, name: &LockName, change: impl FnOnce(&mut Lock) -> T) -> Option<T> {
        let lock = self.by_name.get_mut(name).map(Arc::make_mut)?;
        let before = Tally::of(lock);
        let changed = change(lock);
        let after = Tally::of(lock);
        self.recount(name, &before, &after);
        Some(changed)
    }

    /// Removes a lock whose directory was deleted.
    pub(crate) fn forget(&mut self, name: &LockName) {
        if let Some(lock) = self.by_name.remove(name) {
            self.recount(name, &Tally::of(&lock), &Tally::default());
            if lock.policy().has_alarm() {
                self.alarmed.remove(name);
            }
        }
    }

    /// Replaces the share of a lock in the counters and timers over all locks.
    fn recount(&mut self, name: &LockName, before: &Tally, after: &Tally) {
        self.held = self.held + after.held - before.held;
        self.waiting = self.waiting + after.waiting - before.waiting;
        self.multi_waiters = self.multi_waiters + after.multi_waiters - before.multi_waiters;
        if let Some(namespace) = self.namespaces.get_mut(NamespaceName::of_name(name.as_str())) {
            let is_used = |tally: &Tally| u64::from(tally.entries > 0);
            namespace.locks = namespace.locks + is_used(after) - is_used(before);
            namespace.entries = namespace.entries + after.entries - before.entries;
        }
        if before.due != after.due {
            if let Some(due) = before.due {
                self.dues.remove(&(due, name.clone()));
            }
            self.dues.extend(after.due.map(|due| (due, name.clone())));
        }
        if before.cooldowns != after.cooldowns {
            for session in before.lost() {
                self.delays.remove(&(session.clone(), name.clone()));
            }
            self.delays.extend(after.lost().map(|session| (session.clone(), name.clone())));
        }
    }

    /// Locks with a lock delay for a lost session.
    pub(crate) fn delayed_by<'a>(
        &'a self,
        session: &'a SessionName,
    ) -> impl Iterator<Item = &'a LockName> {
        let start = RangeStart(move |(lost, _): &(SessionName, LockName)| session.cmp(lost));
        let own = self.delays.range(start..).take_while(move |(lost, _)| lost == session);
        own.map(|(_, lock)| lock)
    }

    /// Returns the first entry of a session and owner in a lock's queue, starting at a ticket.
    pub(crate) fn find(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        from: Ticket,
    ) -> Option<&Arc<LockEntry>> {
        let key = self.keys_from(session, lock, owner, from).next()?;
        let is_own = key.lock == *lock && key.owner == *owner;
        self.get(lock)?.entry(&key.rank).filter(|_| is_own)
    }

    /// Returns the keys of a session's entries in lock order, starting at a ticket of an owner in a lock.
    pub(crate) fn keys_from(
        &self,
        session: SessionId,
        lock: &LockName,
        owner: &Owner,
        from: Ticket,
    ) -> impl Iterator<Item = &SessionLockKey> + use<'_> {
        let start = RangeStart(|key: &SessionLockKey| {
            let order = session.cmp(&key.session).then_with(|| lock.cmp(&key.lock));
            order.then_with(|| owner.cmp(&key.owner)).then(from.cmp(&key.ticket))
        });
        self.keys.range(start..).take_while(move |key| key.session == session)
    }

    /// Returns the keys of a session's entries, in lock order.
    pub(crate) fn keys_of(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = &SessionLockKey> + use<'_> {
        let start = RangeStart(|key: &SessionLockKey| session.cmp(&key.session));
        self.keys.range(start..).take_while(move |key| key.session == session)
    }
}
