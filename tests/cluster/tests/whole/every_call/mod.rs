//! Every kind of call, under every fault, by clients that own what they change.
//!
//! Nobody but its client changes an object. The client repeats each call at other nodes until it knows the result, and
//! copies of its calls stay unread in a stopped node. It then reads the object: a difference is a call that was lost,
//! took effect twice, or took effect after the client had gone on.
//!
//! `HOLDFAST_SECONDS` is the duration of the campaign; without it, the test runs a few rounds.

mod client;
mod objects;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_lab::{Cluster, DEADLINE, Flow, LateCopies, until};
use tokio::task::JoinSet;

use client::Client;
use objects::Objects;

const CLIENTS: usize = 6;
/// Calls that the clients finish during each fault.
const CALLS: u64 = 60;
/// Many times an election, because the campaign kills leaders.
const CALLS_DEADLINE: Duration = Duration::from_mins(1);
const DELAY_MAX: Duration = Duration::from_millis(3);

#[derive(Clone, Copy, Debug)]
enum NodeFault {
    StopFollower,
    StopLeader,
    KillLeader,
    KillFollower,
    CutLeader,
    SilenceFollower,
}

const FAULTS: [NodeFault; 6] = [
    NodeFault::StopFollower,
    NodeFault::StopLeader,
    NodeFault::KillLeader,
    NodeFault::CutLeader,
    NodeFault::KillFollower,
    NodeFault::SilenceFollower,
];

/// Rounds of the campaign without `HOLDFAST_SECONDS`.
const ROUNDS: usize = FAULTS.len();

struct Campaign {
    cluster: Cluster,
    unread: LateCopies,
    calls: Arc<AtomicU64>,
    copies: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_owns_changes_by_its_calls_alone() {
    let cluster = Cluster::of(3).with_links().with_delays(1, DELAY_MAX).start().await;
    cluster.wait_ready().await;
    let (unread, calls, stopping) =
        (LateCopies::default(), Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let name = format!("client-{number}");
        let client = Client::new(&name, cluster.endpoints(), number, &unread, &calls);
        let stopping = Arc::clone(&stopping);
        clients.spawn(async move {
            let mut objects = Objects::new(client);
            while !stopping.load(Ordering::Relaxed) {
                objects.next().await;
            }
        });
    }
    let mut campaign = Campaign { cluster, unread, calls, copies: 0 };
    let (began, mut round) = (Instant::now(), 0);
    while !super::late::is_over(began, round, ROUNDS) && !clients.is_empty() {
        let fault = FAULTS[round % FAULTS.len()];
        let node = campaign.run(fault, &mut clients).await;
        println!("{fault:?} of node {node}");
        round += 1;
    }
    stopping.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        pass_panic_on(client);
    }
    let (calls, copies) = (campaign.calls.load(Ordering::Relaxed), campaign.copies);
    println!("{round} rounds, {calls} calls, {copies} late copies");
    assert!(copies > 0, "no call was left unread");
}

fn pass_panic_on(ended: Result<(), tokio::task::JoinError>) {
    if let Err(failed) = ended {
        std::panic::resume_unwind(failed.into_panic());
    }
}

impl Campaign {
    /// Causes a fault of a node, waits until the clients have finished calls beside it, and ends the fault. Returns the node.
    async fn run(&mut self, fault: NodeFault, clients: &mut JoinSet<()>) -> u64 {
        let leader = self.cluster.wait_ready().await;
        let follower = self.cluster.others(leader).next().expect("a follower").id;
        let node = match fault {
            NodeFault::StopLeader | NodeFault::KillLeader | NodeFault::CutLeader => leader,
            NodeFault::StopFollower | NodeFault::KillFollower | NodeFault::SilenceFollower => {
                follower
            }
        };
        match fault {
            NodeFault::StopFollower | NodeFault::StopLeader => {
                self.cluster.node(node).pause().await;
                self.unread.begin(&self.cluster.node(node).http);
            }
            NodeFault::KillLeader | NodeFault::KillFollower => self.cluster.node(node).kill(),
            NodeFault::CutLeader => self.cluster.links().isolate(node, Flow::Cut),
            NodeFault::SilenceFollower => self.cluster.links().isolate(node, Flow::BlackHole),
        }
        self.wait_for_calls(clients).await;
        match fault {
            NodeFault::StopFollower | NodeFault::StopLeader => {
                self.unread.end();
                self.cluster.node(node).resume();
                self.copies += self.unread.answers(DEADLINE * 2).await.len();
            }
            NodeFault::KillLeader | NodeFault::KillFollower => self.cluster.node(node).start(),
            NodeFault::CutLeader | NodeFault::SilenceFollower => self.cluster.links().heal(),
        }
        self.wait_for_calls(clients).await;
        node
    }

    async fn wait_for_calls(&self, clients: &mut JoinSet<()>) {
        let goal = self.calls.load(Ordering::Relaxed) + CALLS;
        let finished = until("calls to finish", CALLS_DEADLINE, || async {
            self.calls.load(Ordering::Relaxed) >= goal
        });
        tokio::select! {
            () = finished => {}
            Some(ended) = clients.join_next() => pass_panic_on(ended),
        }
    }
}
