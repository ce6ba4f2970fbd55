//! How the model's locks look from outside.

use holdfast_types::*;

use super::locks::place;
use super::{Model, Node};

impl Model {
    /// The first who holds a lock, a place apart.
    pub(super) fn other_holder(&self, lock: &LockName, path: &str) -> Option<HolderView> {
        let holders = self.holders(lock);
        holders.into_iter().find(|node| node.path != path).map(|node| self.holder_view(node))
    }

    fn holder_view(&self, node: &Node) -> HolderView {
        let place = place(node);
        let hold = place.hold.clone().unwrap();
        HolderView {
            session: self.session_of(node).name.clone(),
            owner: place.owner.clone(),
            token: FencingToken(hold.token),
            granted_at: Stamp(hold.granted_at),
            entries: place.entries.len() as u32,
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
            bundle: Vec::new(),
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
            closed: self.closed(lock),
            notes: Vec::new(),
        }
    }

    /// What the lock's fence says.
    pub(in crate::tests) fn fence(&self, lock: &LockName) -> FenceView {
        let view = self.view(lock);
        let current = view.holders.iter().map(|holder| holder.token).max();
        FenceView { current, floor: view.floor, highest: view.last_token }
    }

    /// "Somebody else holds the lock", or "nobody gets it yet".
    pub(super) fn busy(&self, lock: &LockName, path: &str) -> Rejection {
        let waiters = self.waiters(lock).len() as u32;
        match self.other_holder(lock, path) {
            Some(holder) => Rejection::LockBusy { holder: holder.into(), waiters },
            None => Rejection::LockClosed { closed: self.closed(lock).unwrap(), waiters },
        }
    }

    /// Where a contender stands, as the answer to an acquire.
    pub(super) fn standing(&self, lock: &LockName, path: &str, renewed: bool) -> Reply {
        let node = self.find(path).unwrap();
        let place = place(node);
        let session = self.session_of(node);
        let ticket = Ticket(node.stat.czxid.0);
        let waiters = self.waiters(lock);
        match place.hold.clone().filter(|_| place.mode == place.held) {
            Some(hold) => Reply::Granted(Grant {
                lock: lock.clone(),
                session: session.name.clone(),
                owner: place.owner.clone(),
                ticket,
                token: FencingToken(hold.token),
                mode: place.mode,
                permits: place.permits,
                slots: hold.slots,
                floor: FencingToken(self.floor(lock)),
                ends_at: place.ends_at().map(Stamp),
                ttl: session.ttl,
                entries: place.entries.len() as u32,
                renewed,
                waiters: waiters.len() as u32,
                granted_at: Stamp(hold.granted_at),
                granted_in: Revision(hold.granted_in),
            }),
            None => Reply::Queued(Queued {
                ticket,
                asked: Revision(place.asked),
                ahead: waiters.iter().position(|waiter| waiter.path == path).unwrap_or(0) as u32,
                holder: self.other_holder(lock, path).map(Box::new),
                closed: self.closed(lock),
                mode: place.mode,
                session: SessionId(session.id),
                ttl: session.ttl,
            }),
        }
    }
}
