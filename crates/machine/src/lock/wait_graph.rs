//! The graph of agents and their waits, and the cycle through agent 0.
//!
//! A wait is blocked if blocked agents take more than its slack, and an agent is blocked if one of its waits is. The
//! blocked agents are the largest set for which this is true: they wait only for one another. An agent outside of the set
//! can proceed. Cost: a few steps for each agent, wait and block.

use std::collections::{BTreeMap, VecDeque};

use holdfast_types::LockName;

/// One wait of an agent.
#[derive(Debug)]
struct PendingWait<'a> {
    agent: usize,
    lock: &'a LockName,
    /// Permits of a semaphore that may stay held without blocking this wait, or shards that may stay blocked; 0 on a lock.
    slack: u64,
    /// The sum of what the blocked agents take from the slack.
    taken: u128,
    /// The wait that the caller would add.
    new: bool,
    /// The agent through which the wait leads back to agent 0.
    leads_to: Option<usize>,
}

impl PendingWait<'_> {
    fn is_blocked(&self) -> bool {
        self.taken > self.slack.into()
    }
}

/// Agents and waits, each numbered from 0.
#[derive(Debug, Default)]
pub(super) struct WaitGraph<'a> {
    waits: Vec<PendingWait<'a>>,
    /// For each agent, the waits that it blocks, and what it takes from the slack of each.
    blocks: Vec<Vec<(usize, u64)>>,
}

impl<'a> WaitGraph<'a> {
    pub(super) fn add_agent(&mut self) {
        self.blocks.push(Vec::new());
    }

    pub(super) fn add_wait(&mut self, agent: usize, lock: &'a LockName, new: bool) -> usize {
        self.waits.push(PendingWait { agent, lock, slack: 0, taken: 0, new, leads_to: None });
        self.waits.len() - 1
    }

    pub(super) fn set_slack(&mut self, wait: usize, slack: u64) {
        if let Some(wait) = self.waits.get_mut(wait) {
            wait.slack = slack;
        }
    }

    pub(super) fn agent_of(&self, wait: usize) -> Option<usize> {
        self.waits.get(wait).map(|wait| wait.agent)
    }

    pub(super) fn block(&mut self, wait: usize, agent: usize, weight: u64) {
        if let Some(blocks) = self.blocks.get_mut(agent) {
            blocks.push((wait, weight));
        }
    }

    /// Finds a cycle of blocked waits that begins with a new wait of agent 0, otherwise with another one. Returns whether it
    /// is a new one, and the agents with their locks. The search is breadth-first, from agent 0 back along the blocked waits.
    /// An agent within the slack of a wait is in the cycle only if no agent beyond it is.
    pub(super) fn cycle(mut self) -> Option<(bool, Vec<(usize, &'a LockName)>)> {
        self.find_blocked_waits();
        let mut of_earlier = None;
        let mut via: BTreeMap<usize, usize> = BTreeMap::new();
        let (mut leading_back, mut within_slack) = (VecDeque::from([0]), VecDeque::new());
        loop {
            let (agent, blocks) = if let Some(agent) = leading_back.pop_front() {
                (agent, self.blocks.get_mut(agent).map(std::mem::take).unwrap_or_default())
            } else {
                let Some((agent, at)) = within_slack.pop_front() else {
                    return of_earlier.map(|at| (false, self.chain(at, &via)));
                };
                (agent, vec![(at, u64::MAX)])
            };
            for (at, weight) in blocks {
                let wait = self.waits.get_mut(at).filter(|wait| wait.is_blocked());
                let Some(wait) = wait.filter(|wait| wait.leads_to.is_none()) else { continue };
                if wait.slack >= weight {
                    wait.slack -= weight;
                    within_slack.push_back((agent, at));
                    continue;
                }
                wait.leads_to = Some(agent);
                match (wait.agent, wait.new) {
                    (0, true) => return Some((true, self.chain(at, &via))),
                    (0, false) => of_earlier = of_earlier.or(Some(at)),
                    (other, _) if via.contains_key(&other) => {}
                    (other, _) => {
                        via.insert(other, at);
                        leading_back.push_back(other);
                    }
                }
            }
        }
    }

    /// Finds the blocked agents. First all that wait count as blocked. An agent without a blocked wait then proceeds, and
    /// takes nothing from any slack.
    fn find_blocked_waits(&mut self) {
        for (at, weight) in self.blocks.iter().flatten() {
            if let Some(wait) = self.waits.get_mut(*at) {
                wait.taken += u128::from(*weight);
            }
        }
        let mut blocked_waits = vec![0_usize; self.blocks.len()];
        for wait in self.waits.iter().filter(|wait| wait.is_blocked()) {
            if let Some(count) = blocked_waits.get_mut(wait.agent) {
                *count += 1;
            }
        }
        let counted = blocked_waits.iter().enumerate();
        let mut going_on: Vec<usize> =
            counted.filter(|(_, count)| **count == 0).map(|(agent, _)| agent).collect();
        while let Some(agent) = going_on.pop() {
            for (at, weight) in self.blocks.get(agent).into_iter().flatten() {
                let wait = self.waits.get_mut(*at).filter(|wait| wait.is_blocked());
                let Some(wait) = wait else { continue };
                wait.taken -= u128::from(*weight);
                if !wait.is_blocked()
                    && let Some(count) = blocked_waits.get_mut(wait.agent)
                {
                    *count -= 1;
                    going_on.extend((*count == 0).then_some(wait.agent));
                }
            }
        }
    }

    fn chain(&self, first: usize, via: &BTreeMap<usize, usize>) -> Vec<(usize, &'a LockName)> {
        let next = |at: &usize| via.get(&self.waits.get(*at)?.leads_to?).copied();
        let waits = std::iter::successors(Some(first), next);
        waits.filter_map(|at| self.waits.get(at)).map(|wait| (wait.agent, wait.lock)).collect()
    }
}
