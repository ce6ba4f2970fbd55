//! How contenders look from outside: grants, places, holders, waiters.
//!
//! Owns the copies that answers and events carry. Refuses to change anything.

use holdfast_types::{Grant, HolderView, Labels, LockName, Queued, Ttl, WaiterView};

use crate::Machine;
use crate::contender::Contender;
use crate::locks::Lock;

impl Machine {
    /// A hold as its holder sees it; none of a waiter.
    pub(crate) fn grant_of(
        &self,
        lock: &LockName,
        contender: &Contender,
        renewed: bool,
    ) -> Option<Grant> {
        let hold = contender.hold?;
        Some(Grant {
            lock: lock.clone(),
            session: contender.session_name.clone(),
            owner: contender.owner.clone(),
            ticket: contender.ticket,
            token: hold.token,
            ttl: self.sessions.get(contender.session).map_or(Ttl::DEFAULT, |session| session.ttl),
            entries: contender.entries.count(),
            renewed,
            waiters: self.locks.get(lock).map_or(0, Lock::waiting),
            granted_at: hold.granted_at,
            granted_in: hold.granted_in,
        })
    }

    /// A place as its waiter sees it; none of a holder.
    pub(crate) fn queued_of(&self, lock: &LockName, contender: &Contender) -> Option<Queued> {
        let indexed = self.locks.get(lock)?;
        Some(Queued {
            ticket: contender.ticket,
            asked: contender.asked,
            ahead: indexed.ahead_of(contender.sequence),
            holder: self.holder_view(indexed)?,
            session: contender.session,
            ttl: self.sessions.get(contender.session)?.ttl,
        })
    }

    /// The holder as others see it; none if the lock is free.
    pub(crate) fn holder_view(&self, lock: &Lock) -> Option<HolderView> {
        let holder = lock.holder.as_ref()?;
        let hold = holder.hold?;
        Some(HolderView {
            session: holder.session_name.clone(),
            owner: holder.owner.clone(),
            token: hold.token,
            granted_at: hold.granted_at,
            entries: holder.entries.count(),
            labels: self.labels_of(holder),
        })
    }

    /// A waiter as others see it.
    pub(crate) fn waiter_view(&self, waiter: &Contender) -> WaiterView {
        WaiterView {
            session: waiter.session_name.clone(),
            owner: waiter.owner.clone(),
            ticket: waiter.ticket,
            since: waiter.since,
            labels: self.labels_of(waiter),
        }
    }

    fn labels_of(&self, contender: &Contender) -> Labels {
        let session = self.sessions.get(contender.session);
        session.map(|session| session.labels.clone()).unwrap_or_default()
    }
}
