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
        let ahead = self.waiters(&lock).into_iter().take_while(|other| other.path != node.path);
        let has_limit = self.policy(&lock).limit.is_some();
        let holders = holders.filter(|holder| {
            let shares = match (entry(holder).held, own.mode) {
                (Mode::Shared, Mode::Shared | Mode::Upgradable) => true,
                (Mode::Upgradable, Mode::Shared) => !entry(holder).waits(),
                _ => false,
            };
            has_limit || !shares || own.reader.waits_for(holder)
        });
        let is_beside = own.mode != Mode::Exclusive && own.reader == Reader::Own && !has_limit;
        let both_read = |other: &&Node| {
            is_beside && (entry(other).mode, entry(other).reader) == (Mode::Shared, Reader::Own)
        };
        ahead.filter(|other| is_one(other) && !both_read(other)).chain(holders).collect()
    }

    /// Whether an entry is never granted if the agents in `blocked` never release.
    fn is_blocked_by(&self, node: &Node, blocked: &[Agent]) -> bool {
        let in_the_way = self.in_the_way_of(node, blocked);
        // All other agents release their permits. A ZooKeeper client shares none.
        let may_share = |other: &&&Node| entry(other).reader == Reader::Own;
        match self.policy(&lock_of(node)).limit {
            Some(limit) if in_the_way.iter().all(|other| may_share(&other)) => {
                let held: u32 = in_the_way.iter().map(|other| entry(other).permits).sum();
                held + entry(node).permits > limit
            }
            Some(_) | None => !in_the_way.is_empty(),
        }
    }
}
