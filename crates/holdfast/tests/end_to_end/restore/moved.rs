//! A sealed cluster moves to other machines with its sessions, locks, waiters and ZooKeeper clients.

use std::time::{Duration, Instant};

use holdfast_lab::zk::{WatchEventType, ZkClient};
use holdfast_lab::zk::{create, delete, exists};
use holdfast_lab::{DEADLINE, Method, Request, until};

use super::{TestNode, acquire, cluster_of_three, json, release, text};
use crate::program::holdfast;

/// Half of the time of the seal in these tests.
const TTL: Duration = Duration::from_secs(3);
const ZK_TIMEOUT_MS: i32 = 40_000;
/// The error after which clients ask again.
const CONNECTION_LOSS: i32 = -4;

/// Seals a cluster, and waits for longer than the TTL of a session without renewals.
async fn seal(node: &TestNode) {
    node.client(&["cluster", "seal", "--reason", "new machines", "-o", "json"]).assert_code(0);
    let http = node.http();
    let write = http.put("/v1/locks/new?session=new").await;
    write.assert_code(503, "sealed").assert_body_contains("new machines");
    assert!(write.retryable() && write.json()["since"].is_string(), "{}", write.body);
    let started = Instant::now();
    until("more than the TTL to pass", DEADLINE, async || {
        assert_eq!(http.get("/v1/sessions/silent").await.status, 200);
        started.elapsed() > TTL * 2
    })
    .await;
}

async fn open_silent(node: &TestNode) {
    node.http().put("/v1/sessions/silent?ttl=3s").await.assert_status(201);
}

fn zookeeper(node: &TestNode) -> std::net::SocketAddr {
    node.members.addresses.iter().find(|member| member.id == node.id).unwrap().zookeeper
}

/// Queues `waiter` behind the holder of `lock`, and returns when it is queued.
async fn queue(node: &TestNode, lock: &str, waiter: &str) -> tokio::task::JoinHandle<u16> {
    let (http, target) =
        (node.http(), format!("/v1/locks/{lock}?session={waiter}&ttl=60s&wait=60s"));
    let waits = tokio::spawn(async move {
        let reply = http.send(Request::new(Method::PUT, &target).within(DEADLINE)).await;
        reply.map_or(0, |reply| reply.status)
    });
    let (http, lock) = (node.http(), format!("/v1/locks/{lock}"));
    until("the waiter to be queued", DEADLINE, async || {
        http.get(&lock).await.json()["waiters"] == 1
    })
    .await;
    waits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_cluster_moves_with_its_holders_waiters_and_zookeeper_clients() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster_of_three(dir.path());
    open_silent(&nodes[0]).await;
    let token = acquire(&nodes[0].http(), "orders", "holder").await;
    let waits = queue(&nodes[0], "orders", "waiter").await;
    let mut zk = ZkClient::open(zookeeper(&nodes[1]), ZK_TIMEOUT_MS).await;
    zk.create("/mine", 1).await;

    seal(&nodes[0]).await;
    assert_eq!(zk.error(create("/other", 0)).await, CONNECTION_LOSS);
    assert_eq!(zk.error(delete("/mine", -1)).await, CONNECTION_LOSS);
    zk.done(exists("/mine", false)).await;
    let keepalive = nodes[2].http().post("/v1/sessions/holder/keepalive").await;
    keepalive.assert_status(200);
    nodes[1].http().get("/v1/alarms").await.assert_body_contains("new machines");
    let backup = text(&dir.path().join("sealed"));
    nodes[1].client(&["backup", "--out", &backup]).assert_code(0);
    assert_eq!(json(&["backup", "show", &backup])["sealed"], true);
    nodes.iter_mut().for_each(TestNode::kill);
    waits.abort();

    let data_dir = dir.path().join("moved");
    let restore = ["restore", &backup, "--keep-sessions", "--data-dir", &text(&data_dir)];
    let restored = holdfast(&restore).assert_code(0);
    assert!(restored.stdout.contains("never unseal"), "{}", restored.stdout);
    let new = TestNode::start_alone(1, &data_dir);
    let http = new.http();
    http.post("/v1/sessions/holder/keepalive").await.assert_status(200);
    assert_eq!(acquire(&http, "orders", "holder").await, token);
    let mut zk = ZkClient::resume(zookeeper(&new), &zk.resumption()).await;
    assert_eq!(zk.owner("/mine").await, Some(zk.session()));
    release(&http, "orders", "holder").await.assert_status(204);
    assert!(acquire(&http, "orders", "waiter").await > token + (1 << 46));
    // The new cluster is not sealed, so its leader expires the silent session.
    until("the silent session to expire", DEADLINE, async || {
        http.get("/v1/sessions/silent").await.status == 410
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_did_not_move_continues_after_the_seal() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster_of_three(dir.path());
    let http = nodes[0].http();
    open_silent(&nodes[0]).await;
    let token = acquire(&http, "orders", "holder").await;
    let waits = queue(&nodes[0], "orders", "waiter").await;
    http.delete("/v1/cluster/seal?revision=1").await.assert_status(204);

    seal(&nodes[0]).await;
    let again = nodes[1].http().put("/v1/cluster/seal?reason=again").await;
    assert_eq!(again.assert_status(200).json()["reason"], "new machines");
    release(&http, "orders", "holder").await.assert_code(503, "sealed");
    assert_eq!(nodes[2].client(&["cluster", "unseal"]).code, Some(0));
    release(&http, "orders", "holder").await.assert_status(204);
    assert_eq!(waits.await.unwrap(), 200);
    assert_eq!(acquire(&http, "orders", "waiter").await, token + 1);
    until("the silent session to expire", DEADLINE, async || {
        http.get("/v1/sessions/silent").await.status == 410
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_an_unsealed_backup_are_not_kept_and_the_error_names_a_command_that_works() {
    let dir = tempfile::tempdir().unwrap();
    let node = TestNode::start(1, &super::members(&[1]), &dir.path().join("old"));
    node.wait_ready();
    acquire(&node.http(), "orders", "holder").await;
    let (backup, data_dir) = (text(&dir.path().join("b")), text(&dir.path().join("new")));
    assert_eq!(node.client(&["backup", "--out", &backup]).code, Some(0));
    let refused =
        holdfast(&["restore", &backup, "--keep-sessions", "--data-dir", &data_dir]).assert_code(1);
    refused.assert_stderr_contains(["not sealed"]);
    let (_, command) = refused.stderr.trim().split_once(": holdfast restore ").unwrap();
    let args: Vec<&str> = ["restore"].into_iter().chain(command.split(' ')).collect();
    assert_eq!(json(&args)["sessions_ended"], 1);
}

/// A client that got the reply to its close does not repeat it, so the close must take effect after the seal.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_closed_under_a_seal_ends_with_the_seal() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster_of_three(dir.path());
    let http = nodes[1].http();
    let token = acquire(&http, "orders", "closer").await;
    let waits = queue(&nodes[1], "orders", "waiter").await;
    let mut zk = ZkClient::open(zookeeper(&nodes[2]), ZK_TIMEOUT_MS).await;
    zk.create("/mine", 1).await;
    let mut watcher = ZkClient::open(zookeeper(&nodes[1]), ZK_TIMEOUT_MS).await;
    watcher.sync().await;
    watcher.done(exists("/mine", true)).await;
    let reason = ["cluster", "seal", "--reason", "new machines"];
    assert_eq!(nodes[0].client(&reason).code, Some(0));
    let revision = http.get("/v1/cluster").await.json()["seal"]["revision"].clone();
    // A late copy of the end of an earlier seal.
    let late = format!("/v1/cluster/seal?revision={}", revision.as_u64().unwrap() - 1);
    http.delete(&late).await.assert_code(412, "version-mismatch");

    http.delete("/v1/sessions/closer").await.assert_status(204);
    zk.close().await;
    // A late copy of a renewal does not open the session again. The lock stays held under the seal.
    http.post("/v1/sessions/closer/keepalive").await.assert_code(410, "session-expired");
    assert_eq!(http.get("/v1/locks/orders").await.json()["holders"][0]["token"], token);
    nodes[0].kill();
    let target = format!("/v1/cluster/seal?revision={revision}");
    until("the rest to end the seal", DEADLINE, async || {
        nodes[2].http().delete(&target).await.status == 204
    })
    .await;
    assert_eq!(waits.await.unwrap(), 200);
    assert_eq!(watcher.event().await, (WatchEventType::Deleted, "/mine".to_owned()));
    http.get("/v1/sessions/closer").await.assert_code(410, "session-expired");
}
