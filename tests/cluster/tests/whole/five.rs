//! Five nodes: the cluster tolerates the loss of two, not of three.

use std::time::Duration;

use futures_util::future::join_all;
use holdfast_lab::{Actor, Attempt, Cluster, DEADLINE, History, Http, Load, judge, until};

const LONG: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_go_on_without_two_refuse_without_three_and_come_back() {
    let cluster = Cluster::of(5).start().await;
    let history = History::default();
    let mut holder = Actor::new("holder", cluster.endpoints(), LONG, &history);
    let held = holder.take("held", Duration::ZERO, DEADLINE).await;
    assert!(matches!(held, Attempt::Granted(_)), "{held:?}");
    let load = Load { holders: 5, competing_clients: 15, hot_locks: 4 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(50).await;

    // Kills the leader and one more node in immediate succession.
    let leader = cluster.wait_ready().await;
    let other = cluster.others(leader).next().expect("a follower").id;
    cluster.node(leader).kill();
    cluster.node(other).kill();
    let rest: Vec<u64> = cluster
        .nodes()
        .iter()
        .map(|node| node.id)
        .filter(|id| *id != leader && *id != other)
        .collect();
    let second = cluster.wait_leader_among(&rest).await;
    load.wait_for_grants(50).await;

    let third = *rest.iter().find(|id| **id != second).expect("a follower");
    cluster.node(third).kill();
    let two = rest.iter().filter(|id| **id != third);
    join_all(two.map(|id| refuses_all_but_stale_reads(&cluster.node(*id).http))).await;

    cluster.node(third).start();
    load.wait_for_grants(50).await;
    for id in [leader, other] {
        cluster.node(id).start();
    }
    cluster.wait_ready().await;
    load.wait_for_grants(50).await;
    load.finish().await;
    assert_eq!(holder.take("held", Duration::ZERO, DEADLINE).await, held, "the same hold");
    judge::check_lock_history(&history);
}

async fn refuses_all_but_stale_reads(http: &Http) {
    until("two of five to refuse", DEADLINE, || async {
        let refused = http.put("/v1/locks/alone?session=alone").await;
        refused.status == 503 && refused.retryable()
    })
    .await;
    http.get("/v1/locks/held").await.assert_code(503, "no-leader");
    let stale = http.get("/v1/locks/held?stale").await;
    assert_eq!(stale.assert_status(200).json()["holders"][0]["session"], "holder", "{stale}");
}
