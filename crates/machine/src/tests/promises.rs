//! The promises as sentences about what can be seen of a lock, without the model: who may hold beside whom, that nobody
//! waits in vain, whose turn it is, whose token and slot is whose, and that events tell every change of a hold.

use holdfast_types::{LockEvent, TreeEvent};
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
    let first = view.waiters.first().filter(|first| first.bundle.is_empty());
    ensure(first.is_none_or(|first| !is_granted(view, first)), "no grant is lost")
}

/// Nobody has a place without a live session, and whoever asked for several waits in all those queues, unless all of them
/// could be granted.
pub(super) fn no_orphan(
    locks: &[LockView],
    is_live: impl Fn(&SessionName) -> bool,
) -> Result<(), String> {
    for view in locks {
        let holders = view.holders.iter().map(|holder| &holder.session);
        let mut all = holders.chain(view.waiters.iter().map(|waiter| &waiter.session));
        ensure(all.all(&is_live), "whoever has a place lives")?;
        for waiter in view.waiters.iter().filter(|waiter| !waiter.bundle.is_empty()) {
            let same = |other: &&WaiterView| {
                (&other.session, &other.owner) == (&waiter.session, &waiter.owner)
                    && (other.ticket, &other.bundle) == (waiter.ticket, &waiter.bundle)
            };
            let mut due = true;
            for lock in &waiter.bundle {
                let Some(view) = locks.iter().find(|view| view.lock == *lock) else {
                    return Err(format!("nobody looks at {lock}"));
                };
                let there = view.waiters.iter().find(same);
                ensure(there.is_some(), "whoever waits for several waits in all queues")?;
                let first = view.waiters.first().filter(same);
                due &= first.is_some_and(|first| is_granted(view, first));
            }
            ensure(!due, "no grant of several is lost")?;
        }
    }
    Ok(())
}

/// Whether the first in line is to be granted the lock.
fn is_granted(view: &LockView, first: &WaiterView) -> bool {
    view.cooldown.is_none() && fits(view, first)
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
    cooldowns: BTreeMap<LockName, Cooldown>,
    /// Who waits, in order.
    queues: BTreeMap<LockName, Vec<Waiter>>,
}

type Waiter = (SessionName, Owner, Ticket);

impl Told {
    /// Hears what an entry changed. It must lead to the locks as they are, and no grant goes beyond the limit.
    pub(super) fn hear(&mut self, applied: &Applied, locks: &[LockView]) -> Result<(), String> {
        let mut granted = BTreeSet::new();
        for (_, event) in &applied.events {
            match event {
                Event::Lock(LockEvent::Granted(grant)) => {
                    granted.insert(grant.lock.clone());
                    let upgraded = (grant.lock.clone(), grant.ticket, Mode::Upgradable);
                    self.holds.retain(|_, hold| grant.mode != Mode::Exclusive || *hold != upgraded);
                    self.hold(grant);
                }
                Event::Lock(LockEvent::ModeChanged(grant) | LockEvent::ValueChanged(grant)) => {
                    ensure(
                        self.holds.contains_key(&grant.token),
                        "what is converted or shown was held",
                    )?;
                    self.hold(grant);
                }
                Event::Lock(LockEvent::HoldEnded { token, .. }) => {
                    ensure(self.holds.remove(token).is_some(), "what is lost was held")?;
                }
                Event::Lock(
                    LockEvent::ReleaseRequested { token, .. }
                    | LockEvent::BrokenByOperator { token: Some(token), .. },
                ) => {
                    ensure(self.holds.contains_key(token), "what is asked for or broken was held")?;
                }
                Event::Lock(LockEvent::PolicyChanged { lock, .. }) => {
                    // Expired timers of the lock ran before the command, under the limit of that time.
                    granted.remove(lock);
                }
                Event::Lock(LockEvent::CooldownStarted { lock, cooldown }) => {
                    self.cooldowns.insert(lock.clone(), *cooldown);
                }
                Event::Lock(LockEvent::CooldownEnded { lock }) => {
                    ensure(
                        self.cooldowns.remove(lock).is_some(),
                        "a cooldown that ends began before",
                    )?;
                }
                Event::Tree(TreeEvent::Deleted { path }) => {
                    self.cooldowns.retain(|lock, _| Some(lock) != path.as_lock().as_ref());
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
            ensure(
                self.cooldowns.get(&view.lock) == view.cooldown.as_ref(),
                "events report cooldowns",
            )?;
            let within = view.policy.limit.is_none_or(|limit| view.permits_held <= limit);
            ensure(within || !granted.contains(&view.lock), "no grant goes beyond the limit")?;
            self.keep_turns(applied, view)?;
        }
        Ok(())
    }

    /// Of those who waited nobody is granted past another one that still does, unless a hold is handed to it.
    fn keep_turns(&mut self, applied: &Applied, view: &LockView) -> Result<(), String> {
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
            ensure(!ahead.any(|waiter| now.contains(waiter)), "everybody in turn")?;
        }
        Ok(())
    }

    fn hold(&mut self, grant: &Grant) {
        self.holds.insert(grant.token, (grant.lock.clone(), grant.ticket, grant.mode));
    }
}
