//! A node fails at each step of a change of the members: the leader, the node that joins, and the node that leaves.
//!
//! The logs of the nodes are on disks in memory. The change is in the log before the first step. The disk of the failing
//! node fails at its n-th step (a write, a sync, a created file, a raised watermark) after that. Every later step fails as well.
//! The node stops, and starts again as after a kill or a power cut. A run without a failure gives the number of steps.

#![expect(clippy::unwrap_used, reason = "a failed command is a failed test")]

use futures_util::future::join_all;
use holdfast_raft::{ProposeError, RaftNode, StopReason, Urgency};
use holdfast_storage::{FaultyDisk, StoreError};
use holdfast_types::{
    Acquire, Command, FencingToken, LockName, MembershipChange, NodeId, Owner, Reason, Reply,
    VotingRole,
};

use crate::lab::{Lab, eventually, open_session, soon};

/// The clusters that run at the same time.
const CONCURRENT: usize = 6;
/// The node that joins.
const JOINER: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Replace,
    Remove,
    Demote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Leader,
    Joiner,
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    /// The disk keeps all written bytes.
    AfterKill,
    /// The disk keeps the synced bytes.
    AfterPowerCut,
}

struct ChangedCluster {
    lab: Lab,
    leader: u64,
    leaving: u64,
    /// A voter that neither leaves nor leads.
    stays: u64,
    /// Acknowledged grants, in order.
    grants: Vec<(LockName, FencingToken)>,
}

impl ChangedCluster {
    async fn start() -> Self {
        let mut lab = Lab::prepare(3, |_| {}).await;
        lab.disks = (1..=JOINER).map(|id| (id, FaultyDisk::default())).collect();
        for id in 1..=3 {
            lab.boot(id).await.unwrap();
        }
        lab.registered().await;
        let leader = lab.leader().await;
        let mut others = (1..=3).filter(|id| *id != leader);
        let (leaving, stays) = (others.next().unwrap(), others.next().unwrap());
        let mut cluster = Self { lab, leader, leaving, stays, grants: Vec::new() };
        cluster.acquire().await;
        cluster.lab.settle().await;
        cluster
    }

    fn node_of(&self, victim: Victim) -> u64 {
        match victim {
            Victim::Leader => self.leader,
            Victim::Joiner => JOINER,
            Victim::Leaving => self.leaving,
        }
    }

    /// Acquires one more lock through the node that stays. The outcome of an attempt may be unknown when its leader fails.
    async fn acquire(&mut self) {
        let lock = LockName::new(format!("lock{}", self.grants.len())).unwrap();
        let Command::OpenSession { open, .. } = open_session("holder") else { panic!() };
        loop {
            let acquire = Acquire::new(lock.clone(), open.clone(), Owner::unnamed());
            let node = self.lab.node(self.stays);
            match node.propose(Command::Acquire(acquire), Urgency::Immediate, soon()).await {
                Ok(done) => {
                    let Ok(Reply::Acquired(state)) = done.outcome else { panic!("{done:?}") };
                    let token = state.into_single_grant().unwrap().token;
                    return self.grants.push((lock, token));
                }
                // On a busy machine, an election may take longer than a proposal waits for a leader.
                Err(ProposeError::Unknown | ProposeError::NoLeader) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn begin(&mut self, change: Change) {
        let (stays, leaving) = (self.stays, self.leaving);
        match change {
            Change::Add => drop(self.lab.invite(stays, None).await),
            Change::Replace => drop(self.lab.invite(stays, Some(leaving)).await),
            Change::Remove => {
                let reason = Reason::new("moved").unwrap();
                let remove = MembershipChange::Remove { node: NodeId(leaving), reason };
                self.lab.change(stays, remove).await.unwrap();
            }
            Change::Demote => {
                let (node, role) = (NodeId(leaving), VotingRole::Learner);
                self.lab.change(stays, MembershipChange::SetRole { node, role }).await.unwrap();
            }
        }
    }

    /// Starts the joiner. Its disk may fail meanwhile.
    async fn boot_joiner(&mut self) {
        if let Err(error) = self.lab.boot(JOINER).await {
            assert!(error.to_string().contains("disk is full"), "{error}");
        }
    }

    /// Waits until the node has failed, or the change is finished.
    async fn failed_or_finished(&self, node: u64, voters: &[u64]) {
        eventually("a failure or the end of the change", || {
            let failed = self.lab.nodes.get(&node).is_none_or(|node| node.failed().is_some());
            let finished = has_voters(self.lab.node(self.stays), voters);
            (failed || finished).then_some(())
        })
        .await;
    }

    async fn restart(&mut self, node: u64, how: Restart, voters: &[u64]) {
        if self.lab.nodes.contains_key(&node) {
            self.lab.kill(node).await;
        }
        match how {
            Restart::AfterKill => self.lab.disks[&node].kill(),
            Restart::AfterPowerCut => self.lab.disks[&node].crash(0),
        }
        // The cluster serves without the node, unless the node is one of two voters.
        if voters.len() > 2 || !voters.contains(&node) {
            self.acquire().await;
        }
        self.lab.boot(node).await.unwrap();
    }

    /// Waits for the end of the change, and checks every node.
    async fn check(&mut self, change: Change, voters: &[u64]) {
        if matches!(change, Change::Replace | Change::Remove) {
            let left = self.lab.nodes.remove(&self.leaving).unwrap();
            self.lab.voters(voters).await;
            assert!(matches!(left.wait_failed().await, StopReason::Removed(_)));
        } else {
            self.lab.voters(voters).await;
        }
        self.acquire().await;
        self.lab.agree().await;
        let tokens: Vec<_> = self.grants.iter().map(|(_, token)| *token).collect();
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
        for (lock, token) in &self.grants {
            let held = self.lab.node(self.stays).read(|machine| machine.is_held_with(lock, *token));
            assert!(held, "the acknowledged grant of {lock} is lost");
        }
    }
}

fn has_voters(node: &RaftNode, voters: &[u64]) -> bool {
    let is_pending = node.read(|machine| machine.members().any(|(_, it)| it.pending.is_some()));
    !is_pending && node.status().voters.iter().map(|id| id.0).eq(voters.iter().copied())
}

/// Makes the change with a failure of the victim at a step of its disk. Returns the steps of its disk until its failure, or
/// during the change.
async fn run(change: Change, victim: Victim, fail_at: Option<u64>) -> u64 {
    let mut cluster = ChangedCluster::start().await;
    let node = cluster.node_of(victim);
    let voters: Vec<u64> = match change {
        Change::Add => vec![1, 2, 3, JOINER],
        Change::Replace => (1..=JOINER).filter(|id| *id != cluster.leaving).collect(),
        Change::Remove | Change::Demote => (1..=3).filter(|id| *id != cluster.leaving).collect(),
    };
    cluster.begin(change).await;
    let disk = cluster.lab.disks[&node].clone();
    let before = disk.steps();
    if let Some(step) = fail_at {
        disk.fail_at(step, StoreError::Full { action: "a test".into() });
    }
    if matches!(change, Change::Add | Change::Replace) {
        cluster.boot_joiner().await;
    }
    cluster.failed_or_finished(node, &voters).await;
    let steps = disk.steps() - before;
    if let Some(step) = fail_at {
        // Each kind of step is followed by both kinds of restart.
        let is_kill = (step + step / 3) % 2 == 0;
        let how = if is_kill { Restart::AfterKill } else { Restart::AfterPowerCut };
        cluster.restart(node, how, &voters).await;
    }
    cluster.check(change, &voters).await;
    steps
}

async fn fails_at_each_step(change: Change, victim: Victim) {
    let steps = run(change, victim, None).await;
    assert!(steps > 0, "the change of the members does not reach the disk of {victim:?}");
    let all: Vec<u64> = (0..steps).collect();
    let mut failures = 0;
    for some in all.chunks(CONCURRENT) {
        let reached = join_all(some.iter().map(|step| run(change, victim, Some(*step)))).await;
        failures += some.iter().zip(reached).filter(|(step, reached)| reached > *step).count();
    }
    // A run can need fewer steps than the first one: a removed node may not receive its removal.
    assert!(failures * 2 >= all.len(), "the disk failed in {failures} of {steps} runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_fails_at_each_step_of_an_addition() {
    fails_at_each_step(Change::Add, Victim::Leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_joiner_fails_at_each_step_of_an_addition() {
    fails_at_each_step(Change::Add, Victim::Joiner).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_fails_at_each_step_of_a_replacement() {
    fails_at_each_step(Change::Replace, Victim::Leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_joiner_fails_at_each_step_of_a_replacement() {
    fails_at_each_step(Change::Replace, Victim::Joiner).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replaced_node_fails_at_each_step_of_a_replacement() {
    fails_at_each_step(Change::Replace, Victim::Leaving).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_fails_at_each_step_of_a_removal() {
    fails_at_each_step(Change::Remove, Victim::Leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_removed_node_fails_at_each_step_of_its_removal() {
    fails_at_each_step(Change::Remove, Victim::Leaving).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_fails_at_each_step_of_a_demotion() {
    fails_at_each_step(Change::Demote, Victim::Leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demoted_node_fails_at_each_step_of_its_demotion() {
    fails_at_each_step(Change::Demote, Victim::Leaving).await;
}
