//! Exactly once: a repeated call has one effect and gets the first reply, and waiters keep their queue position.

use holdfast_lab::{Cluster, DEADLINE, Http, Method, Reply, until};
use tokio::task::JoinHandle;

const ORDERS: &str = "orders";
const LOCK: &str = "/v1/locks/orders";

async fn holder(http: &Http) -> Option<String> {
    http.holders(ORDERS).await.pop()
}

/// Starts a waiting PUT in the background.
fn waiting(http: &Http, query: &str) -> JoinHandle<Reply> {
    http.begin(Method::PUT, &format!("{LOCK}?{query}"))
}

/// Disconnects the client.
async fn hang_up(call: JoinHandle<Reply>) {
    call.abort();
    assert!(call.await.expect_err("it was still waiting").is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_put_renews_with_the_same_token_and_the_same_delete_is_204_again() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let granted = first.http.put(&format!("{LOCK}?session=me&ttl=20s")).await;
    assert_eq!(granted.assert_status(200).json()["renewed"], false);
    for node in [second, third, first] {
        let again = node.http.put(&format!("{LOCK}?session=me&ttl=20s")).await;
        assert_eq!(again.assert_status(200).token(), granted.token());
        assert_eq!(again.json()["renewed"], true);
    }
    for node in [second, first, third] {
        node.http.delete(&format!("{LOCK}?session=me")).await.assert_status(204);
        assert_eq!(holder(&third.http).await, None);
    }
    let next = first.http.put(&format!("{LOCK}?session=me&ttl=20s")).await;
    assert!(next.assert_status(200).token() > granted.token(), "a new grant has a new token");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_somebody_else_is_409_and_names_the_holder() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.put(&format!("{LOCK}?session=me&ttl=20s&label.pid=812")).await.assert_status(200);
    http.put("/v1/sessions/you?ttl=20s").await.assert_status(201);
    let refused = cluster.node(2).http.delete(&format!("{LOCK}?session=you")).await;
    refused.assert_code(409, "not-holder");
    assert!(!refused.retryable());
    assert_eq!(refused.json()["holder"]["session"], "me", "{refused}");
    assert_eq!(refused.json()["holder"]["labels"]["pid"], "812", "{refused}");
    assert_eq!(holder(http).await.as_deref(), Some("me"), "nobody else's lock is freed");
    http.delete(LOCK).await.assert_code(400, "invalid-argument").assert_body_contains("session");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_410_and_a_closed_one_may_be_closed_again() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let nobody = "/v1/sessions/nobody";
    first.http.post(&format!("{nobody}/keepalive")).await.assert_code(410, "session-expired");
    second.http.get(nobody).await.assert_code(410, "session-expired");
    third.http.delete(nobody).await.assert_code(410, "session-expired");
    first.http.put(&format!("{LOCK}?session=me&ttl=20s")).await.assert_status(200);
    for node in cluster.nodes() {
        node.http.delete("/v1/sessions/me").await.assert_status(204);
        assert_eq!(holder(&third.http).await, None, "everything it held is free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_410_until_its_loss_is_acknowledged() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let lost =
        first.http.put(&format!("{LOCK}?session=me&ttl=1s")).await.assert_status(200).token();
    until("the session to expire", DEADLINE, || async { holder(&second.http).await.is_none() })
        .await;
    for node in cluster.nodes() {
        let told = node.http.put(&format!("{LOCK}?session=me&ttl=1s")).await;
        told.assert_code(410, "session-expired").assert_body_contains("me");
        assert!(!told.retryable());
        node.http.post("/v1/sessions/me/keepalive").await.assert_code(410, "session-expired");
        node.http.delete(&format!("{LOCK}?session=me")).await.assert_code(410, "session-expired");
    }
    third.http.delete("/v1/sessions/me").await.assert_status(204);
    let anew = second.http.put(&format!("{LOCK}?session=me&ttl=20s")).await;
    assert!(anew.assert_status(200).token() > lost);
    assert_eq!(anew.json()["renewed"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_is_counted_once_and_the_lock_is_free_when_the_last_has_left() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let entered = first.http.put(&format!("{LOCK}?session=me&ttl=20s&attempt=1")).await;
    let token = entered.assert_status(200).token();
    for (node, attempt, entries) in [(second, 1, 1), (third, 2, 2), (first, 2, 2), (second, 3, 3)] {
        let again = node.http.put(&format!("{LOCK}?session=me&attempt={attempt}")).await;
        assert_eq!(
            (again.assert_status(200).token(), &again.json()["hold_count"]),
            (token, &entries.into())
        );
    }
    for (node, attempt, left) in [(first, 3, "2"), (second, 3, "2"), (third, 1, "1")] {
        let leaving = node.http.delete(&format!("{LOCK}?session=me&attempt={attempt}")).await;
        assert_eq!(
            leaving.assert_status(204).header("holdfast-hold-count"),
            Some(left),
            "{attempt}"
        );
        assert_eq!(holder(&first.http).await.as_deref(), Some("me"));
    }
    second.http.delete(&format!("{LOCK}?session=me&attempt=2")).await.assert_status(204);
    assert_eq!(holder(&first.http).await, None);
    second.http.delete(&format!("{LOCK}?session=me&attempt=2")).await.assert_status(204);

    for late in [1, 2, 3] {
        let copy = first.http.put(&format!("{LOCK}?session=me&attempt={late}")).await;
        copy.assert_code(409, "attempt-over");
    }
    first.http.put(&format!("{LOCK}?session=me&attempt=4")).await.assert_status(200);
    first.http.put(&format!("{LOCK}?session=me&attempt=5")).await.assert_status(200);
    third.http.delete(&format!("{LOCK}?session=me")).await.assert_status(204);
    assert_eq!(holder(&first.http).await, None, "a plain DELETE leaves them all");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_owners_of_one_session_exclude_each_other() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.put(&format!("{LOCK}?session=me&owner=a&ttl=20s")).await.assert_status(200);
    http.put(&format!("{LOCK}?session=me&owner=b")).await.assert_code(423, "lock-busy");
    http.delete(&format!("{LOCK}?session=me&owner=b")).await.assert_code(409, "not-holder");
    http.delete(&format!("{LOCK}?session=me&owner=a")).await.assert_status(204);
    http.put(&format!("{LOCK}?session=me&owner=b")).await.assert_status(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_session_ends_with_its_release() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let mine = first.http.put(&format!("{LOCK}?ttl=20s")).await.assert_status(200).session();
    let busy = second.http.put(&format!("{LOCK}?ttl=20s")).await;
    assert_eq!(busy.assert_code(423, "lock-busy").json()["holder"]["session"], mine.as_str());
    second.http.delete(&format!("{LOCK}?session={mine}")).await.assert_status(204);
    assert_eq!(holder(&third.http).await, None);
    first.http.delete(&format!("{LOCK}?session={mine}")).await.assert_status(204);
    let sessions = third.http.get("/v1/sessions").await.assert_status(200).json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0), "{sessions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_session_ends_with_its_ttl() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let mine = http.put(&format!("{LOCK}?ttl=1s")).await.assert_status(200).session();
    assert_eq!(holder(http).await, Some(mine));
    until("the lock to be free", DEADLINE, || async { holder(http).await.is_none() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_waiter_that_hangs_up_leaves_the_queue() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put(&format!("{LOCK}?session=me&ttl=60s")).await.assert_status(200);
    let leaving = waiting(&second.http, "ttl=60s&wait=60s");
    third.http.until_waiters(ORDERS, 1).await;
    let staying = waiting(&third.http, "session=you&ttl=60s&wait=60s");
    third.http.until_waiters(ORDERS, 2).await;
    hang_up(leaving).await;
    first.http.until_queue(ORDERS, &["you"]).await;
    first.http.delete(&format!("{LOCK}?session=me")).await.assert_status(204);
    assert_eq!(staying.await.expect("the waiter").assert_status(200).session(), "you");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_waiter_keeps_its_place_when_it_hangs_up_and_asks_again_elsewhere() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put(&format!("{LOCK}?session=me&ttl=60s")).await.assert_status(200);
    let interrupted = waiting(&second.http, "session=early&ttl=60s&wait=60s");
    third.http.until_queue(ORDERS, &["early"]).await;
    let late = waiting(&third.http, "session=late&ttl=60s&wait=60s");
    third.http.until_queue(ORDERS, &["early", "late"]).await;
    hang_up(interrupted).await;
    let again = waiting(&third.http, "session=early&ttl=60s&wait=60s");
    assert_eq!(first.http.queue(ORDERS).await, ["early", "late"], "the place keeps");
    first.http.delete(&format!("{LOCK}?session=me")).await.assert_status(204);
    let early = again.await.expect("the waiter");
    assert_eq!(early.assert_status(200).session(), "early");
    assert!(!late.is_finished(), "nobody overtakes");
    second.http.delete(&format!("{LOCK}?session=early")).await.assert_status(204);
    let late = late.await.expect("the waiter");
    assert!(late.assert_status(200).token() > early.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_waiter_at_two_nodes_has_one_place_and_one_token() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put(&format!("{LOCK}?session=me&ttl=60s")).await.assert_status(200);
    let here = waiting(&second.http, "session=you&ttl=60s&wait=60s");
    first.http.until_queue(ORDERS, &["you"]).await;
    let there = waiting(&third.http, "session=you&ttl=60s&wait=60s");
    first.http.delete(&format!("{LOCK}?session=me")).await.assert_status(204);
    let (here, there) = (here.await.expect("a waiter"), there.await.expect("a waiter"));
    assert_eq!(here.assert_status(200).token(), there.assert_status(200).token());
    assert_eq!(first.http.queue(ORDERS).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_in_vain_is_told_so_and_is_out_of_the_queue() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put(&format!("{LOCK}?session=me&ttl=60s")).await.assert_status(200);
    let told = second.http.put(&format!("{LOCK}?session=you&ttl=60s&wait=300ms")).await;
    told.assert_code(423, "wait-timeout");
    assert!(told.retryable());
    assert_eq!(told.json()["holder"]["session"], "me", "{told}");
    assert!(told.json()["waited_ms"].as_u64().is_some_and(|waited| waited >= 300), "{told}");
    assert_eq!(third.http.queue(ORDERS).await, [""; 0]);
    first.http.delete(&format!("{LOCK}?session=me")).await.assert_status(204);
    assert_eq!(holder(&third.http).await, None, "nobody is granted who has gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_may_leave_the_queue_by_delete() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put(&format!("{LOCK}?session=me&ttl=60s")).await.assert_status(200);
    let waiter = waiting(&second.http, "session=you&ttl=60s&wait=60s");
    third.http.until_queue(ORDERS, &["you"]).await;
    third.http.delete(&format!("{LOCK}?session=you")).await.assert_status(204);
    let told = waiter.await.expect("the waiter");
    assert_eq!(told.status, 423, "it does not hold, and hears so at once: {told}");
    assert_eq!(first.http.queue(ORDERS).await, [""; 0]);
}
