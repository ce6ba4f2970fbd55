//! Upgrades: an older and a newer program in one cluster, the feature level, and the way back, all under load.

use holdfast_lab::{
    Cluster, DEADLINE, History, Load, LoadReport, Method, Reply, Request, binary, newer_binary,
    until,
};

const LOAD: Load = Load { holders: 6, competing_clients: 12, hot_locks: 3 };
/// An error of a node that stops because of its program.
const OLD_PROGRAM: i32 = 72;

async fn set_level(cluster: &Cluster, level: u16) -> Reply {
    let target = format!("/v1/cluster/level?level={level}");
    let request = Request::new(Method::POST, &target).within(DEADLINE);
    cluster.nodes()[0].http.send(request).await.expect("a reply")
}

/// Calls until no election or restart is in the way.
async fn set_level_to(cluster: &Cluster, level: u16) {
    until("the change of the level", DEADLINE, || async {
        let reply = set_level(cluster, level).await;
        assert!(reply.status == 200 || reply.retryable() || reply.status == 409, "{reply}");
        reply.status == 200
    })
    .await;
}

async fn replace_program(cluster: &Cluster, id: u64, program: &'static std::path::Path) {
    cluster.node(id).stop().await;
    cluster.node(id).install(program);
    cluster.node(id).start();
    cluster.wait_ready().await;
}

async fn start_cluster() -> (Cluster, LoadReport) {
    let cluster = Cluster::of(3).start().await;
    let load = LOAD.start(&cluster.endpoints(), &History::default());
    load.wait_for_grants(30).await;
    (cluster, load)
}

async fn level_of(cluster: &Cluster) -> u64 {
    let view = cluster.nodes()[0].http.get("/v1/cluster").await;
    view.json()["level"].as_u64().expect("a level")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_work_side_by_side_until_the_level_is_raised_and_again_after_it_is_lowered() {
    let (cluster, load) = start_cluster().await;
    let old = level_of(&cluster).await;
    let new = u16::try_from(old).expect("a level") + 1;
    let refused = set_level(&cluster, new).await;
    refused.assert_code(409, "level-not-ready").assert_body_contains("knows feature levels up to");

    // Every mixture, with the leader killed in each.
    for id in [2, 3] {
        replace_program(&cluster, id, newer_binary()).await;
        load.wait_for_grants(30).await;
        let leader = cluster.wait_ready().await;
        cluster.node(leader).kill();
        load.wait_for_grants(10).await;
        let others: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
        cluster.wait_leader_among(&others).await;
        cluster.node(leader).start();
        cluster.wait_ready().await;
        set_level(&cluster, new).await.assert_code(409, "level-not-ready");
    }
    // The way back, and the rest of the upgrade.
    replace_program(&cluster, 2, binary()).await;
    load.wait_for_grants(30).await;
    for id in [2, 1] {
        replace_program(&cluster, id, newer_binary()).await;
    }
    assert_eq!(level_of(&cluster).await, old);
    set_level_to(&cluster, new).await;
    load.wait_for_grants(30).await;

    // A node with the older program stops, and the others continue.
    cluster.node(3).stop().await;
    cluster.node(3).install(binary());
    cluster.node(3).start();
    assert_eq!(cluster.node(3).exit_code().await, Some(OLD_PROGRAM));
    assert!(cluster.node(3).log_lines_with("this program knows levels up to") > 0);
    load.wait_for_grants(30).await;
    cluster.node(3).install(newer_binary());
    cluster.node(3).start();
    cluster.wait_ready().await;

    set_level_to(&cluster, new - 1).await;
    replace_program(&cluster, 3, binary()).await;
    load.wait_for_grants(30).await;
    load.finish().await;
}
