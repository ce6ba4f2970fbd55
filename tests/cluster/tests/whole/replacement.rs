//! Members that lost their data directory, and return without an operator.

use holdfast_lab::{Cluster, DEADLINE, History, Load, Node, judge, until};

/// What every node is started with.
const FLAGS: &[&str] = &["--set", "raft.rejoin_when_emptied=true"];

/// The ids of the voters that a node shows, if no change is unfinished.
async fn voters(node: &Node) -> Option<Vec<u64>> {
    if !node.answers().await {
        return None;
    }
    let view = node.http.get("/v1/cluster").await.json();
    let nodes = view["nodes"].as_array()?;
    let settled = nodes.iter().all(|node| node["change"].is_null());
    let votes = nodes.iter().filter(|node| node["votes"] == true);
    settled.then(|| votes.filter_map(|node| node["id"].as_u64()).collect())
}

/// Kills a node and removes its data. Starts it until it votes under the id `new`.
async fn empty(cluster: &Cluster, node: &Node, new: u64) {
    node.kill();
    std::fs::remove_dir_all(&node.data_dir).expect("its data");
    node.start_with(FLAGS);
    assert_eq!(node.exit_code().await, Some(73), "{}", node.log_tail());
    node.start_with(FLAGS);
    until("the node to vote under its new id", DEADLINE * 2, || async {
        for other in cluster.nodes() {
            let voters = voters(other).await;
            if !voters.is_some_and(|ids| ids.len() == 3 && ids.contains(&new)) {
                return false;
            }
        }
        node.is_ready().await
    })
    .await;
}

/// A follower, the leader, and the node that was emptied first, again. The nodes keep their addresses and configurations.
#[tokio::test(flavor = "multi_thread")]
async fn emptied_nodes_return_under_new_ids_while_clients_work() {
    let (cluster, history) = (Cluster::of(3).prepare().await, History::default());
    for node in cluster.nodes() {
        node.start_with(FLAGS);
    }
    let leader = cluster.wait_ready().await;
    let load = Load { holders: 4, competing_clients: 16, hot_locks: 4 };
    let load = load.start(&cluster.endpoints(), &history);
    let follower = cluster.others(leader).next().expect("a follower");
    empty(&cluster, follower, 4).await;
    empty(&cluster, cluster.node(leader), 5).await;
    empty(&cluster, follower, 6).await;
    load.finish().await;
    judge::check_lock_history(&history);
}
