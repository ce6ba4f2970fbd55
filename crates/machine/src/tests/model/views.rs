//! The model's views and replies for locks.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{entry, lock_of};
use super::{Model, Node};

impl Model {
    /// The first holder other than the entry at `path`.
    pub(super) fn other_holder(&self, lock: &LockName, path: &str) -> Option<HolderView> {
        let holders = self.holders(lock);
        holders.into_iter().find(|node| node.path != path).map(|node| self.holder_view(node))
    }

    pub(super) fn holder_view(&self, node: &Node) -> HolderView {
        let entry = entry(node);
        let hold = entry.hold.clone().unwrap();
        HolderView {
            session: self.session_of(node).name.clone(),
            owner: entry.owner.clone(),
            token: FencingToken(hold.token),
            granted_at: Stamp(hold.granted_at),
            hold_count: entry.claims.len() as u32,
            labels: Labels::default(),
            mode: entry.held,
            permits: entry.permits,
            slots: hold.slots,
            upgrading: entry.mode != entry.held,
            ends_at: entry.next_end().map(Stamp),
            value: entry.value.clone(),
            durable: entry.durable.clone(),
        }
    }

    fn waiter_view(&self, node: &Node) -> WaiterView {
        let entry = entry(node);
        WaiterView {
            session: self.session_of(node).name.clone(),
            owner: entry.owner.clone(),
            ticket: Ticket(node.stat.czxid.0),
            since: node.stat.ctime,
            labels: Labels::default(),
            mode: entry.mode,
            permits: entry.permits,
            priority: entry.priority,
            value: entry.value.clone(),
            multi_lock: entry.multi_lock.clone(),
        }
    }

    /// The view of a lock.
    pub(in crate::tests) fn view(&self, lock: &LockName) -> LockView {
        let holders = self.holders(lock).into_iter().map(|node| self.holder_view(node));
        let holders: Vec<_> = holders.collect();
        let waiters = self.waiters(lock).into_iter().map(|node| self.waiter_view(node));
        let waiters: Vec<_> = waiters.collect();
        let directory = self.find(&format!("/locks/{lock}"));
        let last = directory.map(|node| node.last_token).filter(|token| *token > 0);
        LockView {
            lock: lock.clone(),
            holders_total: holders.len() as u32,
            permits_held: holders.iter().map(|holder| holder.permits).sum(),
            held_since: holders.iter().map(|holder| holder.granted_at).min(),
            holders,
            waiting_since: waiters.iter().map(|waiter| waiter.since).min(),
            waiters_total: waiters.len() as u32,
            waiters,
            last_token: last.map(FencingToken),
            floor: FencingToken(self.floor(lock)),
            policy: self.policy(lock),
            cooldown: self.cooldown(lock),
            notes: self.holders(lock).into_iter().filter_map(note).collect(),
            shards: Vec::new(),
            foreign_znodes: self.foreign_znodes(lock),
        }
    }

    /// The fence view of a lock.
    pub(in crate::tests) fn fence(&self, lock: &LockName) -> FenceView {
        let view = self.view(lock);
        let current = view.holders.iter().map(|holder| holder.token).max();
        FenceView { current, floor: view.floor, highest: view.last_token }
    }

    /// `Busy`, `InCooldown` or `Reserved`.
    pub(super) fn busy(&self, lock: &LockName, path: &str) -> Rejection {
        let waiters = self.waiters(lock).len() as u32;
        match (self.other_holder(lock, path), self.cooldown(lock)) {
            (Some(holder), _) => {
                Rejection::Lock(LockRejection::Busy { holder: holder.into(), waiters })
            }
            (None, Some(cooldown)) => {
                Rejection::Lock(LockRejection::InCooldown { cooldown, waiters })
            }
            (None, None) => Rejection::Lock(LockRejection::Reserved { waiters }),
        }
    }

    /// The grant of a holder.
    pub(super) fn grant(&self, lock: &LockName, node: &Node, renewed: bool) -> Grant {
        let (entry, session) = (entry(node), self.session_of(node));
        let hold = entry.hold.clone().unwrap();
        Grant {
            lock: lock.clone(),
            session: session.name.clone(),
            owner: entry.owner.clone(),
            ticket: Ticket(node.stat.czxid.0),
            token: FencingToken(hold.token),
            mode: entry.held,
            permits: entry.permits,
            slots: hold.slots,
            floor: FencingToken(self.floor(lock)),
            ends_at: entry.next_end().map(Stamp),
            ttl: session.ttl,
            hold_count: entry.claims.len() as u32,
            renewed,
            waiters: self.waiters(lock).len() as u32,
            granted_at: Stamp(hold.granted_at),
            granted_in: Revision(hold.granted_in),
            value: entry.value.clone(),
        }
    }

    /// The queue position of a waiter, or of a holder that waits for an upgrade.
    pub(super) fn queued(&self, lock: &LockName, node: &Node) -> Queued {
        let (entry, session) = (entry(node), self.session_of(node));
        let mut waiters = self.waiters(lock).into_iter();
        Queued {
            lock: lock.clone(),
            ticket: Ticket(node.stat.czxid.0),
            requested_in: Revision(entry.requested_in),
            ahead: waiters.position(|waiter| waiter.path == node.path).unwrap_or(0) as u32,
            holder: self.other_holder(lock, &node.path).map(Box::new),
            cooldown: self.cooldown(lock),
            mode: entry.mode,
            session: SessionId(session.id),
            ttl: session.ttl,
        }
    }

    /// Waits with a deadline, in the order of their last request: the cancel command, and the wait time.
    pub(in crate::tests) fn waits(&self) -> Vec<(Cancel, u64)> {
        let waits = self.nodes.iter().flat_map(|node| {
            let calls = node.entry.as_ref().map_or_else(Vec::new, super::QueueEntry::waiting);
            calls.into_iter().filter_map(|(_, (asked, wait_ms))| {
                let cancel = Cancel {
                    lock: lock_of(node),
                    session: self.session_of(node).name.clone(),
                    owner: entry(node).owner.clone(),
                    ticket: Ticket(node.stat.czxid.0),
                    requested_in: Revision(asked),
                };
                Some((cancel, wait_ms?))
            })
        });
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|(cancel, _)| cancel.requested_in);
        waits
    }

    /// The reply to an acquire: its caller waits since now.
    pub(super) fn asked_now(&self, reply: Reply) -> Reply {
        let Reply::Acquired(EntryState::Waiting(mut queued)) = reply else { return reply };
        queued.iter_mut().for_each(|queued| queued.requested_in = Revision(self.revision));
        Reply::Acquired(EntryState::Waiting(queued))
    }

    /// The reply to an acquire, whose caller may wait for an upgrade of a hold.
    pub(super) fn acquire_reply(
        &self,
        lock: &LockName,
        path: &str,
        upgrade_waits: bool,
        renewed: bool,
    ) -> Reply {
        let node = self.find(path).unwrap();
        if entry(node).hold.is_none() || upgrade_waits && entry(node).waits() {
            return Reply::Acquired(EntryState::Waiting(vec![self.queued(lock, node)]));
        }
        Reply::Acquired(EntryState::Holding(vec![self.grant(lock, node, renewed)]))
    }
}

/// The note of a holder with a release request or a multi-lock.
fn note(node: &Node) -> Option<HolderDetails> {
    let entry = entry(node);
    let hold = entry.hold.as_ref()?;
    let (token, release_request) = (FencingToken(hold.token), hold.release_request.clone());
    let multi_lock = entry.multi_lock.clone();
    let notable = release_request.is_some() || !multi_lock.is_empty();
    notable.then_some(HolderDetails { token, release_request, multi_lock })
}
