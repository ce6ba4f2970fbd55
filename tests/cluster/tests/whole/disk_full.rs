//! A full disk: writes are rejected with a reason, reads and holds continue, and the node recovers without a restart.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use holdfast_lab::{
    Actor, Attempt, Cluster, DEADLINE, History, Method, Node, Request, Tmpfs, is_root, judge,
    until, until_some,
};
use tokio::time::Instant;

const LONG: Duration = Duration::from_mins(5);
const DISK_MIB: u32 = 512;
/// Disk reserve of the nodes; the ballast leaves less.
const RESERVE_MIB: u64 = 64;

/// Fills the disk up to `left_mib`.
fn fill(disk: &Path, left_mib: u64) -> std::path::PathBuf {
    let ballast = disk.join("ballast");
    File::create(&ballast).expect("a file");
    let output =
        Command::new("df").args(["--output=avail", "-BM"]).arg(disk).output().expect("df runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let free = text.lines().nth(1).map(|line| line.trim().trim_end_matches('M'));
    let free: u64 = free.and_then(|free| free.parse().ok()).expect("df prints what is free");
    let size = format!("{}M", free - left_mib);
    let status = Command::new("fallocate").args(["-l", &size]).arg(&ballast).status();
    assert!(status.expect("fallocate runs").success());
    ballast
}

/// Asserts that every node answers reads or reports its full disk, and that at least one node answers.
async fn read_everywhere(cluster: &Cluster, lock: &str, holder: &str) {
    let mut read = 0;
    for node in cluster.nodes() {
        let reply = node.http.get(&format!("/v1/locks/{lock}")).await;
        if reply.status == 200 {
            assert_eq!(reply.json()["holders"][0]["session"], holder, "{reply}");
            read += 1;
        } else {
            reply.assert_code(503, "disk-full").assert_body_contains("another node");
        }
    }
    assert!(read > 0, "nobody reads");
}

/// A node that a last write of the others left behind does not know what the session holds, and names another node.
async fn renew_at_one_node(holder: &mut Actor, nodes: usize) {
    for _ in 0..nodes {
        let renewed = holder.keep_alive().await;
        if renewed == Attempt::Done {
            return;
        }
        assert_eq!(renewed, Attempt::Retry("disk-full".into()));
        holder.next_endpoint();
    }
    panic!("renewals need no disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_keeps_what_is_held_and_recovers_without_a_restart() {
    if !is_root("the full disk") {
        return;
    }
    let disk = Tmpfs::mount(DISK_MIB);
    let reserve = format!("[storage]\ndisk_reserve = \"{RESERVE_MIB}MiB\"\n");
    let cluster = Cluster::of(3).extra(&reserve).data_under(disk.path()).start().await;
    let history = History::default();
    let ttl = Duration::from_secs(8);
    let mut holder = Actor::new("me", cluster.endpoints(), ttl, &history);
    let held = holder.take("orders", Duration::ZERO, DEADLINE).await;
    let ballast = fill(disk.path(), RESERVE_MIB / 2);
    for node in cluster.nodes() {
        until_not_ready(node, &["disk"]).await;
    }

    let mut tries = 0..;
    let mut write = async |node: &Node| {
        let index = tries.next().unwrap_or_default();
        node.http.put(&format!("/v1/locks/full/{index}?session=s{index}&ttl=60s&wait=1s")).await
    };
    for node in cluster.nodes() {
        // The leadership may move between nodes with full disks.
        let refused = until_some("a write refused by the full disk", DEADLINE, async || {
            Some(write(node).await).filter(|reply| reply.code() != "no-leader")
        })
        .await;
        refused.assert_code(503, "disk-full");
        assert!(refused.retryable(), "{refused}");
    }
    // Twice the TTL, with keepalives only.
    let twice = Instant::now() + ttl * 2;
    while Instant::now() < twice {
        renew_at_one_node(&mut holder, cluster.nodes().len()).await;
        read_everywhere(&cluster, "orders", holder.session.as_str()).await;
    }
    std::fs::remove_file(ballast).expect("room again");
    for node in cluster.nodes() {
        until_some("writes to work again without a restart", DEADLINE, async || {
            Some(write(node).await).filter(|reply| reply.status == 200)
        })
        .await;
        assert!(node.ended().is_none());
    }
    assert_eq!(holder.take("orders", Duration::ZERO, DEADLINE).await, held, "the same hold");
    judge::check_lock_history(&history);
}

async fn until_not_ready(node: &Node, failed: &[&str]) {
    until("these checks to fail", DEADLINE, || async {
        let checks = node.http.get("/readyz").await.json()["checks"].take();
        let checks = checks.as_array().into_iter().flatten().filter(|check| check["ok"] == false);
        checks.filter_map(|check| check["name"].as_str()).eq(failed.iter().copied())
    })
    .await;
}

/// A node that cannot catch up is not ready, refuses at once what it cannot answer, and keeps what is held.
async fn is_left_at_once(node: &Node) {
    until_not_ready(node, &["disk", "lag"]).await;
    let calls = tokio::time::timeout(Duration::from_secs(4), refuses_what_it_cannot_answer(node));
    calls.await.expect("one of these calls once took 5 s");
}

async fn refuses_what_it_cannot_answer(node: &Node) {
    for call in [
        Request::new(Method::GET, "/v1/locks/orders/49"),
        Request::new(Method::GET, "/v1/sessions/me"),
        Request::new(Method::PUT, "/v1/sessions/new"),
        Request::new(Method::PUT, "/v1/locks/orders/49?session=other&wait=30s"),
        Request::new(Method::PUT, "/v1/locks/orders/49?session=other&wait=30s&enqueue"),
        // The session is renewed, but this node does not know what it holds.
        Request::new(Method::POST, "/v1/sessions/holder/keepalive"),
    ] {
        let refused = node.http.send(call).await.expect("a reply");
        refused.assert_code(503, "disk-full").assert_body_contains("another node");
    }
    let kept = Request::new(Method::POST, "/v1/keepalive").body(r#"["holder"]"#);
    node.http.send(kept).await.expect("a reply").assert_status(200);
    node.http.put("/v1/locks/orders/50?session=me").await.assert_status(200);
}

/// A majority can write, so one follower's full disk does not affect the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn one_follower_with_a_full_disk_stops_nobody() {
    if !is_root("the full disk of one follower") {
        return;
    }
    let small = Tmpfs::mount(DISK_MIB);
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let follower = cluster.others(leader).next().expect("a follower");
    follower.stop().await;
    let copied = Command::new("cp").arg("-aT").args([&follower.data_dir, small.path()]).status();
    assert!(copied.expect("cp runs").success());
    std::fs::remove_dir_all(&follower.data_dir).expect("the old place");
    std::os::unix::fs::symlink(small.path(), &follower.data_dir).expect("a link to the small disk");
    follower.start();
    assert_eq!(cluster.wait_ready().await, leader);

    cluster.node(leader).http.put("/v1/locks/busy?session=holder&ttl=5m").await.assert_status(200);
    let waiting =
        follower.http.begin_unreliable(Method::PUT, "/v1/locks/busy?session=waiter&ttl=6s&wait=5m");
    until("the waiter to be queued", DEADLINE, async || {
        follower.http.get("/v1/locks/busy").await.json()["waiters"] == 1
    })
    .await;
    let ballast = fill(small.path(), RESERVE_MIB / 2);
    until_not_ready(follower, &["disk"]).await;
    let history = History::default();
    let endpoints: Vec<_> = cluster.others(follower.id).map(|node| node.http.clone()).collect();
    let mut actor = Actor::new("me", endpoints, LONG, &history);
    for round in 0..50 {
        let taken = actor.take(&format!("orders/{round}"), Duration::ZERO, DEADLINE).await;
        assert!(matches!(taken, Attempt::Granted(_)), "{taken:?}");
        actor.next_endpoint();
    }
    is_left_at_once(follower).await;
    // It goes on elsewhere: this node would not see its grant.
    let turned_away = waiting.await.expect("the call").expect("a reply");
    turned_away.assert_code(503, "disk-full").assert_body_contains("another node");
    std::fs::remove_file(ballast).expect("room again");
    assert_eq!(cluster.wait_ready().await, leader);
    follower.http.get("/v1/locks/orders/49").await.assert_status(200);
    judge::check_lock_history(&history);
}
