//! How the model's locks look from outside.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{lock_of, place};
use super::{Model, Node};

impl Model {
    /// The first who holds a lock, a place apart.
    pub(super) fn other_holder(&self, lock: &LockName, path: &str) -> Option<HolderView> {
        let holders = self.holders(lock);
        holders.into_iter().find(|node| node.path != path).map(|node| self.holder_view(node))
    }

    pub(super) fn holder_view(&self, node: &Node) -> HolderView {
        let place = place(node);
        let hold = place.hold.clone().unwrap();
        HolderView {
            session: self.session_of(node).name.clone(),
            owner: place.owner.clone(),
            token: FencingToken(hold.token),
            granted_at: Stamp(hold.granted_at),
            hold_count: place.attempts.len() as u32,
            labels: Labels::default(),
            mode: place.held,
            permits: place.permits,
            slots: hold.slots,
            upgrading: place.mode != place.held,
            ends_at: place.ends_at().map(Stamp),
            value: place.value.clone(),
        }
    }

    fn waiter_view(&self, node: &Node) -> WaiterView {
        let place = place(node);
        WaiterView {
            session: self.session_of(node).name.clone(),
            owner: place.owner.clone(),
            ticket: Ticket(node.stat.czxid.0),
            since: node.stat.ctime,
            labels: Labels::default(),
            mode: place.mode,
            permits: place.permits,
            priority: place.priority,
            value: place.value.clone(),
            bundle: place.bundle.clone(),
        }
    }

    /// The whole lock.
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
            holders,
            waiters_total: waiters.len() as u32,
            waiters,
            last_token: last.map(FencingToken),
            floor: FencingToken(self.floor(lock)),
            policy: self.policy(lock),
            cooldown: self.cooldown(lock),
            notes: self.holders(lock).into_iter().filter_map(note).collect(),
            segments: Vec::new(),
        }
    }

    /// What the lock's fence says.
    pub(in crate::tests) fn fence(&self, lock: &LockName) -> FenceView {
        let view = self.view(lock);
        let current = view.holders.iter().map(|holder| holder.token).max();
        FenceView { current, floor: view.floor, highest: view.last_token }
    }

    /// "Somebody else holds the lock", "nobody gets it yet", or "it is kept for somebody".
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

    /// What a holder has.
    pub(super) fn grant(&self, lock: &LockName, node: &Node, renewed: bool) -> Grant {
        let (place, session) = (place(node), self.session_of(node));
        let hold = place.hold.clone().unwrap();
        Grant {
            lock: lock.clone(),
            session: session.name.clone(),
            owner: place.owner.clone(),
            ticket: Ticket(node.stat.czxid.0),
            token: FencingToken(hold.token),
            mode: place.held,
            permits: place.permits,
            slots: hold.slots,
            floor: FencingToken(self.floor(lock)),
            ends_at: place.ends_at().map(Stamp),
            ttl: session.ttl,
            hold_count: place.attempts.len() as u32,
            renewed,
            waiters: self.waiters(lock).len() as u32,
            granted_at: Stamp(hold.granted_at),
            granted_in: Revision(hold.granted_in),
            value: place.value.clone(),
        }
    }

    /// What a waiter is told, or a holder that waits to hold otherwise.
    pub(super) fn queued(&self, lock: &LockName, node: &Node) -> Queued {
        let (place, session) = (place(node), self.session_of(node));
        let mut waiters = self.waiters(lock).into_iter();
        Queued {
            lock: lock.clone(),
            ticket: Ticket(node.stat.czxid.0),
            asked: Revision(place.asked),
            ahead: waiters.position(|waiter| waiter.path == node.path).unwrap_or(0) as u32,
            holder: self.other_holder(lock, &node.path).map(Box::new),
            cooldown: self.cooldown(lock),
            mode: place.mode,
            session: SessionId(session.id),
            ttl: session.ttl,
        }
    }

    /// Waits with an end, in the order in which they were asked for: what ends them, and how long they may last.
    pub(in crate::tests) fn waits(&self) -> Vec<(Cancel, u64)> {
        let waits = self.nodes.iter().filter_map(|node| {
            let place = node.place.as_ref().filter(|place| place.waits())?;
            let cancel = Cancel {
                lock: lock_of(node),
                session: self.session_of(node).name.clone(),
                owner: place.owner.clone(),
                ticket: Ticket(node.stat.czxid.0),
                asked: Revision(place.asked),
            };
            Some((cancel, place.wait_ms?))
        });
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|(cancel, _)| cancel.asked);
        waits
    }

    /// Where a contender stands, as the answer to an acquire.
    pub(super) fn standing(&self, lock: &LockName, path: &str, renewed: bool) -> Reply {
        let node = self.find(path).unwrap();
        if place(node).waits() {
            return Reply::Queued(vec![self.queued(lock, node)]);
        }
        Reply::Granted(vec![self.grant(lock, node, renewed)])
    }
}

/// What else there is to say of a holder.
fn note(node: &Node) -> Option<HolderNote> {
    let place = place(node);
    let hold = place.hold.as_ref()?;
    let (token, release_request) = (FencingToken(hold.token), hold.asked_for.clone());
    let bundle = place.bundle.clone();
    let notable = release_request.is_some() || !bundle.is_empty();
    notable.then_some(HolderNote { token, release_request, bundle })
}
