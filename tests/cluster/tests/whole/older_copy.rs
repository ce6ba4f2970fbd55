//! A node whose data directory is replaced by an older copy of it: whatever can be detected stops a node with exit code 70.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_lab::{Cluster, DEADLINE, Http, Method, Node, Request, until};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a copy");
        }
    }
}

/// A copy of the data directory of a node that does not run.
struct Copy(PathBuf);

impl Copy {
    /// Stops a node for the copy, and starts it again.
    async fn of_stopped(node: &Node) -> Self {
        node.stop().await;
        let older = Self::of(node);
        node.start();
        node.wait_ready().await;
        older
    }

    fn of(node: &Node) -> Self {
        let copy_dir = node.data_dir.with_extension("copy");
        copy(&node.data_dir, &copy_dir);
        Self(copy_dir)
    }

    fn roll_back(&self, node: &Node) {
        fs::remove_dir_all(&node.data_dir).expect("the directory");
        copy(&self.0, &node.data_dir);
    }
}

/// Acquires locks, and returns the last token.
async fn acquire(http: &Http, prefix: &str, count: u64) -> u64 {
    let mut last = 0;
    for number in 0..count {
        let target = format!("/v1/locks/{prefix}{number}?session=s&ttl=60s");
        last = http.put(&target).await.assert_status(200).token();
    }
    last
}

async fn has_applied(node: &Node, lock: &str) {
    until("the node to have the lock", DEADLINE, async || {
        let target = format!("/v1/locks/{lock}?stale");
        let reply = node.http.send(Request::new(Method::GET, &target)).await;
        reply.is_ok_and(|reply| reply.body.contains("\"session\":\"s\""))
    })
    .await;
}

/// Starts a node that must stop without ever being ready.
async fn stops_with(node: &Node, words: &str) {
    node.start();
    until("the node to stop", DEADLINE, async || {
        let ended = node.ended().is_some();
        assert!(ended || !node.is_ready().await, "the node serves: {}", node.log_tail());
        ended
    })
    .await;
    assert_eq!(node.exit_code().await, Some(70), "{}", node.log_tail());
    assert!(node.log_tail().contains(words), "{}", node.log_tail());
}

/// The leader remembers what the follower has acknowledged, and proves it to the follower.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_has_lost_acknowledged_entries_stops_and_the_leader_names_it() {
    let cluster = Cluster::three().await;
    let leader = cluster.node(cluster.wait_ready().await);
    let follower = cluster.others(leader.id).next().expect("a follower");
    acquire(&leader.http, "early", 5).await;
    has_applied(follower, "early4").await;
    let older = Copy::of_stopped(follower).await;
    acquire(&leader.http, "late", 20).await;
    has_applied(follower, "late19").await;
    follower.stop().await;
    older.roll_back(follower);

    for _ in 0..2 {
        stops_with(follower, "its data directory is an older copy").await;
    }
    acquire(&leader.http, "meanwhile", 1).await;
    let named = format!("node {} ", follower.id);
    until("an alarm with the reason", DEADLINE, async || {
        let alarms = leader.http.get("/v1/alarms").await.body;
        alarms.contains("member-silent") && alarms.contains(&named) && alarms.contains("older copy")
    })
    .await;
}

/// No peer remembers what the rolled-back node has acknowledged, so it can become a leader. The node that still has the
/// entries does not drop them.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_stops_when_a_leader_without_its_committed_entries_appears() {
    let cluster = Cluster::three().await;
    let leader = cluster.node(cluster.wait_ready().await);
    let [follower, absent] = &cluster.others(leader.id).collect::<Vec<_>>()[..] else { panic!() };
    acquire(&leader.http, "early", 5).await;
    has_applied(follower, "early4").await;
    let older = Copy::of_stopped(follower).await;
    absent.stop().await;
    acquire(&leader.http, "late", 10).await;
    has_applied(leader, "late9").await;
    follower.kill();
    leader.kill();
    older.roll_back(follower);
    follower.start();
    absent.start();
    cluster.wait_leader_among(&[follower.id, absent.id]).await;

    for _ in 0..2 {
        stops_with(leader, "are committed: other nodes have lost entries").await;
    }
    acquire(&absent.http, "after", 1).await;
}
