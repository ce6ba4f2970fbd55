//! Waits end at their deadline, even if their node is killed.

use holdfast_lab::{Cluster, DEADLINE, Method, Request, until};

/// The caller's node is killed, and another node renews its session: the queue entry is removed at the end of the wait,
/// and the next waiter is granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_parked_at_a_killed_node_ends_while_its_session_lives_on() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let parking = cluster.others(leader).next().expect("a follower");
    let http = &cluster.node(leader).http;
    http.put("/v1/locks/orders?session=holder&ttl=5m").await.assert_status(200);

    let parked_at = parking.http.clone();
    let waiting = tokio::spawn(async move {
        let target = "/v1/locks/orders?session=waiter&ttl=60s&wait=8s";
        parked_at.send(Request::new(Method::PUT, target).within(DEADLINE)).await
    });
    let waiters = async || http.get("/v1/locks/orders").await.json()["waiters"].as_u64();
    until("the waiter to stand in the queue", DEADLINE, || async { waiters().await == Some(1) })
        .await;
    parking.kill();
    drop(waiting.await);
    assert_eq!(waiters().await, Some(1), "its session lives, so its place is still there");
    until("the place to be given up", DEADLINE, || async {
        http.post("/v1/sessions/waiter/keepalive").await.assert_status(200);
        waiters().await == Some(0)
    })
    .await;
    http.get("/v1/sessions/waiter").await.assert_status(200);
    assert_eq!(http.get("/v1/locks/orders").await.json()["holders"][0]["session"], "holder");
}
