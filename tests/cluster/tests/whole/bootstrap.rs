//! Bootstrap of a cluster: with all members, once, and with a message about missing members.

use std::time::Duration;

use futures_util::future::join_all;
use holdfast_lab::{Actor, Attempt, Cluster, DEADLINE, History, Node, until, until_some};

const LONG: Duration = Duration::from_mins(5);

fn wipe(node: &Node) {
    std::fs::remove_dir_all(&node.data_dir).expect("its data");
}

/// Waits until `/readyz` reports that the node is not ready, with `words` in the reason.
async fn not_ready_because(node: &Node, words: &str) {
    let what = format!("node {} to say {words:?}", node.id);
    until(&what, DEADLINE, || async {
        if !node.answers().await {
            return false;
        }
        let reply = node.http.get("/readyz").await;
        reply.status == 503 && reply.body.contains(words)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_waits_for_all_members_and_says_for_whom() {
    let cluster = Cluster::of(3).prepare().await;
    cluster.node(1).start();
    cluster.node(2).start();
    for id in [1, 2] {
        let node = cluster.node(id);
        not_ready_because(node, "node 3").await;
        not_ready_because(node, "--bootstrap").await;
        let refused = node.http.put("/v1/locks/orders?session=me").await;
        refused.assert_code(503, "starting").assert_body_contains("node 3");
        assert!(refused.retryable(), "{refused}");
    }
    cluster.node(3).start();
    cluster.wait_ready().await;
    cluster.node(3).http.put("/v1/locks/orders?session=me").await.assert_status(200);
}

/// Promises 2 and 3 after the loss of most disks: data may be lost, but no new cluster restarts at token 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_majority_never_becomes_a_cluster_of_the_same_name() {
    let (cluster, history) = (Cluster::three().await, History::default());
    let mut actor = Actor::new("me", cluster.endpoints(), LONG, &history);
    let taken = actor.take("orders", Duration::ZERO, DEADLINE).await;
    assert!(matches!(taken, Attempt::Granted(_)), "{taken:?}");
    cluster.kill_all();
    for id in [1, 2] {
        wipe(cluster.node(id));
        cluster.node(id).start();
    }
    not_ready_because(cluster.node(1), "node 3").await;
    let refused = cluster.node(2).http.put("/v1/locks/orders?session=other").await;
    refused.assert_code(503, "starting");

    cluster.node(3).start();
    not_ready_because(cluster.node(1), "restore that directory").await;
    not_ready_because(cluster.node(3), "no leader").await;
    let calls = cluster.nodes().iter().map(|node| node.http.put("/v1/locks/orders?session=other"));
    for refused in join_all(calls).await {
        assert_eq!(refused.status, 503, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_found_a_cluster_without_an_absent_member_once() {
    let cluster = Cluster::of(3).prepare().await;
    cluster.node(1).start();
    cluster.node(2).start_with(&["--bootstrap"]);
    let leader = cluster.wait_ready().await;
    cluster.node(leader).http.put("/v1/locks/orders?session=me&ttl=5m").await.assert_status(200);
    cluster.node(3).start();
    cluster.wait_ready().await;

    cluster.node(2).stop().await;
    cluster.node(2).start_with(&["--bootstrap"]);
    let code = cluster.node(2).exit_code().await;
    assert_eq!(code, Some(1));
    assert!(cluster.node(2).log_tail().contains("without --bootstrap"), "it says what to change");
    cluster.node(2).start();
    cluster.wait_ready().await;
    let seen = until_some("the lock at the node that came late", DEADLINE, async || {
        let seen = cluster.node(3).http.get("/v1/locks/orders").await;
        (seen.status == 200).then(|| seen.json())
    })
    .await;
    assert_eq!(seen["holders"][0]["session"], "me", "{seen}");
}
