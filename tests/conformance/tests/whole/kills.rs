//! Sessions, ephemerals and watches of clients whose nodes are killed: no event is lost or duplicated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use holdfast_lab::{Cluster, DEADLINE, until};
use holdfast_tests_conformance::{Falsification, FaultyProxy};
use holdfast_zkwire::{Acl, Create, CreateMode, CreateOp, Request, Response};

use crate::roaming_client::{RoamingClient, WatchTarget};

const KEYS: usize = 4;
/// Children that the writer creates and deletes.
const CHILDREN: usize = 8;

/// The load while nodes are killed.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    writes: AtomicUsize,
}

impl Load {
    /// Waits for this number of further changes.
    async fn goes_on(&self) {
        let enough = self.writes.load(Ordering::Relaxed) + 4 * KEYS;
        let more = || async { self.writes.load(Ordering::Relaxed) >= enough };
        until("more changes", DEADLINE, more).await;
    }
}

fn create(path: String, mode: CreateMode) -> Request {
    let (data, acl) = (Some(Bytes::new()), vec![Acl::open()]);
    Request::Create(Create { op: CreateOp::Create, path, data, acl, mode })
}

fn targets() -> Vec<WatchTarget> {
    let keys = (0..KEYS).map(|key| WatchTarget::Data(format!("/key{key}")));
    keys.chain([WatchTarget::Children("/folder".to_owned())]).collect()
}

async fn prepare(cluster: &Cluster) -> Vec<std::net::SocketAddr> {
    let nodes: Vec<_> = cluster.nodes().iter().map(|node| node.zookeeper).collect();
    let mut client = RoamingClient::open(nodes.clone(), 0).await;
    let paths = (0..KEYS).map(|key| format!("/key{key}")).chain(["/folder".to_owned()]);
    for path in paths {
        let made = client.ask(&create(path, CreateMode::Persistent)).await;
        assert_eq!(made.0, 0);
    }
    nodes
}

/// Changes nodes one after the other until the test stops it; retries an attempt with an unknown outcome.
async fn write(mut client: RoamingClient, load: Arc<Load>) {
    while !load.stop.load(Ordering::Relaxed) {
        let writes = load.writes.load(Ordering::Relaxed);
        let path = format!("/key{}", writes % KEYS);
        let data = Some(writes.to_string().into());
        let set = client.ask(&Request::SetData { path, data, version: -1 }).await;
        assert_eq!(set.0, 0);
        let child = format!("/folder/{}", writes % CHILDREN);
        let made = client.ask(&create(child.clone(), CreateMode::Persistent)).await;
        if made.0 != 0 {
            client.ask(&Request::Delete { path: child, version: -1 }).await;
        }
        load.writes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets watches on all paths repeatedly.
async fn follow(mut client: RoamingClient, load: Arc<Load>) -> RoamingClient {
    while !load.stop.load(Ordering::Relaxed) {
        for target in targets() {
            client.watch(&target).await;
        }
        client.ask(&Request::Ping).await;
    }
    client
}

async fn survive(harm: impl AsyncFn(&Cluster, &Load)) {
    let cluster = Cluster::three().await;
    let nodes = prepare(&cluster).await;
    let load = Arc::new(Load::default());
    let mut followers = Vec::new();
    for at in 0..nodes.len() {
        let mut client = RoamingClient::open(nodes.clone(), at).await;
        let own = client.ask(&create(format!("/own{at}"), CreateMode::Ephemeral)).await;
        assert_eq!(own.0, 0);
        followers.push(tokio::spawn(follow(client, load.clone())));
    }
    let writer = tokio::spawn(write(RoamingClient::open(nodes.clone(), 1).await, load.clone()));
    load.goes_on().await;
    harm(&cluster, &load).await;
    load.goes_on().await;
    load.stop.store(true, Ordering::Relaxed);
    writer.await.expect("the writer goes on");
    for (at, follower) in followers.into_iter().enumerate() {
        let mut client = follower.await.expect("the follower goes on");
        assert!(client.wrong.is_empty(), "client {at}: {:?}", client.wrong);
        assert_eq!(client.missed().await, [], "changes without an event for client {at}");
        assert!(client.events > 0 && client.moves > 0, "{} events", client.events);
        let path = format!("/own{at}");
        let own = client.ask(&Request::Exists { path, watch: false }).await.1;
        assert!(
            matches!(own, Some(Response::Stat(_))),
            "the ephemeral of a live session is missing"
        );
    }
}

/// Kills the node, waits for changes at the others, and restarts the node.
async fn lose(cluster: &Cluster, node: u64) {
    cluster.node(node).kill();
    let others: Vec<u64> = cluster.others(node).map(|node| node.id).collect();
    cluster.wait_leader_among(&others).await;
    cluster.node(node).start();
    cluster.wait_ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watch_is_lost_or_told_twice_when_each_node_dies_in_turn() {
    survive(async |cluster, load| {
        for node in 1..=3 {
            lose(cluster, node).await;
            load.goes_on().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watch_is_lost_or_told_twice_when_leader_after_leader_dies() {
    survive(async |cluster, load| {
        let mut dead = Vec::new();
        // Until every node has been killed once, because each of them serves clients.
        while dead.len() < 3 {
            let leader = cluster.wait_ready().await;
            let next = if dead.contains(&leader) {
                (1..=3).find(|node| !dead.contains(node)).unwrap_or(leader)
            } else {
                leader
            };
            lose(cluster, next).await;
            load.goes_on().await;
            dead.push(next);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watch_is_lost_or_told_twice_when_all_nodes_die_at_once() {
    survive(async |cluster, load| {
        for _ in 0..2 {
            cluster.kill_all();
            cluster.start_all();
            cluster.wait_ready().await;
            load.goes_on().await;
        }
    })
    .await;
}

/// A client with a falsified connection, and a writer of its watched nodes.
async fn lied_to(lie: Falsification) -> (Cluster, FaultyProxy, RoamingClient) {
    let cluster = Cluster::of(1).start().await;
    let nodes = prepare(&cluster).await;
    let faulty_proxy = FaultyProxy::before(nodes[0], lie).await;
    // The first connection is not falsified.
    drop(RoamingClient::open(vec![faulty_proxy.address], 0).await);
    let mut client = RoamingClient::open(vec![faulty_proxy.address], 0).await;
    client.watch(&targets()[0]).await;
    let mut other = RoamingClient::open(nodes, 0).await;
    let set = Request::SetData { path: "/key0".to_owned(), data: None, version: -1 };
    assert_eq!(other.ask(&set).await.0, 0);
    (cluster, faulty_proxy, client)
}

#[tokio::test]
async fn a_watch_that_is_lost_would_be_missed() {
    let (_cluster, faulty_proxy, mut client) = lied_to(Falsification::Lost).await;
    assert_eq!(client.missed().await, [targets().remove(0)]);
    assert!(faulty_proxy.has_lied());
}

#[tokio::test]
async fn a_watch_that_is_told_twice_would_be_noticed() {
    let (_cluster, _liar, mut client) = lied_to(Falsification::Doubled).await;
    client.ask(&Request::Ping).await;
    assert_eq!(client.wrong.len(), 1, "{:?}", client.wrong);
}
