//! Applies the same history to a machine and to the model; outcomes, events and views must agree.

use holdfast_types::{LockEvent, LockRejection, TreeEvent};
use std::collections::BTreeSet;

use holdfast_types::*;

use super::deadlocks;
use super::guarantees::{self, ensure};
use super::history::Move;
use super::model::{Model, named_by};
use super::recipe;
use super::script_commands::{lock_name, path, session_name};
use crate::Machine;
use crate::tree::quota::Usage;
use crate::tree::znode::Acl;

/// The locks and sessions of the histories.
const LOCKS: [&str; 4] = ["a", "a/c", "b", "s"];
const SESSIONS: [&str; 9] = ["n1", "n2", "s1", "s2", "s3", "s4", "s5", "durable!s1", "durable!s2"];

/// A machine and its model.
pub(super) struct Trial {
    pub(super) machine: Machine,
    pub(super) model: Model,
    /// Every command, with its stamp.
    pub(super) commands: Vec<(u64, Command)>,
    frozen: Vec<(Machine, u64)>,
    stamp: u64,
    /// The last token granted.
    token: u64,
    /// The directory and sequence number of every queue entry so far.
    positions: BTreeSet<(ZnodePath, u64)>,
    observed: guarantees::ObservedState,
}

impl Trial {
    pub(super) fn new() -> Self {
        let machine = Machine::new();
        let (commands, frozen) = (Vec::new(), Vec::new());
        let (model, positions, observed) =
            (Model::new(), BTreeSet::new(), guarantees::ObservedState::default());
        Self { machine, model, commands, frozen, stamp: 0, token: 0, positions, observed }
    }

    /// Runs a whole history; the first disagreement is the error.
    pub(super) fn run(history: &[Move]) -> Result<Self, String> {
        let mut trial = Self::new();
        for op in history {
            trial.step(op).map_err(|what| format!("at {op:?}: {what}"))?;
        }
        for (machine, digest) in &trial.frozen {
            ensure(machine.state_digest() == *digest, "a frozen view does not change")?;
        }
        Ok(trial)
    }

    pub(super) fn step(&mut self, op: &Move) -> Result<(), String> {
        match op {
            Move::Reload => return self.reload(),
            Move::Freeze => {
                self.frozen.push((self.machine.clone(), self.machine.state_digest()));
                return Ok(());
            }
            Move::Wait(time) => self.stamp += time,
            Move::RetryAll(count) => {
                let from = self.commands.len().saturating_sub(*count);
                let again = self.commands[from..].to_vec();
                return again.into_iter().try_for_each(|(_, command)| self.command(command));
            }
            Move::RetryFrom(from, count) => {
                let again = self.commands.iter().skip(from % self.commands.len().max(1));
                let again: Vec<_> = again.take(*count).cloned().collect();
                return again.into_iter().try_for_each(|(_, command)| self.command(command));
            }
            Move::Command(_)
            | Move::Multi(_)
            | Move::Operator(_)
            | Move::Recipe(_)
            | Move::CancelArrival(..)
            | Move::Attach(..)
            | Move::Close(..)
            | Move::CloseByIncarnation(..)
            | Move::Cancel(..)
            | Move::Convert(..)
            | Move::Release(..)
            | Move::Reacquire(..)
            | Move::UrgentAtTimer(..)
            | Move::LowerLimit(..)
            | Move::TreeAcquire(..)
            | Move::AdvanceToTimer(..)
            | Move::Acknowledge(..)
            | Move::Due(..)
            | Move::Expire(..)
            | Move::Retry(_) => {}
        }
        self.stamp = self.stamp.max(op.stamp(&self.model));
        let before: Vec<_> = self.commands.iter().map(|(_, command)| command.clone()).collect();
        match op.command(&self.model, &before) {
            Some(command) => self.command(command),
            None => Ok(()),
        }
    }

    fn command(&mut self, command: Command) -> Result<(), String> {
        self.commands.push((self.stamp, command.clone()));
        let entry = Entry { stamped_at: Stamp(self.stamp), commands: vec![command.clone()] };
        let paths: BTreeSet<_> = self.model.nodes.iter().map(|node| path(&node.path)).collect();
        let before = self.machine.clone();
        let applied = self.machine.apply(entry);
        let outcome = &applied.outcomes[0];
        let expected = self.model.apply(self.stamp, command.clone());
        match (outcome, &expected) {
            (
                Err(Rejection::Lock(LockRejection::Deadlock { cycle })),
                Err(Rejection::Lock(LockRejection::Deadlock { .. })),
            ) => {
                // The model names no cycle.
                deadlocks::check_cycle(&before, Stamp(self.stamp), &command, cycle)?;
            }
            _ if *outcome != expected => {
                return Err(format!("outcome {outcome:?}\nexpected {expected:?}"));
            }
            _ => {}
        }
        self.machine.check_invariants()?;
        self.check_grants(&applied)?;
        self.check_events(paths, &applied)?;
        let locks = LOCKS.map(|lock| self.machine.lock(&lock_name(lock), usize::MAX));
        self.observed.observe(&applied, &locks)?;
        guarantees::check_entries_of_sessions(&locks, |session| {
            self.model.live(session).is_some()
        })?;
        let timers =
            outcome.is_ok() || self.are_of_timers(before, &command.into_parts().2, &applied);
        ensure(timers, "a rejected command changes nothing beyond expired timers")?;
        self.compare()
    }

    /// Whether a command emitted only the events of the expired timers of the locks that it names.
    fn are_of_timers(&self, mut before: Machine, command: &Command, applied: &Applied) -> bool {
        let mut expected = Vec::new();
        for lock in named_by(command) {
            if !before.timers_until(Stamp(self.stamp), usize::MAX).contains(&lock) {
                continue;
            }
            let commands = vec![Command::RunTimers { lock }];
            let stamped_at = Stamp(self.stamp);
            expected.extend(before.apply(Entry { stamped_at, commands }).events);
        }
        let kinds = |events: &[(Revision, Event)]| -> Vec<_> {
            events.iter().map(|(_, event)| std::mem::discriminant(event)).collect()
        };
        kinds(&applied.events) == kinds(&expected)
    }

    /// Guarantee 2: tokens strictly increase, and the grants match the model.
    fn check_grants(&mut self, applied: &Applied) -> Result<(), String> {
        let mut granted = Vec::new();
        for (_, event) in &applied.events {
            if let Event::Lock(LockEvent::Granted(grant)) = event {
                ensure(grant.token.0 > self.token, "tokens strictly increase")?;
                self.token = grant.token.0;
                granted.push((grant.lock.clone(), grant.session.clone(), grant.token.0));
            }
        }
        if granted != self.model.granted {
            return Err(format!("grants {granted:?}\nexpected {:?}", self.model.granted));
        }
        Ok(())
    }

    /// The events of znodes match the changes of the tree, and no sequence number of an entry repeats.
    fn check_events(
        &mut self,
        mut paths: BTreeSet<ZnodePath>,
        applied: &Applied,
    ) -> Result<(), String> {
        // An entry that a hand-over creates has the giver's sequence number; one that an upgrade renames keeps its own.
        let again = |position: &(ZnodePath, u64), created: &ZnodePath| {
            matches!(applied.outcomes[0], Ok(Reply::HandedOver(_)))
                || applied.events.iter().any(|(_, event)| {
                    let Event::Tree(TreeEvent::Deleted { path, .. }) = event else { return false };
                    let sequence =
                        path.file_name().get(..10).and_then(|digits| digits.parse().ok());
                    path != created
                        && path.parent().as_ref() == Some(&position.0)
                        && sequence == Some(position.1)
                })
        };
        for (_, event) in &applied.events {
            match event {
                Event::Tree(TreeEvent::Created { path }) => {
                    ensure(paths.insert(path.clone()), "a created znode did not exist")?;
                    let node = self.machine.tree.get(path);
                    if let Some(entry) = node.and_then(|node| node.entry()) {
                        let position = (path.parent().unwrap(), entry.sequence());
                        let new = self.positions.insert(position.clone());
                        ensure(
                            new || again(&position, path),
                            "the sequence number of an entry is unique",
                        )?;
                    }
                }
                Event::Tree(TreeEvent::Deleted { path, .. }) => {
                    ensure(paths.remove(path), "a deleted znode existed")?;
                }
                Event::Tree(TreeEvent::DataChanged { path }) => {
                    ensure(paths.contains(path), "a changed znode existed")?;
                }
                _ => {}
            }
        }
        let are: BTreeSet<_> = self.model.nodes.iter().map(|node| path(&node.path)).collect();
        ensure(paths == are, "events report every change of the tree")
    }

    fn reload(&mut self) -> Result<(), String> {
        let loaded = Machine::load(self.machine.dump()).map_err(|error| error.to_string())?;
        ensure(loaded.state_digest() == self.machine.state_digest(), "a reload keeps the state")?;
        ensure(loaded.digest() == self.machine.digest(), "a reload keeps the rolling digest")?;
        self.machine = loaded;
        self.compare()
    }

    fn compare(&self) -> Result<(), String> {
        for node in &self.model.nodes {
            let found = self.machine.tree.get(&path(&node.path));
            let acl = |acl: &Acl| acl.as_ref().map(|list| list.entries().to_vec());
            let same = found.as_ref().is_some_and(|found| {
                found.stat() == node.stat
                    && *found.data == *node.data
                    && acl(&found.acl) == node.acl
                    && found.counter() == node.counter()
            });
            if !same {
                return Err(format!("{} is {found:?}\nexpected {node:?}", node.path));
            }
        }
        for (top, _) in self.model.quotas() {
            let (count, bytes) = self.model.used(&top);
            let used = self.machine.tree.used(&path(&top));
            ensure(used == Some(Usage { count, bytes }), "quota usage matches")?;
        }
        let paths = |views: &mut dyn Iterator<Item = SubtreeQuotaView>| {
            views.map(|view| view.path.to_string()).collect::<Vec<_>>()
        };
        let raised = [
            paths(&mut self.machine.quotas_above_soft_limit()),
            paths(&mut self.machine.quotas_near_hard_limit()),
        ];
        ensure(raised == self.model.raised_quotas(), "the raised quotas match")?;
        let counts = self.machine.counts();
        ensure(counts.znodes == self.model.nodes.len() as u64, "the number of znodes matches")?;
        ensure(counts.grants == self.model.grants, "the number of grants matches")?;
        ensure(
            counts.sessions == self.model.sessions.len() as u64,
            "the number of sessions matches",
        )?;
        LOCKS.iter().try_for_each(|lock| self.compare_lock(&lock_name(lock)))?;
        self.compare_timers()?;
        self.compare_waits()?;
        self.compare_leases()?;
        recipe::properties::compare(&self.machine, &self.model.recipes)?;
        SESSIONS.iter().try_for_each(|session| self.compare_session(&session_name(session)))
    }

    fn compare_lock(&self, lock: &LockName) -> Result<(), String> {
        let (view, expected) = (self.machine.lock(lock, usize::MAX), self.model.view(lock));
        if view != expected {
            return Err(format!("{lock} is {view:?}\nexpected {expected:?}"));
        }
        ensure(self.machine.fence(lock) == self.model.fence(lock), "the fence matches")?;
        guarantees::check_view(&view)
    }

    /// The machine lists every timer, so that the leader can run it.
    fn compare_timers(&self) -> Result<(), String> {
        let pending_timers = self.model.pending_timers();
        let next = self.machine.next_timer().map(|due| due.0);
        ensure(next == pending_timers.first().map(|(due, _)| *due), "the next timer matches")?;
        let due = self.machine.timers_until(Stamp(u64::MAX), usize::MAX);
        ensure(
            due == pending_timers.into_iter().map(|(_, lock)| lock).collect::<Vec<_>>(),
            "all timers match",
        )
    }

    /// The machine lists every wait with a deadline, so that the leader can end it.
    fn compare_waits(&self) -> Result<(), String> {
        let waits = self.machine.waits_after(Revision(0), usize::MAX).into_iter();
        let waits: Vec<_> = waits.map(|wait| (wait.cancel, wait.wait_ms)).collect();
        ensure(waits == self.model.waits(), "all waits with a deadline match")
    }

    /// A new leader gives each session the longest TTL on which a caller may rely.
    fn compare_leases(&self) -> Result<(), String> {
        self.machine.leases().try_for_each(|lease| {
            let name = self.machine.session_name(lease.session).expect("a live session");
            let relied = self.model.longest_ttl(&name);
            let relied =
                relied.is_some_and(|(least, most)| (least..=most).contains(&lease.longest_ttl));
            if relied { Ok(()) } else { Err(format!("{name} has {lease:?}")) }
        })
    }

    fn compare_session(&self, name: &SessionName) -> Result<(), String> {
        let status = self.machine.session(name);
        let same = match (&status, self.model.live(name)) {
            (SessionStatus::Open(view), Some(session)) => {
                view.id.0 == session.id
                    && view.ttl == session.ttl
                    && view.generation == session.generation
                    && self.machine.attached(view.id).map(|at| at.0) == session.attachment
                    && self.machine.ephemerals(view.id, "/") == self.model.ephemerals(view.id)
            }
            (SessionStatus::Open(_), None) | (_, Some(_)) => false,
            (SessionStatus::Expired, None) => self.model.end_of(name) == Some(SessionEnd::Expired),
            (SessionStatus::Closed, None) => self.model.end_of(name) == Some(SessionEnd::Closed),
            (SessionStatus::Unknown, None) => self.model.end_of(name).is_none(),
        };
        if same { Ok(()) } else { Err(format!("session {name} is {status:?}")) }
    }
}
