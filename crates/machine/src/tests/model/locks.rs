//! The model's locks: queues, compatibility of holders, and grants. Every lookup scans all znodes.

use holdfast_types::*;

use super::queue_entries::own_name;
use super::{Model, Node, QueueEntry, parent, znode};

/// The recipe of an entry, by the name of its znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// An HTTP caller.
    Own,
    /// Waits for every earlier entry.
    Exclusive,
    /// Waits for every entry of an HTTP caller.
    Kazoo,
    /// Waits for those without `__READ__` in their names.
    Curator,
}

impl Reader {
    pub(super) fn of(path: &str) -> Self {
        match () {
            () if path.contains("__rlock__") => Self::Kazoo,
            () if path.contains("__READ__") => Self::Curator,
            () => Self::Exclusive,
        }
    }

    /// Whether it waits for this holder, even a shared one.
    pub(super) fn waits_for(self, holder: &Node) -> bool {
        let own = entry(holder).reader == Self::Own;
        match self {
            Self::Own | Self::Exclusive => false,
            Self::Kazoo => own,
            Self::Curator => own && !holder.path.contains("__READ__"),
        }
    }
}

/// The parts of an acquire that decide its rank and its grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockRequest {
    pub(super) mode: Mode,
    pub(super) permits: u32,
    pub(super) priority: u8,
    pub(super) never_overtaken: bool,
    pub(super) reader: Reader,
}

impl LockRequest {
    /// The request of a ZooKeeper client, which takes all permits of a semaphore.
    pub(super) fn of_tree(path: &str, limit: Option<u32>) -> Self {
        let reader = Reader::of(path);
        let mode = if reader == Reader::Exclusive { Mode::Exclusive } else { Mode::Shared };
        Self { mode, permits: limit.unwrap_or(1), priority: 0, never_overtaken: true, reader }
    }
}

pub(super) fn entry(node: &Node) -> &QueueEntry {
    node.entry.as_ref().unwrap()
}

/// The lock of a queue entry.
pub(super) fn lock_of(node: &Node) -> LockName {
    znode(&parent(&node.path)).as_lock().unwrap()
}

fn directory(lock: &LockName) -> String {
    format!("/locks/{lock}")
}

impl Model {
    /// All entries of a lock, by sequence number.
    pub(in crate::tests) fn queue(&self, lock: &LockName) -> Vec<&Node> {
        let inside = |node: &&Node| parent(&node.path) == directory(lock) && node.entry.is_some();
        let mut queue: Vec<_> = self.nodes.iter().filter(inside).collect();
        queue.sort_by_key(|node| entry(node).sequence);
        queue
    }

    pub(in crate::tests) fn holders(&self, lock: &LockName) -> Vec<&Node> {
        self.queue(lock).into_iter().filter(|node| entry(node).hold.is_some()).collect()
    }

    /// The waiters, in grant order.
    pub(in crate::tests) fn waiters(&self, lock: &LockName) -> Vec<&Node> {
        let waits = |node: &&Node| entry(node).hold.is_none();
        let mut waiters: Vec<_> = self.queue(lock).into_iter().filter(waits).collect();
        waiters.sort_by_key(|node| entry(node).rank());
        waiters
    }

    /// The policy is stored on the lock's directory.
    pub(super) fn policy(&self, lock: &LockName) -> LockPolicy {
        let node = self.find(&directory(lock));
        node.and_then(|node| node.policy).map_or(LockPolicy::DEFAULT, |(policy, _)| policy)
    }

    /// Whether the lock was ever granted, has a policy, or has queue entries.
    pub(super) fn is_known(&self, lock: &LockName) -> bool {
        let node = self.find(&directory(lock));
        let known = node.is_some_and(|node| node.last_token > 0 || node.policy.is_some());
        known || !self.queue(lock).is_empty()
    }

    /// Class, then arrival time minus the credit for the priority. ZooKeeper clients are never overtaken and never
    /// overtake.
    pub(super) fn rank(&self, lock: &LockName, request: LockRequest) -> (u8, i64) {
        let policy = self.policy(lock);
        let reads = request.mode == Mode::Shared;
        let first = match policy.order {
            QueueOrder::Fifo => true,
            QueueOrder::WriterFirst => !reads,
            QueueOrder::ReaderFirst => reads,
        };
        let worth = i64::from(request.priority) * policy.ageing_ms as i64;
        let own = (u8::from(!first), self.now as i64 - worth);
        let before = self.waiters(lock).into_iter().map(entry);
        let before = before.filter(|other| request.never_overtaken || other.never_overtaken);
        before.map(|other| other.rank).chain([own]).max().unwrap()
    }

    /// Whether a request is compatible with the current holders.
    pub(super) fn has_room(&self, lock: &LockName, request: LockRequest) -> bool {
        let nodes = self.holders(lock);
        let holders: Vec<_> = nodes.iter().copied().map(entry).collect();
        if let Some(limit) = self.policy(lock).limit {
            let held: u32 = holders.iter().map(|holder| holder.permits).sum();
            return match request.reader {
                Reader::Own => {
                    let own = holders.iter().all(|holder| holder.reader == Reader::Own);
                    own && held + request.permits <= limit
                }
                _ => holders.is_empty(),
            };
        }
        if nodes.iter().any(|node| request.reader.waits_for(node)) {
            return false;
        }
        let weak = holders.iter().all(|one| one.mode != Mode::Exclusive && one.held == one.mode);
        let upgradable = holders.iter().any(|one| one.held == Mode::Upgradable);
        match request.mode {
            _ if holders.is_empty() => true,
            Mode::Exclusive => false,
            Mode::Shared => weak,
            Mode::Upgradable => weak && !upgradable,
        }
    }

    /// Whether a new request would have to queue: the lock is in cooldown, a waiter is ahead, or a holder is
    /// incompatible.
    pub(super) fn would_wait(&self, lock: &LockName, request: LockRequest) -> bool {
        let rank = self.rank(lock, request);
        let behind = self.waiters(lock).first().is_some_and(|first| entry(first).rank <= rank);
        !self.is_past_cooldown(lock) || behind || !self.has_room(lock, request)
    }

    /// Grants what a change of this lock allows, then repeats it for every other changed lock, by name.
    pub(super) fn grant_waiters(&mut self, lock: &LockName) {
        self.changed.insert(lock.clone());
        self.grant_all_waiters();
    }

    pub(super) fn grant_all_waiters(&mut self) {
        while let Some(lock) = self.changed.pop_first() {
            self.grant_waiters_of(&lock);
        }
    }

    /// The grant rule: a waiting upgrade first, then waiters in order until one cannot be granted.
    fn grant_waiters_of(&mut self, lock: &LockName) {
        self.end_cooldown(lock);
        self.upgrade(lock);
        while let Some(first) = self.waiters(lock).first().copied().cloned() {
            let entries = self.multi_lock_entries(&first);
            // Some entries of a multi-lock may not exist yet.
            let whole = entries.len() == entry(&first).multi_lock.len().max(1);
            if !whole || !entries.iter().all(|member| self.can_be_granted(member)) {
                return;
            }
            for member in &entries {
                let lock = lock_of(member);
                self.end_cooldown(&lock);
                self.grant_to(&lock, member);
                if entries.len() > 1 {
                    self.changed.insert(lock);
                }
            }
        }
    }

    /// Whether a waiter can be granted: no cooldown, first in the queue, and compatible with the holders.
    fn can_be_granted(&self, node: &Node) -> bool {
        let lock = lock_of(node);
        let first = self.waiters(&lock).first().is_some_and(|first| first.path == node.path);
        first && self.is_past_cooldown(&lock) && self.has_room(&lock, entry(node).request())
    }

    /// Grants a waiting upgrade if its holder is the only one.
    pub(super) fn upgrade(&mut self, lock: &LockName) {
        let holders = self.holders(lock);
        let [one] = holders[..] else { return };
        if entry(one).mode != entry(one).held && !self.has_reader_inside(lock, one) {
            let path = one.path.clone();
            self.grant_upgrade(lock, &path);
        }
    }

    /// Grants the requested mode of a holder. A shared name becomes an exclusive one at the same position, because
    /// Curator's readers pass a shared one.
    pub(super) fn grant_upgrade(&mut self, lock: &LockName, path: &str) {
        let mut node = self.find(path).unwrap().clone();
        let own = node.entry.as_mut().unwrap();
        own.claims.iter_mut().for_each(|claim| claim.before = None);
        let (sequence, is_own) = (own.sequence, own.reader == Reader::Own);
        self.find_mut(path).entry = node.entry.clone();
        if is_own && path.contains("__READ__") {
            let named = |other: &str| {
                format!("{}/{}", parent(path), own_name(Mode::Exclusive, sequence, other))
            };
            let other = format!("__r{}", self.revision);
            let new = if self.find(&named("")).is_some() { named(&other) } else { named("") };
            self.remove(path);
            self.add(&new, node.stat.ephemeral_owner, &node.data, node.entry.clone());
            let renamed = self.find_mut(&new);
            (renamed.stat, renamed.acl) = (node.stat, node.acl.clone());
            node.path = new;
        }
        self.grant_to(lock, &node);
    }

    pub(super) fn grant_to(&mut self, lock: &LockName, next: &Node) {
        self.grants += 1;
        let (token, now, revision) = (self.grants, self.now, self.revision);
        let slots = self.free_slots(lock, entry(next).permits);
        let entry = self.find_mut(&next.path).entry.as_mut().unwrap();
        let before = entry.hold.take();
        let since = before.as_ref().map_or(now, |hold| hold.since);
        let first_token = before.as_ref().map_or(token, |hold| hold.first_token);
        let release_request = before.and_then(|hold| hold.release_request);
        let (granted_at, granted_in) = (now, revision);
        entry.hold = Some(Hold {
            token,
            first_token,
            granted_at,
            granted_in,
            since,
            slots,
            release_request,
        });
        entry.held = entry.mode;
        self.find_mut(&directory(lock)).last_token = token;
        let session = self.session_of(next).name.clone();
        self.granted.push((lock.clone(), session, token));
        self.cool_down(lock);
    }

    /// The smallest free slot numbers, one for each permit; a lock without a limit has no slots.
    fn free_slots(&self, lock: &LockName, permits: u32) -> Vec<u32> {
        if self.policy(lock).limit.is_none() {
            return Vec::new();
        }
        let holds = self.holders(lock).into_iter().filter_map(|node| entry(node).hold.as_ref());
        let taken: Vec<u32> = holds.flat_map(|hold| hold.slots.clone()).collect();
        (0..).filter(|slot| !taken.contains(slot)).take(permits as usize).collect()
    }

    /// The floor: the smallest valid token.
    pub(super) fn floor(&self, lock: &LockName) -> u64 {
        let tokens = self.holders(lock).into_iter().filter_map(|node| entry(node).token());
        tokens.min().unwrap_or(self.grants + 1)
    }
}

/// The hold of a granted entry.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) struct Hold {
    pub(in crate::tests) token: u64,
    /// The token of the first grant; a conversion grants again.
    pub(super) first_token: u64,
    pub(super) granted_at: u64,
    pub(super) granted_in: u64,
    /// The stamp of the first grant; a conversion grants again.
    pub(super) since: u64,
    pub(super) slots: Vec<u32>,
    /// The pending release request.
    pub(super) release_request: Option<ReleaseRequest>,
}

impl QueueEntry {
    pub(in crate::tests) fn token(&self) -> Option<u64> {
        self.hold.as_ref().map(|hold| hold.token)
    }

    /// Whether it is a token of the hold, the present or an earlier one.
    pub(super) fn had(&self, token: u64) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.first_token <= token && token <= hold.token)
    }

    /// Equal ranks are ordered by arrival.
    fn rank(&self) -> ((u8, i64), u64) {
        (self.rank, self.sequence)
    }

    pub(super) fn request(&self) -> LockRequest {
        let Self { mode, permits, priority, never_overtaken, reader, .. } = *self;
        LockRequest { mode, permits, priority, never_overtaken, reader }
    }

    /// Whether the entry waits for the lock or for an upgrade.
    pub(super) fn waits(&self) -> bool {
        self.hold.is_none() || self.mode != self.held
    }

    /// When the hold is revoked: at its maximum, or at the deadline of a release request that revokes.
    pub(in crate::tests) fn next_end(&self) -> Option<u64> {
        let release_request = self.hold.as_ref()?.release_request.as_ref();
        let revoked =
            release_request.filter(|request| request.revoke).map(|request| request.deadline.0);
        [self.ends_at(), revoked].into_iter().flatten().min()
    }

    /// When the hold reaches its maximum, whatever the session does.
    pub(in crate::tests) fn ends_at(&self) -> Option<u64> {
        Some(self.hold.as_ref()?.since + self.max_hold?)
    }
}
