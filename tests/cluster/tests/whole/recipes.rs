//! Barriers when nodes and members are killed: no member passes without the others, and every waiter is notified.

use holdfast_lab::{Cluster, Method};

const GO: &str = "/v1/barriers/go";

fn arrival(session: &str, ttl: &str) -> String {
    format!("{GO}?parties=3&session={session}&ttl={ttl}&wait=60s&request=1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_breaks_the_barrier_for_those_who_wait() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let waiting = first.http.begin_unreliable(Method::PUT, &arrival("w1", "20s"));
    let dying = second.http.begin_unreliable(Method::PUT, &arrival("w2", "1s"));
    third.http.until_arrived(GO, 2).await;
    // The member is killed, so its session gets no renewals.
    dying.abort();
    let told = waiting.await.expect("a task").expect("an answer");
    told.assert_code(409, "barrier-broken");
    assert_eq!(told.json()["session"], "w2", "{told}");
    assert_eq!(told.json()["cause"], "session-expired", "{told}");
    third.http.put(&arrival("w1", "20s")).await.assert_code(409, "barrier-broken");
    third.http.until_arrived(GO, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_survives_the_leader_and_the_node_that_a_member_waits_at() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let others: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
    let at_leader = cluster.node(leader).http.begin_unreliable(Method::PUT, &arrival("w1", "30s"));
    let second = cluster.node(others[0]).http.begin_unreliable(Method::PUT, &arrival("w2", "30s"));
    cluster.node(others[1]).http.until_arrived(GO, 2).await;
    cluster.node(leader).kill();
    assert!(at_leader.await.expect("a task").is_err(), "its node is gone");
    cluster.wait_leader_among(&others).await;
    let http = &cluster.node(others[1]).http;
    // The repeated call at another node is the same arrival.
    let again = http.begin_unreliable(Method::PUT, &arrival("w1", "30s"));
    http.until_arrived(GO, 2).await;
    let last = http.put(&arrival("w3", "30s")).await;
    let answers =
        [again, second].map(|call| async { call.await.expect("a task").expect("an answer") });
    let [again, second] = answers;
    let (again, second) = (again.await, second.await);
    for answer in [&again, &second, &last] {
        assert_eq!(
            answer.assert_status(200).json()["generation"],
            last.json()["generation"],
            "{answer}"
        );
    }
    let mut indexes = [&again, &second, &last].map(|a| a.json()["index"].as_u64());
    indexes.sort_unstable();
    assert_eq!(indexes, [Some(0), Some(1), Some(2)]);
    assert_eq!(http.put(&arrival("w1", "30s")).await.body, again.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn latches_double_barriers_and_counters_survive_kill_9_of_everybody() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.put("/v1/latches/done?count=2").await.assert_status(201);
    http.post("/v1/latches/done?key=a").await.assert_status(200);
    http.post("/v1/counters/hits?add=5").await.assert_status(200);
    let room = "/v1/double-barriers/room";
    http.put(&format!("{room}?parties=1&session=in&ttl=60s")).await.assert_status(200);
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_ready().await;
    let waiting = cluster.node(2).http.begin_unreliable(Method::GET, "/v1/latches/done?wait=60s");
    let again = cluster.node(3).http.post("/v1/latches/done?key=a").await;
    assert_eq!(again.assert_status(200).json()["left"], 1);
    cluster.node(3).http.post("/v1/latches/done?key=b").await.assert_status(200);
    waiting.await.expect("a task").expect("an answer").assert_status(200);
    assert_eq!(http.get("/v1/counters/hits").await.assert_status(200).json()["value"], 5);
    assert_eq!(http.get(room).await.assert_status(200).json()["inside"][0], "in");
    http.delete(&format!("{room}?session=in&wait=5s")).await.assert_status(200);
}
