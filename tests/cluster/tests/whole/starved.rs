//! Nodes that get little processor time: the leader keeps its leadership.
//!
//! `HOLDFAST_SECONDS` is the duration of each test, by default 8. `HOLDFAST_BUSY` is the number of busy processes, by default 6.
//! `HOLDFAST_SHARE` is the percentage of the time in which each node runs, by default 40. The campaign starves release builds more.

use std::process::{Child, Command};
use std::str::FromStr;
use std::time::Duration;

use holdfast_lab::{Cluster, History, Load, Timing};
use nix::sys::signal::Signal;

/// The defaults of the product. Longer timeouts would hide a lost leadership.
const TIMING: Timing = Timing {
    heartbeat: Duration::from_millis(100),
    election_min: Duration::from_millis(400),
    election_max: Duration::from_millis(550),
};
/// A node runs for `HOLDFAST_SHARE` percent of each period, as under the quota of a control group.
const PERIOD: Duration = Duration::from_millis(100);

fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn seconds() -> Duration {
    Duration::from_secs(setting("HOLDFAST_SECONDS", 8))
}

/// A process that uses one processor until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut command = Command::new("sh");
        Self(command.args(["-c", "while :; do :; done"]).spawn().expect("sh starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().expect("the process ends");
        self.0.wait().expect("its exit code");
    }
}

/// Checks that every node has the same leader in the same term as before.
async fn assert_unchanged(cluster: &Cluster, (term, leader): (u64, Option<u64>)) {
    for id in 1..=3 {
        assert_eq!(cluster.term_at(id).await, (term, leader), "at node {id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_busy_processes_the_leader_stays() {
    let cluster = Cluster::of(3).timing(TIMING).start().await;
    let load = Load { holders: 16, competing_clients: 48, hot_locks: 16 };
    let load = load.start(&cluster.endpoints(), &History::default());
    load.wait_for_grants(100).await;
    let before = cluster.term_at(1).await;
    let busy: Vec<Busy> = (0..setting("HOLDFAST_BUSY", 6)).map(|_| Busy::start()).collect();
    let end = tokio::time::Instant::now() + seconds();
    while tokio::time::Instant::now() < end {
        load.wait_for_grants(10).await;
    }
    assert_unchanged(&cluster, before).await;
    drop(busy);
    load.finish().await;
}

/// Stops each node for the rest of each period. The periods of the nodes begin at different times.
async fn limit(cluster: &Cluster, share: u32) {
    let slices = 10 * cluster.nodes().len();
    let runs = slices * share as usize / 100;
    let mut slice = tokio::time::interval(PERIOD / u32::try_from(slices).expect("a few"));
    for now in 0_usize.. {
        slice.tick().await;
        for (index, node) in cluster.nodes().iter().enumerate() {
            match (now + 10 * index) % slices {
                0 => node.signal(Signal::SIGCONT),
                at if at == runs => node.signal(Signal::SIGSTOP),
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_a_part_of_the_processor_time_keep_their_leader() {
    let cluster = Cluster::of(3).timing(TIMING).start().await;
    let load = Load { holders: 1, competing_clients: 2, hot_locks: 1 };
    let load = load.start(&cluster.endpoints(), &History::default());
    load.wait_for_grants(10).await;
    let before = cluster.term_at(1).await;
    let starved = tokio::time::timeout(seconds(), limit(&cluster, setting("HOLDFAST_SHARE", 40)));
    let grants = load.grants();
    starved.await.expect_err("the limit has no end");
    cluster.nodes().iter().for_each(|node| node.signal(Signal::SIGCONT));
    assert!(load.grants() > grants, "no grant while the nodes were limited");
    assert_unchanged(&cluster, before).await;
    load.finish().await;
}
