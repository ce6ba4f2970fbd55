//! ZooKeeper clients on three nodes: sessions survive node failures, and both front-ends share one queue.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_lab::zk::WatchEventType::{ChildrenChanged, Created, DataChanged, Deleted};
use holdfast_lab::zk::{ZkClient, children, create, exists, four_letter_word, get, new_session};
use holdfast_lab::{Cluster, DEADLINE, Flow, Method, Request, until};
use holdfast_zkwire::{ConnectRequest, Request as ZkRequest};
use serde_json::Value;

/// Session timeout, longer than any fault of these tests.
const LONG_MS: i32 = 40_000;

async fn client(at: SocketAddr) -> ZkClient {
    ZkClient::open(at, LONG_MS).await
}

/// Continues a session on the first node that accepts it.
async fn resume(cluster: &Cluster, session: ConnectRequest, on: &[u64]) -> ZkClient {
    let mut tries = on.iter().cycle();
    let deadline = std::time::Instant::now() + DEADLINE;
    loop {
        let id = *tries.next().expect("some node");
        if let Some(zk) = ZkClient::connect(cluster.node(id).zookeeper, &session).await {
            assert_eq!(zk.session(), session.session_id, "the session is over");
            return zk;
        }
        assert!(std::time::Instant::now() < deadline, "no node takes the session");
        tokio::task::yield_now().await;
    }
}

async fn get_json(cluster: &Cluster, node: u64, target: &str) -> Value {
    let reply = cluster.node(node).http.send(Request::new(Method::GET, target)).await;
    reply.expect("an answer").json()
}

/// After a kill of its node, a reconnected client gets the missed events, and its other watches stay armed.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_its_ephemerals_and_watches_survive_the_death_of_its_node() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let follower = cluster.others(leader).next().expect("a follower").id;
    for (round, doomed) in [follower, leader].into_iter().enumerate() {
        let rest: Vec<u64> = cluster.others(doomed).map(|node| node.id).collect();
        let mut zk = client(cluster.node(doomed).zookeeper).await;
        let at = |name: &str| format!("/{name}-{round}");
        let (mine, touched, quiet, parent) = (at("mine"), at("touched"), at("quiet"), at("parent"));
        for path in [&touched, &quiet, &parent] {
            zk.create(path, 0).await;
        }
        zk.create(&mine, 1).await;
        zk.done(get(&touched, true)).await;
        zk.done(get(&quiet, true)).await;
        zk.done(children(&parent, true)).await;
        cluster.node(doomed).kill();
        let mut other = resume_new(&cluster, &rest).await;
        other.set(&touched, b"1").await;
        other.create(&format!("{parent}/c"), 0).await;
        let mut zk = resume(&cluster, zk.resumption(), &rest).await;
        zk.set_watches(&[&touched, &quiet], &[&parent]).await;
        let mut events = zk.events().await;
        events.sort_by(|(_, one), (_, other)| other.cmp(one));
        let expected = [(DataChanged, touched.clone()), (ChildrenChanged, parent.clone())];
        assert_eq!(events, expected, "told once each");
        assert_eq!(zk.owner(&mine).await, Some(zk.session()));
        other.set(&quiet, b"1").await;
        assert_eq!(zk.event().await, (DataChanged, quiet));
        cluster.node(doomed).start();
        cluster.wait_ready().await;
    }
}

/// Opens a session; retries, because the rest of the cluster may be in an election.
async fn resume_new(cluster: &Cluster, on: &[u64]) -> ZkClient {
    cluster.wait_leader_among(on).await;
    client(cluster.node(on[0]).zookeeper).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_live_on_when_all_nodes_die_and_come_back() {
    let cluster = Cluster::three().await;
    let mut zk = client(cluster.node(1).zookeeper).await;
    zk.create("/e", 1).await;
    zk.create("/w", 0).await;
    zk.done(get("/w", true)).await;
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_ready().await;
    let mut zk = resume(&cluster, zk.resumption(), &[2]).await;
    zk.set_watches(&["/w"], &[]).await;
    assert_eq!(zk.events().await, [], "nothing was missed");
    assert_eq!(zk.owner("/e").await, Some(zk.session()));
    zk.set("/w", b"1").await;
    assert_eq!(zk.events().await, [(DataChanged, "/w".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_session_expires_on_every_node_and_its_watchers_are_told_everywhere() {
    let cluster = Cluster::of(3).extra("[zookeeper]\ntick = \"1s\"\n").start().await;
    let mut silent = ZkClient::open(cluster.node(1).zookeeper, 2_000).await;
    silent.create("/e", 1).await;
    let mut watchers = Vec::new();
    for node in cluster.nodes() {
        let mut zk = ZkClient::open(node.zookeeper, 20_000).await;
        zk.sync().await;
        assert_eq!(zk.owner("/e").await, Some(silent.session()));
        zk.done(exists("/e", true)).await;
        watchers.push(zk);
    }
    for zk in &mut watchers {
        assert_eq!(zk.event().await, (Deleted, "/e".to_owned()));
    }
    let session = silent.resumption();
    silent.closed().await;
    let refused = ZkClient::connect(cluster.node(2).zookeeper, &session).await;
    assert_eq!(refused.expect("a response").session(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_moved_is_refused_on_the_node_it_left() {
    let cluster = Cluster::three().await;
    let mut old = client(cluster.node(1).zookeeper).await;
    old.create("/e", 1).await;
    let mut new = ZkClient::resume(cluster.node(2).zookeeper, &old.resumption()).await;
    assert_eq!(new.session(), old.session());
    let late = old.try_call(&create("/late", 0)).await;
    assert!(late.is_none(), "{late:?}");
    old.closed().await;
    new.sync().await;
    assert_eq!(new.owner("/late").await, None);
    assert_eq!(new.owner("/e").await, Some(new.session()));
}

/// Two clients share a session, like two handles of the C client, at different nodes; the close by either ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_two_clients_is_closed_by_the_one_whose_connection_is_older() {
    let cluster = Cluster::three().await;
    let mut first = client(cluster.node(1).zookeeper).await;
    first.create("/e", 1).await;
    let mut second = ZkClient::resume(cluster.node(2).zookeeper, &first.resumption()).await;
    let mut first_again = ZkClient::resume(cluster.node(3).zookeeper, &first.resumption()).await;
    assert_eq!(second.owner("/e").await, Some(first.session()), "the second goes on");
    second.close().await;
    first_again.closed().await;
    let mut other = client(cluster.node(1).zookeeper).await;
    other.sync().await;
    assert_eq!(other.owner("/e").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_in_good_order_hands_its_clients_on() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let rest: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
    let mut zk = client(cluster.node(leader).zookeeper).await;
    zk.create("/e", 1).await;
    let session = zk.resumption();
    cluster.node(leader).stop().await;
    zk.closed().await;
    let mut zk = resume(&cluster, session, &rest).await;
    assert_eq!(zk.owner("/e").await, Some(zk.session()));
}

/// A client that has seen an acknowledged write sees it on every other node, without a sync.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_never_goes_back_in_time_when_it_changes_nodes() {
    let cluster = Cluster::three().await;
    let mut session = new_session(LONG_MS);
    for round in 0..30_u64 {
        let mut zk = ZkClient::resume(cluster.node(round % 3 + 1).zookeeper, &session).await;
        let names = zk.children("/").await;
        let found = names.iter().filter(|name| name.starts_with("round-")).count();
        assert_eq!(found, usize::try_from(round).expect("small"), "{names:?}");
        zk.create(&format!("/round-{round}"), 0).await;
        session = zk.resumption();
    }
}

/// Decision D1: one tree, two front-ends. The callers get the lock in queue order.
#[tokio::test(flavor = "multi_thread")]
async fn callers_of_both_front_ends_queue_in_one_order() {
    let cluster = Cluster::three().await;
    let mut first = client(cluster.node(1).zookeeper).await;
    let mut last = client(cluster.node(2).zookeeper).await;
    for path in ["/locks", "/locks/orders"] {
        let error = first.error(create(path, 4)).await;
        assert!([0, -110].contains(&error), "{path}: error {error}");
    }
    first.create("/locks/orders/lock-", 3).await;
    let lock = get_json(&cluster, 3, "/v1/locks/orders").await;
    let (token, holder) = (&lock["holders"][0]["token"], &lock["holders"][0]["session"]);
    assert!(
        token.is_u64() && holder.as_str().is_some_and(|name| name.starts_with("zk-")),
        "{lock}"
    );
    assert_eq!(lock["holders"][0]["labels"]["front-end"], "zookeeper");
    let text = first.data("/locks/orders").await;
    let told: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!((&told["token"], &told["holder"]), (token, &Value::from("lock-0000000000")));
    let http = cluster.node(3).http.clone();
    let waiting = tokio::spawn(async move {
        let target = "/v1/locks/orders?session=over-http&ttl=60s&wait=25s";
        http.send(Request::new(Method::PUT, target).within(DEADLINE)).await.expect("an answer")
    });
    until("the caller over HTTP to queue", DEADLINE, || async {
        get_json(&cluster, 1, "/v1/locks/orders").await["queue"][0]["session"] == "over-http"
    })
    .await;
    let mine = last.create("/locks/orders/lock-", 3).await;
    assert_eq!(mine, "/locks/orders/lock-0000000002");
    first.close().await;
    let granted = waiting.await.expect("the caller over HTTP");
    assert!(granted.token() > token.as_u64().unwrap_or_default());
    last.sync().await;
    let names = last.children("/locks/orders").await;
    assert_eq!(names.len(), 2);
    last.done(children("/locks/orders", true)).await;
    let released = cluster
        .node(1)
        .http
        .send(Request::new(Method::DELETE, "/v1/locks/orders?session=over-http"))
        .await;
    released.expect("an answer").assert_status(204);
    assert_eq!(last.event().await, (ChildrenChanged, "/locks/orders".to_owned()));
    let text = last.data("/locks/orders").await;
    let told: Value = serde_json::from_slice(&text).expect("JSON");
    assert!(told["token"].as_u64() > Some(granted.token()), "{told}");
    assert_eq!(told["holder"], "lock-0000000002");
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_node_says_that_it_leads() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    for node in cluster.nodes() {
        let said = four_letter_word(node.zookeeper, "srvr").await;
        let mode = if node.id == leader { "Mode: leader" } else { "Mode: follower" };
        assert!(said.contains(mode), "node {}: {said}", node.id);
    }
    let mut zk = client(cluster.node(leader).zookeeper).await;
    zk.create("/counted", 0).await;
    zk.create("/locks/counted", 4).await;
    zk.create("/locks/counted/lock-", 3).await;
    zk.create("/mine", 1).await;
    let said = four_letter_word(cluster.node(leader).zookeeper, "mntr").await;
    for line in [
        "zk_server_state\tleader",
        "zk_peer_state\tleading - broadcast",
        "zk_ephemerals_count\t2",
        "zk_quorum_size\t3",
        "zk_synced_followers\t2",
    ] {
        assert!(said.contains(line), "{line} is missing in {said}");
    }
}

/// An isolated node must disconnect its clients before their sessions expire.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_cut_off_from_the_others_lets_its_clients_go_before_their_sessions_end() {
    let cluster = Cluster::of(3).with_links().start().await;
    let leader = cluster.wait_ready().await;
    let cut = cluster.others(leader).next().expect("a follower").id;
    let mut zk = ZkClient::open(cluster.node(cut).zookeeper, 6_000).await;
    zk.create("/e", 1).await;
    cluster.links().isolate(cut, Flow::BlackHole);
    let session = zk.resumption();
    let alone = async {
        while zk.try_call(&ZkRequest::Ping).await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), alone).await.expect("the client is let go");
    let mut zk = resume(&cluster, session, &[leader]).await;
    assert_eq!(zk.owner("/e").await, Some(zk.session()));
    assert_eq!(zk.events().await, []);
    let mut other = client(cluster.node(leader).zookeeper).await;
    assert_eq!(other.error(create("/e", 0)).await, -110);
    assert_eq!(other.error(exists("/f", true)).await, -101);
    zk.create("/f", 0).await;
    assert_eq!(other.event().await, (Created, "/f".to_owned()));
}

/// The members have the text format of ZooKeeper, which Curator's `EnsembleTracker` parses. A connection that was opened
/// before a change shows the members after it, and its watch reports the change.
#[tokio::test(flavor = "multi_thread")]
async fn the_members_are_told_at_zookeeper_config_as_zookeeper_tells_them() {
    let cluster = Cluster::three().await;
    let mut open = client(cluster.node(1).zookeeper).await;
    let view = get_json(&cluster, 1, "/v1/cluster").await;
    let line = |node: &Value| {
        let (id, client) = (&node["id"], node["zookeeper"].as_str().expect("an address"));
        let peer = node["peer"].as_str().expect("an address");
        let (_, port) = client.rsplit_once(':').expect("a port");
        format!("server.{id}={peer}:{port}:participant;{client}\n")
    };
    let members: String = view["nodes"].as_array().expect("nodes").iter().map(line).collect();
    let expected = format!("{members}version=0");
    for node in cluster.nodes() {
        let mut zk = client(node.zookeeper).await;
        let told = zk.data("/zookeeper/config").await;
        assert_eq!(String::from_utf8(told).expect("text"), expected);
        let conf = four_letter_word(node.zookeeper, "conf").await;
        assert!(conf.ends_with(&format!("membership: \n{expected}")), "{conf}");
    }
    open.done(get("/zookeeper/config", true)).await;
    let remove = "/v1/members/3?reason=moved&force=true";
    cluster.node(1).http.delete(remove).await.assert_status(204);
    assert_eq!(open.event().await, (DataChanged, "/zookeeper/config".to_owned()));
    until("the members after the change", DEADLINE, async || {
        let told = open.data("/zookeeper/config").await;
        let told = String::from_utf8(told).expect("text");
        told.starts_with("server.1=") && told.contains("server.2=") && !told.contains("server.3=")
    })
    .await;
}
