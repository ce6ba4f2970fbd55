//! Locks on clusters of three nodes: ZooKeeper, etcd, and holdfast through its three front-ends.

use std::time::Duration;

use crate::campaign::{all_exclude, clients};
use crate::skip::is_here;
use holdfast_lab::{DEADLINE, until};
use holdfast_measure::LockError;
use holdfast_measure::adapters::etcd::EtcdLock;
use holdfast_measure::adapters::zookeeper::{Curator, EphemeralNode, ZooKeeperSession};
use holdfast_measure::catalogue::{ALL, named};
use holdfast_measure::lock::{Connector, LockClient, LockSettings, ServerAddresses};
use holdfast_measure::servers::{ServerGroup, ServerKind};

const NOW: Duration = Duration::ZERO;
/// The shortest session timeout that ZooKeeper grants here: two ticks.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(10);

/// Starts three nodes; `None` if this machine lacks them.
async fn start(kind: ServerKind) -> Option<ServerGroup> {
    if !is_here(kind) {
        return None;
    }
    Some(ServerGroup::start(kind, &std::env::temp_dir()).await.unwrap())
}

fn connector(name: &str, addresses: &ServerAddresses, settings: LockSettings) -> Connector {
    named(name).unwrap().connector(addresses.clone(), settings)
}

async fn session(addresses: &ServerAddresses, timeout: Duration) -> ZooKeeperSession {
    ZooKeeperSession::open(addresses.nodes[0], timeout).await.unwrap()
}

fn of_kind(kind: ServerKind) -> impl Iterator<Item = &'static holdfast_measure::catalogue::System> {
    ALL.iter().filter(move |system| system.kind == kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_on_zookeeper_exclude_and_fail_as_they_are_documented_to() {
    let Some(group) = start(ServerKind::ZooKeeper).await else { return };
    let addresses = &group.addresses;
    all_exclude(of_kind(ServerKind::ZooKeeper), addresses).await;
    an_ended_session_loses_the_lock_while_its_holder_continues(addresses).await;
    an_ephemeral_node_wakes_all_and_a_numbered_one_wakes_one(addresses).await;
    a_deleted_directory_restarts_the_sequence_numbers(addresses).await;
    the_number_of_a_waiter_is_assigned_before_its_grant(addresses).await;
    let curator = connector("zookeeper-curator", addresses, LockSettings::default());
    a_waiter_that_times_out_leaves_the_queue(&curator).await;
}

async fn the_number_of_a_waiter_is_assigned_before_its_grant(addresses: &ServerAddresses) {
    let system = connector("zookeeper-curator", addresses, LockSettings::default());
    let [mut holder, mut waiter] = clients(&system).await;
    let hold = holder.acquire("minted", NOW).await.unwrap();
    let waits = tokio::spawn(async move { waiter.acquire("minted", DEADLINE).await });
    let looks = session(addresses, LONG).await;
    let mut numbers = Vec::new();
    until("the waiter in the queue", DEADLINE, async || {
        numbers = looks.children("/locks/minted").await.unwrap();
        numbers.len() == 2
    })
    .await;
    numbers.sort();
    holder.release(hold).await.unwrap();
    let granted = waits.await.unwrap().unwrap();
    assert!(numbers[1].ends_with(&format!("{:010}", granted.token.unwrap())));
}

async fn an_ended_session_loses_the_lock_while_its_holder_continues(addresses: &ServerAddresses) {
    let mut cut = Curator::new(session(addresses, SHORT).await);
    let mut next = Curator::new(session(addresses, SHORT).await);
    let hold = cut.acquire("cut", NOW).await.unwrap();
    cut.session().disconnect();
    let other = next.acquire("cut", DEADLINE).await.unwrap();
    assert!(hold.is_presumed_held() && other.is_presumed_held(), "two holders at once");
    assert!(other.token > hold.token, "a fence can compare them");
    next.release(other).await.unwrap();
}

async fn an_ephemeral_node_wakes_all_and_a_numbered_one_wakes_one(addresses: &ServerAddresses) {
    for (name, expected) in [("zookeeper-ephemeral", 4), ("zookeeper-curator", 1)] {
        let [mut holder] = clients(&connector(name, addresses, LockSettings::default())).await;
        let lock = format!("herd-{expected}");
        let hold = holder.acquire(&lock, NOW).await.unwrap();
        let (sender, mut results) = tokio::sync::mpsc::channel(8);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let session = session(addresses, LONG).await;
            let counter = session.usage_reader();
            let (sender, lock) = (sender.clone(), lock.clone());
            let mut waiter: Box<dyn LockClient> = match expected {
                1 => Box::new(Curator::new(session)),
                _ => Box::new(EphemeralNode::new(session)),
            };
            let task = tokio::spawn(async move {
                // The winner keeps the lock: the others woke in vain.
                let hold = waiter.acquire(&lock, DEADLINE * 2).await.unwrap();
                sender.send(()).await.unwrap();
                std::future::pending::<()>().await;
                drop((waiter, hold));
            });
            // The waiter has sent all its requests and set its watch.
            let asked = if expected == 1 { 3 } else { 2 };
            until("the waiter to wait", DEADLINE, async || counter().round_trips >= asked).await;
            waits.push((task, counter));
        }
        holder.release(hold).await.unwrap();
        results.recv().await.unwrap();
        let woken = || waits.iter().map(|(_, counter)| counter().wakeups).sum::<u64>();
        until("all notified waiters to wake", DEADLINE, async || woken() == expected).await;
        for (task, _) in &waits {
            task.abort();
        }
    }
}

async fn a_deleted_directory_restarts_the_sequence_numbers(addresses: &ServerAddresses) {
    let system = connector("zookeeper-curator", addresses, LockSettings::default());
    let [mut client] = clients(&system).await;
    let mut last = 0;
    for _ in 0..3 {
        let hold = client.acquire("swept", NOW).await.unwrap();
        last = hold.token.unwrap();
        client.release(hold).await.unwrap();
    }
    session(addresses, LONG).await.delete("/locks/swept").await.unwrap();
    let hold = client.acquire("swept", NOW).await.unwrap();
    assert!(hold.token.unwrap() < last, "a token that goes backwards");
    client.release(hold).await.unwrap();
}

async fn a_waiter_that_times_out_leaves_the_queue(system: &Connector) {
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
    let Some(group) = start(ServerKind::Etcd).await else { return };
    let addresses = &group.addresses;
    all_exclude(of_kind(ServerKind::Etcd), addresses).await;
    let etcd = connector("etcd-lock", addresses, LockSettings::default());
    a_waiter_that_times_out_leaves_the_queue(&etcd).await;
    let open = async |node: usize| EtcdLock::open(addresses.nodes[node], SHORT).await.unwrap();
    let (mut frozen, mut next) = (open(0).await, open(1).await);
    let hold = frozen.acquire("frozen", DEADLINE).await.unwrap();
    frozen.freeze();
    let other = next.acquire("frozen", DEADLINE).await.unwrap();
    assert!(hold.is_presumed_held() && other.is_presumed_held(), "two holders at once");
    assert!(other.token > hold.token, "a fence can compare them");
    // The process keeps the lease alive beyond its TTL, independent of the work.
    let mut waiter = open(2).await;
    assert_eq!(waiter.acquire("frozen", SHORT * 2).await, Err(LockError::Busy));
}

#[tokio::test(flavor = "multi_thread")]
async fn holdfast_excludes_over_each_front_end_and_its_tokens_reveal_a_late_holder() {
    let Some(group) = start(ServerKind::Holdfast).await else { return };
    let addresses = &group.addresses;
    all_exclude(of_kind(ServerKind::Holdfast), addresses).await;
    let settings = LockSettings::new(Duration::from_secs(1));
    let [mut late, mut next] = clients(&connector("holdfast-http", addresses, settings)).await;
    let hold = late.acquire("late", NOW).await.unwrap();
    let other = next.acquire("late", DEADLINE).await.unwrap();
    assert!(other.token > hold.token, "the late holder's write would be rejected");
    assert!(late.release(hold).await.is_err());
    next.release(other).await.unwrap();
}
