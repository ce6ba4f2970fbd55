//! A backup from a follower under load, restored and served: its tokens, sessions and cursors, and its old cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use holdfast_lab::{DEADLINE, Http, Method, Request, until};
use serde_json::Value;

use super::{TestNode, acquire, cluster_of_three, json, release, text};
use crate::program::eventually;

/// Clients that acquire and release, and the largest token that any of them got.
struct Load {
    stop: Arc<AtomicBool>,
    largest: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(nodes: &[TestNode]) -> Self {
        let (stop, largest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..6).map(|client| {
            let http = nodes[client % nodes.len()].http();
            let (stop, largest) = (stop.clone(), largest.clone());
            tokio::spawn(async move {
                let (lock, session) = (format!("load{}", client % 3), format!("client{client}"));
                let wait = format!("/v1/locks/{lock}?session={session}&ttl=60s&wait=10s");
                while !stop.load(Ordering::Relaxed) {
                    let reply = http.put(&wait).await;
                    if reply.status == 200 {
                        largest.fetch_max(reply.token(), Ordering::Relaxed);
                        release(&http, &lock, &session).await;
                    }
                }
            })
        });
        let clients = clients.collect();
        Self { stop, largest, clients }
    }

    fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        self.largest.load(Ordering::Relaxed)
    }
}

async fn follower(nodes: &[TestNode]) -> &TestNode {
    let view = nodes[0].http().get("/v1/cluster").await.json();
    let leader = view["leader"].as_u64().unwrap();
    nodes.iter().find(|node| node.id != leader).unwrap()
}

/// Two backups of the same revision by two nodes have the same digest.
fn assert_equal_digests(nodes: &[TestNode], dir: &std::path::Path) {
    let backup = |node: &TestNode| {
        let file = text(&dir.join(format!("idle{}", node.id)));
        assert_eq!(node.client(&["backup", "--out", &file, "--force"]).code, Some(0));
        json(&["backup", "verify", &file])
    };
    let mut verified = Vec::new();
    // The audit record of each backup takes a revision. Backups at the same time can have all three records.
    eventually("backups of one revision", || {
        verified = std::thread::scope(|scope| {
            let backups: Vec<_> = nodes.iter().map(|node| scope.spawn(|| backup(node))).collect();
            backups.into_iter().map(|made| made.join().unwrap()).collect::<Vec<Value>>()
        });
        verified.iter().all(|other| other["revision"] == verified[0]["revision"])
    });
    for other in &verified {
        assert_eq!(other["state_digest"], verified[0]["state_digest"], "{verified:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_follower_under_load_continues_as_a_new_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster_of_three(dir.path());
    let kept = acquire(&nodes[0].http(), "kept", "old").await;
    let durable = "/v1/locks/freeze?hold=durable&owner=carol&attempt=1&reason=moving";
    let frozen = nodes[0].http().put(durable).await.assert_status(200).token();
    nodes[0].http().put_data("/v1/tree/settings", "blue").await.assert_status(201);

    let load = Load::start(&nodes);
    eventually("some grants", || load.largest() > kept + 50);
    let backup = text(&dir.path().join("b"));
    follower(&nodes).await.client(&["backup", "--out", &backup]).assert_code(0);
    let before = load.largest();
    eventually("later grants", || load.largest() > before + 50);
    let largest = load.end().await;
    assert_equal_digests(&nodes, dir.path());

    let verified = json(&["backup", "verify", &backup]);
    let revision = verified["revision"].as_u64().unwrap();
    assert!(verified["last_token"].as_u64().unwrap() < largest, "{verified}");
    let data_dir = dir.path().join("restored");
    let restored = json(&["restore", &backup, "--data-dir", &text(&data_dir), "--node", "2"]);
    assert_ne!(restored["cluster_id"], verified["cluster_id"]);

    let new = TestNode::start_alone(2, &data_dir);
    check_new_cluster(&new.http(), revision, largest).await;
    check_audit(&new, &verified);
    // The durable hold is the only one that stays.
    assert_eq!(new.http().put(durable).await.assert_status(200).token(), frozen);
    let owner = ["unlock", "freeze", "--owner", "carol", "--token"];
    let wrong = new.client(&[&owner[..], &["1"]].concat());
    assert!(wrong.code == Some(1) && wrong.stderr.contains("nothing is released"), "{wrong:?}");
    let ended = new.client(&[&owner[..], &[&frozen.to_string()]].concat());
    assert_eq!((ended.code, ended.stderr.trim()), (Some(0), "holdfast: freeze is released"));
    assert!(acquire(&new.http(), "freeze", "next").await > largest);
    drop(new);
    check_old_nodes(&mut nodes, &data_dir);
}

/// Access tokens may have been stolen with the machines.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_can_delete_all_access_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| text(&dir.path().join(name));
    let mut node = TestNode::start(1, &super::members(&[1]), &dir.path().join("old"));
    node.wait_ready();
    let old_token = ["--access-token-file", &file("old.token")];
    let bootstrap = ["auth", "bootstrap", "--data-dir", &file("old"), "--mode", "on"];
    node.client(&[&bootstrap[..], &["--out", &file("old.token")]].concat()).assert_code(0);
    assert_eq!(node.client(&["backup", "--out", &file("b")]).code, Some(1), "without a token");
    node.client(&[&["backup", "--out", &file("b")], &old_token[..]].concat()).assert_code(0);
    node.kill();
    let data_dir = file("new");
    json(&["restore", &file("b"), "--data-dir", &data_dir, "--revoke-all-tokens"]);

    let new = TestNode::start(1, &super::members(&[1]), dir.path().join("new").as_path());
    let ready = async || {
        new.http()
            .send(Request::new(Method::GET, "/readyz"))
            .await
            .is_ok_and(|reply| reply.status == 200)
    };
    until("the restored node", DEADLINE, ready).await;
    let refused = new.client(&[&["ls"], &old_token[..]].concat());
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    new.client(&["auth", "recover", "--data-dir", &data_dir, "--out", &file("new.token")])
        .assert_code(0);
    new.client(&["ls", "--access-token-file", &file("new.token")]).assert_code(0);
}

async fn check_new_cluster(http: &Http, revision: u64, largest: u64) {
    let keepalive = http.call(Method::POST, "/v1/sessions/old/keepalive").await;
    keepalive.assert_code(410, "session-expired");
    http.put("/v1/locks/other?session=old").await.assert_code(410, "session-expired");
    let first = acquire(http, "kept", "new").await;
    assert!(first > largest && first > 1 << 40, "{first} after {largest}");
    assert_eq!(http.get("/v1/tree/settings").await.assert_status(200).body, "blue");
    let cursor = http.get(&format!("/v1/watch?prefix=/&since={revision}&wait=1s")).await;
    cursor.assert_code(410, "revision-compacted");
}

fn check_audit(new: &TestNode, verified: &Value) {
    let audit = new.client(&["audit", "ls", "--action", "restored", "-o", "json"]);
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    let detail = audit["records"][0]["detail"].as_str().unwrap();
    assert!(detail.contains(verified["sha256"].as_str().unwrap()), "{detail}");
    assert_eq!(new.client(&["audit", "verify"]).code, Some(0));
}

/// The restored node takes the place of an old node with its id and its addresses. It refuses the old nodes, and never calls
/// them, because its cluster has not registered them. The old cluster keeps serving without it.
fn check_old_nodes(nodes: &mut [TestNode], restored: &std::path::Path) {
    let members = nodes[1].members.clone();
    nodes[1].stop();
    let mut stranger = TestNode::start(2, &members, restored);
    eventually("the old cluster to go on without node 2", || {
        let view = nodes[0].client(&["status", "-o", "json"]).stdout;
        let view: Value = serde_json::from_str(&view).unwrap_or_default();
        view["nodes"][1]["role"] == "unreachable" && view["leader"].is_u64()
    });
    stranger.wait_ready();
    let process = stranger.process.as_mut().unwrap();
    while !process.next_stderr_line().contains("\"refusal\":\"cluster-id\"") {}
    let status = stranger.client(&["status", "-o", "json"]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["leader"], 2, "{status}");
}
