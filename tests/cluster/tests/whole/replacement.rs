//! Members that are replaced without an operator: by their own emptied node, and by a standby.

use std::process::Command;

use holdfast_lab::{Cluster, DEADLINE, History, Load, Node, Ports, Program, binary, judge, until};

/// What every node is started with.
const FLAGS: &[&str] =
    &["--set", "raft.rejoin_when_emptied=true", "--set", "raft.replace_after=3s"];

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

/// Adds a standby through a node, and starts it. Its ports stay reserved.
async fn start_standby(cluster: &Cluster, through: &Node) -> (Program, Ports) {
    let mut ports = Ports::default();
    let [http, peer, zookeeper] = [(); 3].map(|()| ports.reserve());
    let call = format!("/v1/members?role=standby&http={http}&peer={peer}&zookeeper={zookeeper}");
    let invited = through.http.post(&call).await.assert_status(201).json();
    let path = |name: &str| cluster.dir().join(name).display().to_string();
    let [token, config, data] = ["token", "standby.toml", "standby"].map(path);
    let secret = invited["join_token"].as_str().expect("a join token");
    std::fs::write(&token, secret).expect("the token is written");
    let run = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).env_clear();
        Program::start(command)
    };
    let joined = run(&["join", &token, "--config", &config, "--data-dir", &data]).wait();
    assert_eq!(joined.code, Some(0), "{}", joined.stderr);
    (run(&["serve", "--config", &config]), ports)
}

/// The leader fails, and its successor gives its vote to the standby. When the failed node returns, it is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_replaces_the_failed_leader_while_clients_work() {
    let (cluster, history) = (Cluster::of(3).prepare().await, History::default());
    for node in cluster.nodes() {
        node.start_with(FLAGS);
    }
    let failed = cluster.node(cluster.wait_ready().await);
    let others: Vec<&Node> = cluster.others(failed.id).collect();
    let endpoints: Vec<_> = others.iter().map(|node| node.http.clone()).collect();
    let load = Load { holders: 4, competing_clients: 16, hot_locks: 4 };
    let load = load.start(&endpoints, &history);
    let _standby = start_standby(&cluster, others[0]).await;
    until("the standby to have joined", DEADLINE, || async {
        voters(others[0]).await.is_some_and(|ids| ids == [1, 2, 3])
    })
    .await;
    failed.kill();
    let expected: Vec<u64> = (1..=4).filter(|id| *id != failed.id).collect();
    until("the standby to vote", DEADLINE * 2, || async {
        voters(others[0]).await.is_some_and(|ids| ids == expected)
    })
    .await;
    failed.start_with(FLAGS);
    assert_eq!(failed.exit_code().await, Some(71), "{}", failed.log_tail());
    load.finish().await;
    judge::check_lock_history(&history);
}
