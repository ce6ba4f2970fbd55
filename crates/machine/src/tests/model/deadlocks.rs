//! The model's deadlock search: the largest set of agents that wait only for one another, found by removal from all.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{Reader, entry, lock_of};
use super::{Model, Node};

/// A session id and owner.
type Agent = (i64, Owner);

fn agent(node: &Node) -> Agent {
    (node.stat.ephemeral_owner, entry(node).owner.clone())
}

/// Whether others may hold beside this entry once it is first. A ZooKeeper client is alone, and a multi-lock gets no lock
/// before it gets all.
fn becomes_a_holder(node: &Node) -> bool {
    let own = entry(node);
    own.reader == Reader::Own && (own.hold.is_some() || own.multi_lock.is_empty())
}

impl Model {
    /// Rejects if one of these new entries is deadlocked, or closes a cycle of another wait of its agent. The cycle is left
    /// empty.
    pub(super) fn check_deadlock(
        &self,
        entries: &[(LockName, String)],
        before: &Self,
    ) -> Result<(), Rejection> {
        let searched = |(lock, _): &&(LockName, String)| self.policy(lock).detect_deadlocks;
        let mut new = entries.iter().filter(searched).map(|(_, path)| self.find(path).unwrap());
        let is_deadlocked = |node: &Node| entry(node).waits() && self.is_deadlocked(node);
        if new.any(|node| is_deadlocked(node) || self.closes_cycle(node, before)) {
            return Err(LockRejection::Deadlock { cycle: Vec::new() }.into());
        }
        Ok(())
    }

    /// Whether the agent of this entry is deadlocked, in any of its entries, and was not before.
    pub(super) fn closes_cycle(&self, node: &Node, before: &Self) -> bool {
        let whose = agent(node);
        self.is_in_cycle(&whose) && !before.is_in_cycle(&whose)
    }

    fn is_in_cycle(&self, whose: &Agent) -> bool {
        let waits = |node: &&Node| node.entry.as_ref().is_some_and(super::QueueEntry::waits);
        let mut own = self.nodes.iter().filter(waits).filter(|node| agent(node) == *whose);
        own.any(|node| self.is_deadlocked(node))
    }

    /// Whether the agent of an entry is in a cycle that the entry closes: no agent of a set is granted anything before one
    /// of them releases, and a chain of their waits leads from the entry back to its agent.
    fn is_deadlocked(&self, node: &Node) -> bool {
        let waits = |node: &&Node| node.entry.as_ref().is_some_and(super::QueueEntry::waits);
        let mut waiting: Vec<&Node> = self.nodes.iter().filter(waits).collect();
        loop {
            let blocked: Vec<Agent> = waiting.iter().map(|other| agent(other)).collect();
            waiting.retain(|other| self.is_blocked_by(other, &blocked));
            if waiting.len() == blocked.len() {
                break;
            }
        }
        let mut leading_back = vec![agent(node)];
        loop {
            let known = |other: &&&Node| leading_back.contains(&agent(other));
            let leads = |other: &&&Node| !self.in_the_way_of(other, &leading_back).is_empty();
            match waiting.iter().filter(|other| !known(other)).find(leads) {
                Some(other) => leading_back.push(agent(other)),
                None => break,
            }
        }
        let is_in = waiting.iter().any(|other| other.path == node.path);
        is_in && !self.in_the_way_of(node, &leading_back).is_empty()
    }

    /// The holders and the earlier waiters among these agents for which an entry waits, even if they do not suffice to
    /// block it.
    fn in_the_way_of<'a>(&'a self, node: &'a Node, agents: &[Agent]) -> Vec<&'a Node> {
        let (lock, own) = (lock_of(node), entry(node));
        let is_one = |other: &&Node| agent(other) != agent(node) && agents.contains(&agent(other));
        let holders = self.holders(&lock).into_iter().filter(is_one);
        if own.hold.is_some() {
            return holders.collect();
        }
        let waiters = self.waiters(&lock).into_iter();
        let ahead: Vec<&Node> = waiters.take_while(|other| other.path != node.path).collect();
        let is_upgradable = |other: &&&Node| entry(other).mode == Mode::Upgradable;
        let last_upgradable = ahead.iter().rfind(is_upgradable).map(|last| &last.path);
        // A reader behind a waiter for an upgradable lock waits for what that one waits for.
        let wanted = match own.mode {
            Mode::Shared if last_upgradable.is_some() => Mode::Upgradable,
            mode => mode,
        };
        let has_limit = self.policy(&lock).limit.is_some();
        let holders = holders.filter(|holder| {
            let shares = match (entry(holder).held, wanted) {
                (Mode::Shared, Mode::Shared | Mode::Upgradable) => true,
                (Mode::Upgradable, Mode::Shared) => !entry(holder).waits(),
                _ => false,
            };
            has_limit || !shares || own.reader.waits_for(holder)
        });
        let is_beside = own.mode != Mode::Exclusive && own.reader == Reader::Own && !has_limit;
        let is_admitted = |other: &&Node| {
            let by_mode = match entry(other).mode {
                Mode::Shared => true,
                Mode::Upgradable => {
                    own.mode == Mode::Shared && last_upgradable == Some(&other.path)
                }
                Mode::Exclusive => false,
            };
            is_beside && by_mode && becomes_a_holder(other)
        };
        let ahead = ahead.into_iter().filter(|other| is_one(other) && !is_admitted(other));
        ahead.chain(holders).collect()
    }

    /// Whether an entry is never granted if the agents in `blocked` never release.
    fn is_blocked_by(&self, node: &Node, blocked: &[Agent]) -> bool {
        let in_the_way = self.in_the_way_of(node, blocked);
        // All other agents release their permits.
        let may_share = |other: &&&Node| becomes_a_holder(other);
        match self.policy(&lock_of(node)).limit {
            Some(limit) if in_the_way.iter().all(|other| may_share(&other)) => {
                let held: u32 = in_the_way.iter().map(|other| entry(other).permits).sum();
                held + entry(node).permits > limit
            }
            Some(_) | None => !in_the_way.is_empty(),
        }
    }
}
