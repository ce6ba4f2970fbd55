//! The model's deadlocks: everybody is looked at, again and again, until nothing new is found.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{lock_of, place};
use super::{Model, Node};

/// Who waits and holds.
type Agent = (i64, Owner);

fn agent(node: &Node) -> Agent {
    (node.stat.ephemeral_owner, place(node).owner.clone())
}

impl Model {
    /// Refuses whoever has come to wait for itself, in one of these places. The circle is not told.
    pub(super) fn refuse_waiting_for_itself(
        &self,
        places: &[(LockName, String)],
    ) -> Result<(), Rejection> {
        let searched = |(lock, path): &&(LockName, String)| {
            let node = self.find(path).unwrap();
            self.policy(lock).detect_deadlocks && place(node).waits()
        };
        let mut new = places.iter().filter(searched).map(|(_, path)| self.find(path).unwrap());
        if new.any(|node| self.waits_for_itself(node)) {
            return Err(LockRejection::Deadlock { cycle: Vec::new() }.into());
        }
        Ok(())
    }

    /// Whether whoever has this place waits for itself, wherever that is, and would not without it.
    pub(super) fn closes_a_circle(&self, path: &str) -> bool {
        let whose = agent(self.find(path).unwrap());
        let mut without = self.clone();
        without.nodes.retain(|node| node.path != path);
        self.is_in_a_circle(&whose) && !without.is_in_a_circle(&whose)
    }

    fn is_in_a_circle(&self, whose: &Agent) -> bool {
        let waits = |node: &&Node| node.place.as_ref().is_some_and(super::Place::waits);
        let mut own = self.nodes.iter().filter(waits).filter(|node| agent(node) == *whose);
        own.any(|node| self.waits_for_itself(node))
    }

    /// Whether a place would wait for ever, if whoever has it gave nothing back before it is granted.
    fn waits_for_itself(&self, node: &Node) -> bool {
        let waits = |node: &&Node| node.place.as_ref().is_some_and(super::Place::waits);
        let waiting: Vec<&Node> = self.nodes.iter().filter(waits).collect();
        let mut lost = vec![agent(node)];
        loop {
            let more = waiting.iter().map(|other| (agent(other), other));
            let mut more = more.filter(|(agent, _)| !lost.contains(agent));
            match more.find(|(_, other)| self.waits_in_vain(other, &lost)) {
                Some((agent, _)) => lost.push(agent),
                None => return self.waits_in_vain(node, &lost),
            }
        }
    }

    /// Whether a place is never granted once these give nothing back any more.
    fn waits_in_vain(&self, node: &Node, lost: &[Agent]) -> bool {
        let (lock, own) = (lock_of(node), place(node));
        let is_lost = |other: &&Node| agent(other) != agent(node) && lost.contains(&agent(other));
        // What is held when all others have given back.
        let kept: Vec<&Node> = self.holders(&lock).into_iter().filter(is_lost).collect();
        if own.hold.is_some() {
            return !kept.is_empty();
        }
        let waiters = self.waiters(&lock);
        let mut ahead = waiters.into_iter().take_while(|other| other.path != node.path);
        if ahead.any(|other| is_lost(&other)) {
            return true;
        }
        if let Some(limit) = self.policy(&lock).limit {
            let permits: u32 = kept.iter().map(|other| place(other).permits).sum();
            return permits + own.permits > limit;
        }
        kept.into_iter().map(place).any(|other| match (other.held, own.mode) {
            (Mode::Shared, Mode::Shared | Mode::Upgradable) => false,
            (Mode::Upgradable, Mode::Shared) => other.waits(),
            _ => true,
        })
    }
}
