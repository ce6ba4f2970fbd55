//! The model's locks: who stands where, who may hold beside whom, who is granted. Everything is looked for anew.

use holdfast_types::*;

use super::{Model, Node, Place, parent, znode};

/// What the order of a queue and the grant go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) mode: Mode,
    pub(super) permits: u32,
    pub(super) priority: u8,
    pub(super) fixed: bool,
}

impl Ask {
    /// Of whoever comes through the tree.
    pub(super) fn of_tree(mode: Mode) -> Self {
        Self { mode, permits: 1, priority: 0, fixed: true }
    }
}

pub(super) fn place(node: &Node) -> &Place {
    node.place.as_ref().unwrap()
}

/// The lock in whose queue a place is.
pub(super) fn lock_of(node: &Node) -> LockName {
    znode(&parent(&node.path)).as_lock().unwrap()
}

fn directory(lock: &LockName) -> String {
    format!("/locks/{lock}")
}

impl Model {
    /// The contenders of a lock, by number.
    pub(in crate::tests) fn queue(&self, lock: &LockName) -> Vec<&Node> {
        let inside = |node: &&Node| parent(&node.path) == directory(lock) && node.place.is_some();
        let mut queue: Vec<_> = self.nodes.iter().filter(inside).collect();
        queue.sort_by_key(|node| place(node).sequence);
        queue
    }

    pub(in crate::tests) fn holders(&self, lock: &LockName) -> Vec<&Node> {
        self.queue(lock).into_iter().filter(|node| place(node).hold.is_some()).collect()
    }

    /// Who waits, in the order in which they are granted.
    pub(in crate::tests) fn waiters(&self, lock: &LockName) -> Vec<&Node> {
        let waits = |node: &&Node| place(node).hold.is_none();
        let mut waiters: Vec<_> = self.queue(lock).into_iter().filter(waits).collect();
        waiters.sort_by_key(|node| place(node).rank());
        waiters
    }

    /// A lock's rules are on its directory.
    pub(super) fn policy(&self, lock: &LockName) -> LockPolicy {
        let node = self.find(&directory(lock));
        node.and_then(|node| node.rules).map_or(LockPolicy::DEFAULT, |(policy, _)| policy)
    }

    /// Whether it was ever granted, has rules, or is kept for somebody who asked for several.
    pub(super) fn is_known(&self, lock: &LockName) -> bool {
        let node = self.find(&directory(lock));
        let known = node.is_some_and(|node| node.last_token > 0 || node.rules.is_some());
        known || !self.queue(lock).is_empty()
    }

    /// Class, then time of coming less what the priority is worth; whoever comes through the tree is not overtaken, and
    /// overtakes nobody.
    pub(super) fn rank(&self, lock: &LockName, ask: Ask) -> (u8, i64) {
        let policy = self.policy(lock);
        let reads = ask.mode == Mode::Shared;
        let first = match policy.order {
            QueueOrder::Fifo => true,
            QueueOrder::WriterFirst => !reads,
            QueueOrder::ReaderFirst => reads,
        };
        let worth = i64::from(ask.priority) * policy.ageing_ms as i64;
        let own = (u8::from(!first), self.now as i64 - worth);
        let before = self.waiters(lock).into_iter().map(place);
        let before = before.filter(|other| ask.fixed || other.fixed);
        before.map(|other| other.rank).chain([own]).max().unwrap()
    }

    /// Whether a contender could hold a lock beside those who do.
    pub(super) fn has_room(&self, lock: &LockName, ask: Ask) -> bool {
        let holders: Vec<_> = self.holders(lock).into_iter().map(place).collect();
        if let Some(limit) = self.policy(lock).limit {
            let held: u32 = holders.iter().map(|holder| holder.permits).sum();
            return held + ask.permits <= limit;
        }
        let weak = holders.iter().all(|one| one.mode != Mode::Exclusive && one.held == one.mode);
        let upgradable = holders.iter().any(|one| one.held == Mode::Upgradable);
        match ask.mode {
            _ if holders.is_empty() => true,
            Mode::Exclusive => false,
            Mode::Shared => weak,
            Mode::Upgradable => weak && !upgradable,
        }
    }

    /// Whether a contender that comes now would have to wait: the lock is closed, somebody goes before it, or it cannot
    /// hold beside the holders.
    pub(super) fn would_wait(&self, lock: &LockName, ask: Ask) -> bool {
        let rank = self.rank(lock, ask);
        let behind = self.waiters(lock).first().is_some_and(|first| place(first).rank <= rank);
        !self.is_open(lock) || behind || !self.has_room(lock, ask)
    }

    /// The queue of a lock has changed, or what it may grant: it is looked at, and after it, by name, every other one
    /// that changed with it.
    pub(super) fn settle(&mut self, lock: &LockName) {
        self.changed.insert(lock.clone());
        self.settle_all();
    }

    pub(super) fn settle_all(&mut self) {
        while let Some(lock) = self.changed.pop_first() {
            self.settle_one(&lock);
        }
    }

    /// The rule of the grant: whoever waits to be exclusive first, then one waiter after the other, until one cannot.
    fn settle_one(&mut self, lock: &LockName) {
        self.reopen(lock);
        self.upgrade(lock);
        while let Some(first) = self.waiters(lock).first().copied().cloned() {
            let members = self.members(&first);
            // Of several some places may still have to be made.
            let whole = members.len() == place(&first).bundle.len().max(1);
            if !whole || !members.iter().all(|member| self.is_due_to(member)) {
                return;
            }
            for member in &members {
                let lock = lock_of(member);
                self.reopen(&lock);
                self.hand_to(&lock, member);
                if members.len() > 1 {
                    self.changed.insert(lock);
                }
            }
        }
    }

    /// Whether a waiter's lock can be granted to it: it is open and the waiter first, and can hold beside the holders.
    fn is_due_to(&self, node: &Node) -> bool {
        let lock = lock_of(node);
        let first = self.waiters(&lock).first().is_some_and(|first| first.path == node.path);
        first && self.is_open(&lock) && self.has_room(&lock, place(node).ask())
    }

    /// Makes the one that waits to be exclusive so, when it is alone.
    pub(super) fn upgrade(&mut self, lock: &LockName) {
        let holders = self.holders(lock);
        let [one] = holders[..] else { return };
        if place(one).mode != place(one).held {
            let one = one.clone();
            self.hand_to(lock, &one);
        }
    }

    pub(super) fn hand_to(&mut self, lock: &LockName, next: &Node) {
        self.grants += 1;
        let (token, now, revision) = (self.grants, self.now, self.revision);
        let slots = self.free_slots(lock, place(next).permits);
        let place = self.find_mut(&next.path).place.as_mut().unwrap();
        let before = place.hold.take();
        let since = before.as_ref().map_or(now, |hold| hold.since);
        let asked_for = before.and_then(|hold| hold.asked_for);
        let (granted_at, granted_in) = (now, revision);
        place.hold = Some(Hold { token, granted_at, granted_in, since, slots, asked_for });
        place.held = place.mode;
        self.find_mut(&directory(lock)).last_token = token;
        let session = self.session_of(next).name.clone();
        self.granted.push((lock.clone(), session, token));
        self.cool_down(lock);
    }

    /// The smallest numbers that nobody holds, one to a permit; a lock has none.
    fn free_slots(&self, lock: &LockName, permits: u32) -> Vec<u32> {
        if self.policy(lock).limit.is_none() {
            return Vec::new();
        }
        let holds = self.holders(lock).into_iter().filter_map(|node| place(node).hold.as_ref());
        let taken: Vec<u32> = holds.flat_map(|hold| hold.slots.clone()).collect();
        (0..).filter(|slot| !taken.contains(slot)).take(permits as usize).collect()
    }

    /// The smallest token that is still good.
    pub(super) fn floor(&self, lock: &LockName) -> u64 {
        let tokens = self.holders(lock).into_iter().filter_map(|node| place(node).token());
        tokens.min().unwrap_or(self.grants + 1)
    }
}

/// What a grant left on a place.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) struct Hold {
    pub(in crate::tests) token: u64,
    pub(super) granted_at: u64,
    pub(super) granted_in: u64,
    /// The stamp of the first grant: a conversion is another one.
    pub(super) since: u64,
    pub(super) slots: Vec<u32>,
    /// It is asked for.
    pub(super) asked_for: Option<ReleaseRequest>,
}

impl Place {
    pub(in crate::tests) fn token(&self) -> Option<u64> {
        self.hold.as_ref().map(|hold| hold.token)
    }

    /// Ranks that are equal are those of who came first.
    fn rank(&self) -> ((u8, i64), u64) {
        (self.rank, self.sequence)
    }

    pub(super) fn ask(&self) -> Ask {
        let Self { mode, permits, priority, fixed, .. } = *self;
        Ask { mode, permits, priority, fixed }
    }

    /// True if it waits: for the lock, or for holding it otherwise.
    pub(super) fn waits(&self) -> bool {
        self.hold.is_none() || self.mode != self.held
    }

    /// When the hold is taken away: at its end, or at the deadline of somebody who wants it.
    pub(in crate::tests) fn taken_at(&self) -> Option<u64> {
        let asked_for = self.hold.as_ref()?.asked_for.as_ref();
        let revoked = asked_for.filter(|asked| asked.revoke).map(|asked| asked.deadline.0);
        [self.ends_at(), revoked].into_iter().flatten().min()
    }

    /// When the hold is over whatever the session does.
    pub(in crate::tests) fn ends_at(&self) -> Option<u64> {
        Some(self.hold.as_ref()?.since + self.max_hold?)
    }
}
