//! The model's deadlock search: a fixed point over all waiters.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{entry, lock_of};
use super::{Model, Node};

/// A session id and owner.
type Agent = (i64, Owner);

fn agent(node: &Node) -> Agent {
    (node.stat.ephemeral_owner, entry(node).owner.clone())
}

impl Model {
    /// Rejects if one of these entries is deadlocked. The cycle is left empty.
    pub(super) fn check_deadlock(&self, entries: &[(LockName, String)]) -> Result<(), Rejection> {
        let searched = |(lock, path): &&(LockName, String)| {
            let node = self.find(path).unwrap();
            self.policy(lock).detect_deadlocks && entry(node).waits()
        };
        let mut new = entries.iter().filter(searched).map(|(_, path)| self.find(path).unwrap());
        if new.any(|node| self.is_deadlocked(node)) {
            return Err(LockRejection::Deadlock { cycle: Vec::new() }.into());
        }
        Ok(())
    }

    /// Whether the agent of this entry is deadlocked, in any of its entries, and would not be without it.
    pub(super) fn closes_cycle(&self, path: &str) -> bool {
        let whose = agent(self.find(path).unwrap());
        let mut without = self.clone();
        without.nodes.retain(|node| node.path != path);
        self.is_in_cycle(&whose) && !without.is_in_cycle(&whose)
    }

    fn is_in_cycle(&self, whose: &Agent) -> bool {
        let waits = |node: &&Node| node.entry.as_ref().is_some_and(super::QueueEntry::waits);
        let mut own = self.nodes.iter().filter(waits).filter(|node| agent(node) == *whose);
        own.any(|node| self.is_deadlocked(node))
    }

    /// Whether an entry is never granted if its agent releases nothing before.
    fn is_deadlocked(&self, node: &Node) -> bool {
        let waits = |node: &&Node| node.entry.as_ref().is_some_and(super::QueueEntry::waits);
        let waiting: Vec<&Node> = self.nodes.iter().filter(waits).collect();
        let mut blocked = vec![agent(node)];
        loop {
            let more = waiting.iter().map(|other| (agent(other), other));
            let mut more = more.filter(|(agent, _)| !blocked.contains(agent));
            match more.find(|(_, other)| self.is_blocked_by(other, &blocked)) {
                Some((agent, _)) => blocked.push(agent),
                None => return self.is_blocked_by(node, &blocked),
            }
        }
    }

    /// Whether an entry is never granted if the agents in `blocked` never release.
    fn is_blocked_by(&self, node: &Node, blocked: &[Agent]) -> bool {
        let (lock, own) = (lock_of(node), entry(node));
        let is_blocked =
            |other: &&Node| agent(other) != agent(node) && blocked.contains(&agent(other));
        // The holds that remain after all other agents have released.
        let kept: Vec<&Node> = self.holders(&lock).into_iter().filter(is_blocked).collect();
        if own.hold.is_some() {
            return !kept.is_empty();
        }
        let waiters = self.waiters(&lock);
        let mut ahead = waiters.into_iter().take_while(|other| other.path != node.path);
        if ahead.any(|other| is_blocked(&other)) {
            return true;
        }
        if let Some(limit) = self.policy(&lock).limit {
            let permits: u32 = kept.iter().map(|other| entry(other).permits).sum();
            return permits + own.permits > limit;
        }
        if kept.iter().any(|other| own.reader.waits_for(other)) {
            return true;
        }
        kept.into_iter().map(entry).any(|other| match (other.held, own.mode) {
            (Mode::Shared, Mode::Shared | Mode::Upgradable) => false,
            (Mode::Upgradable, Mode::Shared) => other.waits(),
            _ => true,
        })
    }
}
