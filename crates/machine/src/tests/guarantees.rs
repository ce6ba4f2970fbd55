//! Guarantees checked on views and events, without the model: compatible holders, no lost grants, queue order, tokens,
//! slots, and an event for every change of a hold.

use holdfast_types::{LockEvent, TreeEvent};
use std::collections::{BTreeMap, BTreeSet};

use holdfast_types::*;

pub(super) fn ensure(holds: bool, sentence: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("violated: {sentence}")) }
}

/// Checks the invariants of a lock's view after an entry.
pub(super) fn check_view(view: &LockView) -> Result<(), String> {
    let holders = &view.holders;
    let count = |mode: Mode| holders.iter().filter(|holder| holder.mode == mode).count();
    if view.policy.limit.is_none() {
        ensure(
            count(Mode::Exclusive) == 0 || holders.len() == 1,
            "an exclusive holder is the only holder",
        )?;
        ensure(count(Mode::Upgradable) <= 1, "at most one holder is upgradable")?;
        ensure(
            holders.iter().all(|holder| holder.slots.is_empty()),
            "a lock without a limit has no slots",
        )?;
    } else {
        let slots = |holder: &HolderView| holder.slots.len() == holder.permits as usize;
        ensure(holders.iter().all(slots), "each permit has a slot")?;
    }
    let slots: Vec<_> = holders.iter().flat_map(|holder| &holder.slots).collect();
    let distinct: BTreeSet<_> = slots.iter().collect();
    ensure(distinct.len() == slots.len(), "slots are distinct")?;
    let oldest = holders.iter().map(|holder| holder.token).min();
    ensure(
        oldest.is_none_or(|oldest| oldest == view.floor),
        "the floor is the smallest token of the holders",
    )?;
    let first = view.waiters.first().filter(|first| first.multi_lock.is_empty());
    ensure(
        first.is_none_or(|first| !is_granted(view, first)),
        "a waiter that can be granted is granted",
    )
}

/// Every entry has a live session. A waiting multi-lock has an entry in each of its queues, and is granted once it can
/// be.
pub(super) fn check_entries_of_sessions(
    locks: &[LockView],
    is_live: impl Fn(&SessionName) -> bool,
) -> Result<(), String> {
    for view in locks {
        let holders = view.holders.iter().map(|holder| &holder.session);
        let mut all = holders.chain(view.waiters.iter().map(|waiter| &waiter.session));
        ensure(all.all(&is_live), "every entry has a live session")?;
        for waiter in view.waiters.iter().filter(|waiter| !waiter.multi_lock.is_empty()) {
            let same = |other: &&WaiterView| {
                (&other.session, &other.owner) == (&waiter.session, &waiter.owner)
                    && (other.ticket, &other.multi_lock) == (waiter.ticket, &waiter.multi_lock)
            };
            let mut due = true;
            for lock in &waiter.multi_lock {
                let Some(view) = locks.iter().find(|view| view.lock == *lock) else {
                    return Err(format!("no view of {lock}"));
                };
                let there = view.waiters.iter().find(same);
                ensure(there.is_some(), "a waiting multi-lock has an entry in each queue")?;
                let first = view.waiters.first().filter(same);
                due &= first.is_some_and(|first| is_granted(view, first));
            }
            ensure(!due, "a multi-lock that can be granted is granted")?;
        }
    }
    Ok(())
}

/// Whether the first waiter should be granted.
fn is_granted(view: &LockView, first: &WaiterView) -> bool {
    view.cooldown.is_none() && fits(view, first)
}

/// Whether a waiter is compatible with the holders.
fn fits(view: &LockView, waiter: &WaiterView) -> bool {
    // ZooKeeper clients wait for more holders, and the model knows which: a reader for some shared ones, all of them for
    // the holders of a semaphore, and callers of a semaphore for them.
    let unnamed = waiter.owner == Owner::unnamed() && waiter.multi_lock.is_empty();
    let semaphore = view.policy.limit.is_some();
    if (unnamed && (semaphore || waiter.mode == Mode::Shared)) && !view.holders.is_empty() {
        return false;
    }
    if let Some(limit) = view.policy.limit {
        let alone = view.holders.iter().any(|holder| holder.owner == Owner::unnamed());
        return !alone && view.permits_held + waiter.permits <= limit;
    }
    let weak = view.holders.iter().all(|one| one.mode != Mode::Exclusive && !one.upgrading);
    let upgradable = view.holders.iter().any(|one| one.mode == Mode::Upgradable);
    match waiter.mode {
        Mode::Exclusive => view.holders.is_empty(),
        Mode::Shared => weak,
        Mode::Upgradable => weak && !upgradable,
    }
}

/// The state of locks as reconstructed from events alone.
#[derive(Default)]
pub(super) struct ObservedState {
    /// By token. Entries of one command share a ticket.
    holds: BTreeMap<FencingToken, (LockName, Ticket, Mode)>,
    cooldowns: BTreeMap<LockName, Cooldown>,
    /// The waiters, in order.
    queues: BTreeMap<LockName, Vec<Waiter>>,
}

type Waiter = (SessionName, Owner, Ticket);

impl ObservedState {
    /// Applies the events of an entry. The result must match the views, and no grant exceeds the limit.
    pub(super) fn observe(&mut self, applied: &Applied, locks: &[LockView]) -> Result<(), String> {
        let mut granted = BTreeSet::new();
        for (_, event) in &applied.events {
            match event {
                Event::Lock(LockEvent::Granted(grant)) => {
                    granted.insert(grant.lock.clone());
                    // An upgrade replaces the token of the hold.
                    let replaced = (&grant.lock, grant.ticket);
                    self.holds.retain(|_, (lock, ticket, _)| (&*lock, *ticket) != replaced);
                    self.hold(grant);
                }
                Event::Lock(LockEvent::ModeChanged(grant) | LockEvent::ValueChanged(grant)) => {
                    ensure(
                        self.holds.contains_key(&grant.token),
                        "a converted hold or a hold with a new value was held",
                    )?;
                    self.hold(grant);
                }
                Event::Lock(LockEvent::HoldEnded { token, .. }) => {
                    ensure(self.holds.remove(token).is_some(), "an ended hold was held")?;
                }
                Event::Lock(
                    LockEvent::ReleaseRequested { token, .. }
                    | LockEvent::BrokenByOperator { token: Some(token), .. },
                ) => {
                    ensure(self.holds.contains_key(token), "a requested or broken hold was held")?;
                }
                Event::Lock(LockEvent::PolicyChanged { lock, .. }) => {
                    // Expired timers ran before the command, under the limit of that time.
                    granted.remove(lock);
                }
                Event::Lock(LockEvent::CooldownStarted { lock, cooldown }) => {
                    self.cooldowns.insert(lock.clone(), *cooldown);
                }
                Event::Lock(LockEvent::CooldownEnded { lock }) => {
                    ensure(self.cooldowns.remove(lock).is_some(), "an ended cooldown was started")?;
                }
                Event::Tree(TreeEvent::Deleted { path, .. }) => {
                    self.cooldowns.retain(|lock, _| Some(lock) != path.as_lock().as_ref());
                }
                _ => {}
            }
        }
        for view in locks {
            let observed = self.holds.iter().filter(|(_, (lock, ..))| *lock == view.lock);
            let observed: BTreeSet<_> =
                observed.map(|(token, (.., mode))| (*token, *mode)).collect();
            let held = view.holders.iter().map(|holder| (holder.token, holder.mode));
            let held: BTreeSet<_> = held.collect();
            ensure(observed == held, "events report every holder")?;
            ensure(
                self.cooldowns.get(&view.lock) == view.cooldown.as_ref(),
                "events report cooldowns",
            )?;
            let within = view.policy.limit.is_none_or(|limit| view.permits_held <= limit);
            ensure(within || !granted.contains(&view.lock), "no grant exceeds the limit")?;
            self.check_order(applied, view)?;
        }
        Ok(())
    }

    /// No waiter is granted before an earlier waiter that keeps waiting, except by a hand-over.
    fn check_order(&mut self, applied: &Applied, view: &LockView) -> Result<(), String> {
        let now: Vec<Waiter> = view
            .waiters
            .iter()
            .map(|waiter| (waiter.session.clone(), waiter.owner.clone(), waiter.ticket))
            .collect();
        let handed = match &applied.outcomes[0] {
            Ok(Reply::HandedOver(grant)) => Some(grant.token),
            _ => None,
        };
        let before = self.queues.insert(view.lock.clone(), now.clone()).unwrap_or_default();
        for (_, event) in &applied.events {
            let Event::Lock(LockEvent::Granted(grant)) = event else { continue };
            let granted = (grant.session.clone(), grant.owner.clone(), grant.ticket);
            let at = before.iter().position(|waiter| *waiter == granted);
            let at = at.filter(|_| grant.lock == view.lock && Some(grant.token) != handed);
            let mut ahead = before.iter().take(at.unwrap_or(0));
            ensure(!ahead.any(|waiter| now.contains(waiter)), "waiters are granted in order")?;
        }
        Ok(())
    }

    fn hold(&mut self, grant: &Grant) {
        self.holds.insert(grant.token, (grant.lock.clone(), grant.ticket, grant.mode));
    }
}
