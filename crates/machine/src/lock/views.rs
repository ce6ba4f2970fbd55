//! Copies of grants, queue entries and holders for replies, events and reads.

use std::sync::Arc;

use holdfast_types::{
    FencingToken, Grant, HolderDetails, HolderView, Labels, LockName, LockView, Queued, Ttl,
    WaiterView,
};

use crate::Machine;
use crate::lock::index::Lock;
use crate::lock::lock_entry::LockEntry;

impl Machine {
    /// The holder's view of the lock, or `None` if the entry is still waiting.
    pub(crate) fn grant_of(
        &self,
        lock: &LockName,
        entry: &LockEntry,
        renewed: bool,
    ) -> Option<Grant> {
        let hold = entry.hold.as_deref()?;
        let indexed = self.locks.get(lock);
        Some(Grant {
            lock: lock.clone(),
            session: entry.session_name.clone(),
            owner: entry.owner.clone(),
            ticket: entry.ticket,
            token: hold.token,
            mode: hold.mode,
            permits: entry.permits,
            slots: hold.slots.to_vec(),
            floor: indexed.and_then(|lock| lock.holders.tokens()).map_or(hold.token, |t| t.0),
            ends_at: entry.ends_at(),
            ttl: self.ttl_of(entry),
            hold_count: entry.claims.count(),
            renewed,
            waiters: indexed.map_or(0, Lock::waiting),
            granted_at: hold.granted_at,
            granted_in: hold.granted_in,
            value: entry.options().value.clone(),
        })
    }

    /// The waiter's view of its entry. A holder that waits for another mode has one, too.
    pub(crate) fn queued_of(&self, lock: &LockName, entry: &LockEntry) -> Queued {
        let indexed = self.locks.get(lock);
        let waits_in = indexed.filter(|_| entry.hold.is_none());
        let holder = indexed.and_then(|indexed| self.first_holder(indexed, Some(entry)));
        let cooldowns = indexed.and_then(|indexed| indexed.cooldowns.as_ref());
        Queued {
            lock: lock.clone(),
            ticket: entry.ticket,
            requested_in: entry.requested_in,
            ahead: waits_in.map_or(0, |indexed| indexed.ahead_of(&entry.rank)),
            holder: holder.map(Box::new),
            cooldown: cooldowns.map(|cooldowns| cooldowns.longest()),
            mode: entry.mode,
            session: entry.session,
            ttl: self.ttl_of(entry),
        }
    }

    /// Returns the first holder other than this entry.
    pub(crate) fn first_holder(
        &self,
        lock: &Lock,
        except: Option<&LockEntry>,
    ) -> Option<HolderView> {
        let is_other = |holder: &&Arc<LockEntry>| {
            except.is_none_or(|except| except.sequence() != holder.sequence())
        };
        self.holder_view(lock.holders.iter().find(is_other)?)
    }

    /// The public view of a holder; `None` for a waiter.
    pub(crate) fn holder_view(&self, holder: &LockEntry) -> Option<HolderView> {
        let hold = holder.hold.as_deref()?;
        Some(HolderView {
            session: holder.session_name.clone(),
            owner: holder.owner.clone(),
            token: hold.token,
            granted_at: hold.granted_at,
            hold_count: holder.claims.count(),
            labels: self.labels_of(holder),
            mode: hold.mode,
            permits: holder.permits,
            slots: hold.slots.to_vec(),
            upgrading: holder.converts(),
            ends_at: holder.ends_at(),
            value: holder.options().value.clone(),
            durable: holder.options().durable.clone(),
        })
    }

    pub(crate) fn waiter_view(&self, waiter: &LockEntry) -> WaiterView {
        WaiterView {
            session: waiter.session_name.clone(),
            owner: waiter.owner.clone(),
            ticket: waiter.ticket,
            since: waiter.since,
            labels: self.labels_of(waiter),
            mode: waiter.mode,
            permits: waiter.permits,
            priority: waiter.options().priority,
            value: waiter.options().value.clone(),
            multi_lock: waiter.multi_lock().cloned().collect(),
        }
    }

    pub(crate) fn lock_view(
        &self,
        lock: &LockName,
        indexed: &Lock,
        holders_max: usize,
        waiters_max: usize,
    ) -> LockView {
        let holders = indexed.holders.iter().take(holders_max);
        let waiters = indexed.waiters.values().take(waiters_max);
        LockView {
            lock: lock.clone(),
            holders: holders.filter_map(|holder| self.holder_view(holder)).collect(),
            holders_total: count(indexed.holders.len() as u64),
            permits_held: count(indexed.holders.permits()),
            waiters: waiters.map(|waiter| self.waiter_view(waiter)).collect(),
            waiters_total: indexed.waiting(),
            held_since: indexed.holders.held_since(),
            waiting_since: indexed.waiting_since(),
            last_token: indexed.last_token,
            floor: self.floor_of(Some(indexed)),
            policy: *indexed.policy(),
            cooldown: indexed.cooldowns.as_ref().map(|cooldowns| cooldowns.longest()),
            notes: indexed.holders.iter().take(holders_max).filter_map(|h| note_of(h)).collect(),
            shards: Vec::new(),
            foreign_znodes: Vec::new(),
        }
    }

    /// The smallest token of a lock that is valid now or can become valid.
    pub(crate) fn floor_of(&self, lock: Option<&Lock>) -> FencingToken {
        let held = lock.and_then(|lock| lock.holders.tokens());
        held.map_or(FencingToken(self.locks.grants() + 1), |(smallest, _)| smallest)
    }

    fn ttl_of(&self, entry: &LockEntry) -> Ttl {
        self.sessions.get(entry.session).map_or(Ttl::DEFAULT, |session| session.ttl.present)
    }

    fn labels_of(&self, entry: &LockEntry) -> Labels {
        let session = self.sessions.get(entry.session);
        session.map(|session| session.labels.clone()).unwrap_or_default()
    }
}

/// Returns the release request and the multi-lock of a holder, if it has either.
fn note_of(holder: &LockEntry) -> Option<HolderDetails> {
    let release_request = holder.release_request().cloned();
    let multi_lock: Vec<LockName> = holder.multi_lock().cloned().collect();
    let token = holder.token()?;
    let notable = release_request.is_some() || !multi_lock.is_empty();
    notable.then_some(HolderDetails { token, release_request, multi_lock })
}

fn count(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
