//! A data directory that is damaged, wiped, or of another node or cluster: the node refuses to start and reports the
//! fix, and the other nodes continue.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_lab::{
    Actor, Attempt, Cluster, DEADLINE, History, Load, Node, judge, until, until_some,
};

const LONG: Duration = Duration::from_mins(5);
/// A name that the test finds in the bytes of a log record.
const NEEDLE: &str = "needle-in-the-log";

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

/// Flips one bit of every occurrence of the needle; returns their number.
fn damage_needles(dir: &Path) -> usize {
    let mut found = 0;
    for path in files(dir) {
        let mut bytes = std::fs::read(&path).expect("a file");
        let places: Vec<usize> = bytes
            .windows(NEEDLE.len())
            .enumerate()
            .filter_map(|(at, window)| (window == NEEDLE.as_bytes()).then_some(at))
            .collect();
        for at in &places {
            bytes[at + 3] ^= 0x10;
        }
        if !places.is_empty() {
            std::fs::write(&path, bytes).expect("the damaged file");
        }
        found += places.len();
    }
    found
}

/// Flips one bit in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(path, bytes).expect("the damaged file");
}

/// Asserts that the node exits with an error, and that its last log lines contain all of `words`.
async fn refuses(node: &Node, words: &[&str]) {
    node.start();
    let status = until_some("the node to refuse", DEADLINE, async || node.ended()).await;
    assert!(!status.success(), "a refusal is a failure: {status}");
    node.kill();
    let said = node.log_tail();
    let last_words = said.lines().rev().take(12).collect::<Vec<_>>().join("\n");
    for word in words {
        assert!(last_words.contains(word), "expected {word:?} in the last words:\n{last_words}");
    }
}

/// Waits until the log has registered the data directory of every member: one command each.
async fn wait_registered(cluster: &Cluster) {
    let http = &cluster.node(1).http;
    until("every member to be registered", DEADLINE, || async {
        let locks = http.get("/v1/locks").await.assert_status(200).json();
        locks["revision"].as_u64().is_some_and(|revision| revision >= 3)
    })
    .await;
}

/// Writes to the log, and stops a follower.
async fn with_a_stopped_follower(cluster: &Cluster, history: &History) -> (Actor, u64) {
    let leader = cluster.wait_ready().await;
    wait_registered(cluster).await;
    let follower = cluster.others(leader).next().expect("a follower").id;
    let endpoints: Vec<_> = cluster.others(follower).map(|node| node.http.clone()).collect();
    let mut actor = Actor::new("me", endpoints, LONG, history);
    let after: Vec<String> = (0..20).map(|index| format!("after/{index}")).collect();
    for lock in [NEEDLE].into_iter().chain(after.iter().map(String::as_str)) {
        let taken = actor.take(lock, Duration::ZERO, DEADLINE).await;
        assert!(matches!(taken, Attempt::Granted(_)), "{taken:?}");
    }
    until("the follower to know all the locks", DEADLINE, || async {
        let seen = cluster.node(follower).http.get("/v1/locks/after/19?stale").await;
        seen.json()["held"] == true
    })
    .await;
    cluster.node(follower).stop().await;
    (actor, follower)
}

async fn the_others_go_on(actor: &mut Actor) {
    for round in 0..6 {
        let lock = format!("meanwhile/{round}");
        let taken = actor.take(&lock, Duration::ZERO, DEADLINE).await;
        assert!(matches!(taken, Attempt::Granted(_)), "{taken:?}");
        actor.next_endpoint();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_record_is_refused_with_what_to_do() {
    let (cluster, history) = (Cluster::three().await, History::default());
    let (mut actor, follower) = with_a_stopped_follower(&cluster, &history).await;
    let node = cluster.node(follower);
    let records = damage_needles(&node.data_dir);
    assert!(records > 0, "the lock's name is in the log");
    refuses(node, &["damaged", "holdfast member replace"]).await;
    the_others_go_on(&mut actor).await;
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_identity_is_refused_with_what_to_do() {
    let (cluster, history) = (Cluster::three().await, History::default());
    let (mut actor, follower) = with_a_stopped_follower(&cluster, &history).await;
    let node = cluster.node(follower);
    let identity = files(&node.data_dir).into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains("identity"))
    });
    damage(&identity.expect("a file with the node's identity"));
    refuses(node, &["damaged", "identity"]).await;
    the_others_go_on(&mut actor).await;
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_refused_with_what_to_do() {
    let cluster = Cluster::of(3).extra("[storage]\nsnapshot_log = \"64KiB\"\n").start().await;
    let history = History::default();
    let snapshots = |node: &Node| -> Vec<PathBuf> {
        let of_a_snapshot = |path: &PathBuf| path.to_string_lossy().contains("snapshot");
        files(&node.data_dir).into_iter().filter(of_a_snapshot).collect()
    };
    let load = Load { holders: 0, competing_clients: 16, hot_locks: 8 }
        .start(&cluster.endpoints(), &history);
    until("every node to have a snapshot", DEADLINE * 2, || async {
        cluster.nodes().iter().all(|node| !snapshots(node).is_empty())
    })
    .await;
    load.finish().await;
    let (mut actor, follower) = with_a_stopped_follower(&cluster, &history).await;
    let node = cluster.node(follower);
    for path in snapshots(node) {
        damage(&path);
    }
    refuses(node, &["damaged", "snapshot", "holdfast member replace"]).await;
    the_others_go_on(&mut actor).await;
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_another_node_is_refused() {
    let (cluster, history) = (Cluster::three().await, History::default());
    let (mut actor, follower) = with_a_stopped_follower(&cluster, &history).await;
    let other = cluster.others(follower).next().expect("another").id;
    let (node, its) = (cluster.node(follower), &cluster.node(other).data_dir);
    std::fs::remove_dir_all(&node.data_dir).expect("its own data");
    let copied = std::process::Command::new("cp").arg("-aT").args([its, &node.data_dir]).status();
    assert!(copied.expect("cp runs").success());
    refuses(node, &[&format!("node {other}"), "data_dir"]).await;
    the_others_go_on(&mut actor).await;
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_another_cluster_is_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let first = Cluster::of(3).named("first").data_under(root.path()).start().await;
    for node in first.nodes() {
        node.stop().await;
    }
    let second = Cluster::of(3).named("second").data_under(root.path()).prepare().await;
    for node in second.nodes() {
        refuses(node, &["first", "second"]).await;
    }
    first.start_all();
    first.wait_ready().await;
}

/// A node that lost its votes must not vote again: its peers reject its old id without its data.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_does_not_come_back_under_its_old_id() {
    let (cluster, history) = (Cluster::three().await, History::default());
    let (mut actor, follower) = with_a_stopped_follower(&cluster, &history).await;
    let (node, leader) = (cluster.node(follower), cluster.wait_ready().await);
    std::fs::remove_dir_all(&node.data_dir).expect("its data");
    node.start();
    until("the node to say why nobody talks to it", DEADLINE, || async {
        node.log_tail().contains("restore that directory, or join under a new id")
    })
    .await;
    the_others_go_on(&mut actor).await;
    assert!(!node.is_ready().await, "it knows nothing and says so");
    let refused = node.http.put("/v1/locks/alone?session=x&ttl=60s").await;
    assert_eq!(refused.status, 503, "{refused}");
    // Without one of the two other nodes there is no majority: the wiped node's vote does not count.
    let gone = cluster.others(follower).find(|other| other.id != leader).expect("a follower");
    gone.kill();
    let http = &cluster.node(leader).http;
    until("the leader to know that it is alone", DEADLINE, || async {
        http.put("/v1/locks/alone?session=x&ttl=60s").await.status == 503
    })
    .await;
    gone.start();
    until("the two to serve again", DEADLINE, || async {
        http.put("/v1/locks/alone?session=x&ttl=60s").await.status == 200
    })
    .await;
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_do_not_share_a_data_directory() {
    let root = tempfile::tempdir().expect("a directory");
    let first = Cluster::of(1).data_under(root.path()).start().await;
    let second = Cluster::of(1).data_under(root.path()).prepare().await;
    refuses(second.node(1), &["data_dir"]).await;
    first.node(1).http.put("/v1/locks/a?session=me").await.assert_status(200);
}
