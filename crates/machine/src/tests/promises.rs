//! The promises as sentences about what can be seen of a lock, without the model: who may hold beside whom, that nobody
//! waits in vain, whose turn it is, whose token and slot is whose, and that events tell every change of a hold.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_types::*;

pub(super) fn ensure(holds: bool, sentence: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {sentence}")) }
}

/// What must be so of a lock after every entry, whatever it was before.
pub(super) fn keeps(view: &LockView) -> Result<(), String> {
    let holders = &view.holders;
    let of = |mode: Mode| holders.iter().filter(|holder| holder.mode == mode).count();
    if view.policy.limit.is_none() {
        ensure(of(Mode::Exclusive) == 0 || holders.len() == 1, "an exclusive holder is alone")?;
        ensure(of(Mode::Upgradable) <= 1, "there is one upgradable holder")?;
        ensure(holders.iter().all(|holder| holder.slots.is_empty()), "a lock has no slots")?;
    } else {
        let slots = |holder: &HolderView| holder.slots.len() == holder.permits as usize;
        ensure(holders.iter().all(slots), "each permit has a slot")?;
    }
    let slots: Vec<_> = holders.iter().flat_map(|holder| &holder.slots).collect();
    let distinct: BTreeSet<_> = slots.iter().collect();
    ensure(distinct.len() == slots.len(), "slots are distinct")?;
    let oldest = holders.iter().map(|holder| holder.token).min();
    ensure(oldest.is_none_or(|oldest| oldest == view.floor), "the floor is the oldest grant's")?;
    let first = view.waiters.first().filter(|_| view.closed.is_none());
    ensure(first.is_none_or(|first| !fits(view, first)), "no grant is lost")
}

/// Whether a waiter could hold beside those who do.
fn fits(view: &LockView, waiter: &WaiterView) -> bool {
    if let Some(limit) = view.policy.limit {
        return view.permits_held + waiter.permits <= limit;
    }
    let weak = view.holders.iter().all(|one| one.mode != Mode::Exclusive && !one.upgrading);
    let upgradable = view.holders.iter().any(|one| one.mode == Mode::Upgradable);
    match waiter.mode {
        Mode::Exclusive => view.holders.is_empty(),
        Mode::Shared => weak,
        Mode::Upgradable => weak && !upgradable,
    }
}

/// What somebody who only listens to events knows of locks.
#[derive(Default)]
pub(super) struct Told {
    /// By token. Places that one command made share a ticket.
    holds: BTreeMap<FencingToken, (LockName, Ticket, Mode)>,
    closed: BTreeMap<LockName, Closed>,
}

impl Told {
    /// Hears what an entry changed. It must lead to the locks as they are, and no grant goes beyond the limit.
    pub(super) fn hear(&mut self, applied: &Applied, locks: &[LockView]) -> Result<(), String> {
        let mut granted = BTreeSet::new();
        for (_, event) in &applied.events {
            match event {
                Event::Granted(grant) => {
                    granted.insert(grant.lock.clone());
                    let upgraded = (grant.lock.clone(), grant.ticket, Mode::Upgradable);
                    self.holds.retain(|_, hold| grant.mode != Mode::Exclusive || *hold != upgraded);
                    self.hold(grant);
                }
                Event::Converted(grant) => {
                    ensure(self.holds.contains_key(&grant.token), "what is converted was held")?;
                    self.hold(grant);
                }
                Event::Lost { token, .. } => {
                    ensure(self.holds.remove(token).is_some(), "what is lost was held")?;
                }
                Event::Closed { lock, closed } => {
                    self.closed.insert(lock.clone(), *closed);
                }
                Event::Opened { lock } => {
                    ensure(self.closed.remove(lock).is_some(), "what opens was closed")?;
                }
                Event::NodeDeleted { path } => {
                    self.closed.retain(|lock, _| Some(lock) != path.as_lock().as_ref());
                }
                _ => {}
            }
        }
        for view in locks {
            let told = self.holds.iter().filter(|(_, (lock, ..))| *lock == view.lock);
            let told: BTreeSet<_> = told.map(|(token, (.., mode))| (*token, *mode)).collect();
            let held = view.holders.iter().map(|holder| (holder.token, holder.mode));
            let held: BTreeSet<_> = held.collect();
            ensure(told == held, "events tell who holds")?;
            ensure(self.closed.get(&view.lock) == view.closed.as_ref(), "events tell closings")?;
            let within = view.policy.limit.is_none_or(|limit| view.permits_held <= limit);
            ensure(within || !granted.contains(&view.lock), "no grant goes beyond the limit")?;
        }
        Ok(())
    }

    fn hold(&mut self, grant: &Grant) {
        self.holds.insert(grant.token, (grant.lock.clone(), grant.ticket, grant.mode));
    }
}
