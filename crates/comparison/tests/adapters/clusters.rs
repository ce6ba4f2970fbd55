//! Locks of clusters of three: `ZooKeeper`, etcd, and ours by its three doors.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_comparison::adapters::etcd::EtcdSystem;
use holdfast_comparison::adapters::holdfast::{Door, HoldfastSystem};
use holdfast_comparison::adapters::zookeeper::{Curator, Ephemeral, Recipe, ZooKeeperSystem};
use holdfast_comparison::servers::{Lifetime, Server, ServerKind};
use holdfast_comparison::{LockClient, LockError, System};
use tempfile::TempDir;

use crate::campaign::{all_exclude, clients};
use crate::skip::is_here;
use crate::until::{DEADLINE, until};

const NOW: Duration = Duration::ZERO;
/// The shortest that `ZooKeeper` grants here: twice its tick.
const SHORT: Duration = Duration::from_secs(2);

/// Three nodes in a directory of their own.
struct Scratch {
    servers: Vec<Server>,
    _directory: TempDir,
}

impl Scratch {
    /// None if they cannot be started on this machine.
    async fn start(kind: ServerKind) -> Option<Self> {
        if !is_here(kind) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let servers = kind.start(directory.path(), Lifetime::WithParent).await.unwrap();
        Some(Self { servers, _directory: directory })
    }

    fn nodes(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }
}

fn zookeeper(recipe: Recipe, nodes: Vec<SocketAddr>) -> ZooKeeperSystem {
    let name = match recipe {
        Recipe::Curator => "zookeeper-curator",
        Recipe::Ephemeral => "zookeeper-ephemeral",
    };
    ZooKeeperSystem::new(name, recipe, nodes)
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_on_zookeeper_exclude_and_fail_as_they_are_documented_to() {
    let Some(scratch) = Scratch::start(ServerKind::ZooKeeper).await else { return };
    let nodes = scratch.nodes();
    all_exclude([Recipe::Curator, Recipe::Ephemeral].map(|of| zookeeper(of, nodes.clone()))).await;
    a_session_that_ends_gives_the_lock_away_under_its_holder(&nodes).await;
    an_ephemeral_node_wakes_all_and_a_numbered_one_wakes_one(&nodes).await;
    a_deleted_directory_makes_the_numbers_begin_anew(&nodes).await;
    a_waiters_number_is_minted_while_somebody_else_holds(&nodes).await;
    a_waiter_that_gives_up_leaves_the_queue(&zookeeper(Recipe::Curator, nodes.clone())).await;
}

async fn a_waiters_number_is_minted_while_somebody_else_holds(nodes: &[SocketAddr]) {
    let system = zookeeper(Recipe::Curator, nodes.to_vec());
    let [mut holder, mut waiter] = clients(&system).await;
    let hold = holder.acquire("minted", NOW).await.unwrap();
    let waits = tokio::spawn(async move { waiter.acquire("minted", DEADLINE).await });
    let looks = system.session().await.unwrap();
    let mut numbers = Vec::new();
    until("the waiter in the queue", async || {
        numbers = looks.children("/locks/minted").await.unwrap();
        numbers.len() == 2
    })
    .await;
    numbers.sort();
    holder.release(hold).await.unwrap();
    let granted = waits.await.unwrap().unwrap();
    assert!(numbers[1].ends_with(&format!("{:010}", granted.fence.unwrap())));
}

async fn a_session_that_ends_gives_the_lock_away_under_its_holder(nodes: &[SocketAddr]) {
    let system = zookeeper(Recipe::Curator, nodes.to_vec()).timeout(SHORT);
    let mut cut = Curator::new(system.session().await.unwrap());
    let mut next = Curator::new(system.session().await.unwrap());
    let hold = cut.acquire("cut", NOW).await.unwrap();
    cut.session().cut();
    let other = next.acquire("cut", DEADLINE).await.unwrap();
    assert!(hold.is_believed() && other.is_believed(), "two holders at once");
    assert!(other.fence > hold.fence, "which a fence would have told apart");
    next.release(other).await.unwrap();
}

async fn an_ephemeral_node_wakes_all_and_a_numbered_one_wakes_one(nodes: &[SocketAddr]) {
    for (recipe, expected) in [(Recipe::Ephemeral, 4), (Recipe::Curator, 1)] {
        let system = zookeeper(recipe, nodes.to_vec());
        let [mut holder] = clients(&system).await;
        let lock = format!("herd-{expected}");
        let hold = holder.acquire(&lock, NOW).await.unwrap();
        let (sender, mut results) = tokio::sync::mpsc::channel(8);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let session = system.session().await.unwrap();
            let counter = session.usage_reader();
            let (sender, lock) = (sender.clone(), lock.clone());
            let mut waiter: Box<dyn LockClient> = match recipe {
                Recipe::Curator => Box::new(Curator::new(session)),
                Recipe::Ephemeral => Box::new(Ephemeral::new(session)),
            };
            let task = tokio::spawn(async move {
                // Whoever gets it keeps it: the others woke in vain.
                let hold = waiter.acquire(&lock, DEADLINE * 2).await.unwrap();
                sender.send(()).await.unwrap();
                std::future::pending::<()>().await;
                drop((waiter, hold));
            });
            // It has asked what it has to, and left its watch.
            let asked = if recipe == Recipe::Curator { 3 } else { 2 };
            until("the waiter to wait", async || counter().round_trips >= asked).await;
            waits.push((task, counter));
        }
        holder.release(hold).await.unwrap();
        results.recv().await.unwrap();
        let woken = || waits.iter().map(|(_, counter)| counter().wakeups).sum::<u64>();
        until("everybody who is told to wake", async || woken() == expected).await;
        for (task, _) in &waits {
            task.abort();
        }
    }
}

async fn a_deleted_directory_makes_the_numbers_begin_anew(nodes: &[SocketAddr]) {
    let system = zookeeper(Recipe::Curator, nodes.to_vec());
    let [mut client] = clients(&system).await;
    let mut last = 0;
    for _ in 0..3 {
        let hold = client.acquire("swept", NOW).await.unwrap();
        last = hold.fence.unwrap();
        client.release(hold).await.unwrap();
    }
    system.session().await.unwrap().delete("/locks/swept").await.unwrap();
    let hold = client.acquire("swept", NOW).await.unwrap();
    assert!(hold.fence.unwrap() < last, "a token that goes backwards");
    client.release(hold).await.unwrap();
}

async fn a_waiter_that_gives_up_leaves_the_queue(system: &dyn System) {
    let [mut holder, mut waiter, mut next] = clients(system).await;
    let hold = holder.acquire("given-up", NOW).await.unwrap();
    let short = Duration::from_millis(100);
    assert_eq!(waiter.acquire("given-up", short).await, Err(LockError::Busy));
    holder.release(hold).await.unwrap();
    let hold = next.acquire("given-up", DEADLINE).await.unwrap();
    next.release(hold).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_service_of_etcd_excludes_and_fails_as_it_is_documented_to() {
    let Some(scratch) = Scratch::start(ServerKind::Etcd).await else { return };
    all_exclude([EtcdSystem::new(scratch.nodes())]).await;
    a_waiter_that_gives_up_leaves_the_queue(&EtcdSystem::new(scratch.nodes())).await;
    let system = EtcdSystem::new(scratch.nodes()).ttl(SHORT);
    let (mut frozen, mut next) = (system.open().await.unwrap(), system.open().await.unwrap());
    let hold = frozen.acquire("frozen", DEADLINE).await.unwrap();
    frozen.freeze();
    let other = next.acquire("frozen", DEADLINE).await.unwrap();
    assert!(hold.is_believed() && other.is_believed(), "two holders at once");
    assert!(other.fence > hold.fence, "which a fence would have told apart");
    // Kept alive by its process, whatever the work does: longer than its time, and still held.
    let mut waiter = system.open().await.unwrap();
    assert_eq!(waiter.acquire("frozen", SHORT * 2).await, Err(LockError::Busy));
}

#[tokio::test(flavor = "multi_thread")]
async fn our_lock_excludes_by_each_of_its_doors_and_its_tokens_tell_a_late_holder() {
    let Some(scratch) = Scratch::start(ServerKind::Holdfast).await else { return };
    let nodes = scratch.nodes();
    all_exclude([Door::Http, Door::Sdk].map(|door| HoldfastSystem::new(door, nodes.clone()))).await;
    let doors = holdfast_comparison::servers::zookeeper_doors(&scratch.servers).unwrap();
    let port = ZooKeeperSystem::new("holdfast-zookeeper", Recipe::Curator, doors);
    all_exclude([port]).await;
    let system = HoldfastSystem::new(Door::Http, nodes).ttl(Duration::from_secs(1));
    let [mut late, mut next] = clients(&system).await;
    let hold = late.acquire("late", NOW).await.unwrap();
    let other = next.acquire("late", DEADLINE).await.unwrap();
    assert!(other.fence > hold.fence, "the late holder's write would be refused");
    assert!(late.release(hold).await.is_err());
    next.release(other).await.unwrap();
}
