//! Permits of one session, permits that are given back one by one, and places in a queue without a waiting call.

use serde_json::{Value, json};

use crate::client::call;
use crate::node::Node;

/// The slots of each holder of the semaphore.
async fn slots(node: &Node) -> Vec<Value> {
    let lock = node.call("GET", "/v1/locks/pool").await.json();
    let holders = lock["holders"].as_array().unwrap().iter();
    holders.map(|holder| json!([holder["session"], holder["slots"]])).collect()
}

#[tokio::test]
async fn row_42_another_attempt_of_a_session_is_another_permit_with_its_own_token() {
    let node = Node::start().await;
    let first = node.call("PUT", "/v1/locks/pool?session=me&limit=3&attempt=1").await.json();
    let second = node.call("PUT", "/v1/locks/pool?session=me&attempt=2").await.json();
    assert_eq!((&first["slots"], &second["slots"]), (&json!([0]), &json!([1])));
    assert!(second["token"].as_u64() > first["token"].as_u64(), "{second}");
    assert_eq!((&second["renewed"], &second["hold_count"]), (&json!(false), &json!(1)));
    let copy = node.call("PUT", "/v1/locks/pool?session=me&attempt=1").await.json();
    assert_eq!((&copy["token"], &copy["renewed"]), (&first["token"], &json!(true)));
    let unnamed = node.call("PUT", "/v1/locks/pool?session=me").await.json();
    assert_eq!(unnamed["token"], first["token"], "without an attempt, the oldest permit");
    let more = "/v1/locks/pool?session=me&attempt=3&permits=2";
    node.call("PUT", more).await.problem(423, "lock-busy");
    let waiting = node.begin("PUT", "/v1/locks/pool?session=me&attempt=4&permits=2&wait=60s");
    node.until_waiters("pool", 1).await;
    let released = node.call("DELETE", "/v1/locks/pool?session=me&attempt=1").await;
    assert_eq!((released.status, released.header("holdfast-hold-count")), (204, Some("0")));
    assert_eq!(
        waiting.await.unwrap().json()["slots"],
        json!([0, 2]),
        "the queue of its own session"
    );
    for late in ["attempt=1", "attempt=3"] {
        let copy = node.call("PUT", &format!("/v1/locks/pool?session=me&{late}")).await;
        let expected = if late == "attempt=1" { "attempt-over" } else { "lock-busy" };
        assert_eq!(copy.json()["code"], expected);
    }
    assert_eq!(slots(&node).await, [json!(["me", [1]]), json!(["me", [0, 2]])]);
    let all = node.call("DELETE", "/v1/locks/pool?session=me").await;
    assert_eq!((all.status, slots(&node).await), (204, vec![]));
}

#[tokio::test]
async fn a_permit_without_an_attempt_is_entered_again() {
    let node = Node::start().await;
    let first = node.call("PUT", "/v1/locks/pool?session=me&limit=2").await.json();
    let again = node.call("PUT", "/v1/locks/pool?session=me&limit=2").await.json();
    assert_eq!((&again["token"], &again["renewed"]), (&first["token"], &json!(true)));
    let named = node.call("PUT", "/v1/locks/pool?session=me&attempt=1&reentrant=false").await;
    named.problem(409, "not-reentrant");
    let entered = node.call("PUT", "/v1/locks/pool?session=me&attempt=1&reentrant").await.json();
    assert_eq!((&entered["token"], &entered["hold_count"]), (&first["token"], &json!(2)));
    let left = node.call("DELETE", "/v1/locks/pool?session=me&attempt=1").await;
    assert_eq!(left.header("holdfast-hold-count"), Some("1"));
    node.call("DELETE", "/v1/locks/pool?session=me").await;
    let lost = node.call("PUT", "/v1/locks/pool?session=me&permits=2").await.json();
    let other = node.call("PUT", "/v1/locks/pool?session=me&permits=1").await;
    other.problem(409, "limit-mismatch");
    assert_eq!(lost["slots"], json!([0, 1]));
}

#[tokio::test]
async fn row_41_permits_are_given_back_one_by_one_and_a_late_copy_gives_back_nothing() {
    let node = Node::start().await;
    let hold =
        node.call("PUT", "/v1/locks/pool?session=me&limit=4&permits=4&attempt=1").await.json();
    let waiting = node.begin("PUT", "/v1/locks/pool?session=you&permits=2&wait=60s");
    node.until_waiters("pool", 1).await;
    let one =
        |request: u32| format!("/v1/locks/pool?session=me&attempt=1&permits=1&request={request}");
    for _copies in 0..3 {
        assert_eq!(node.call("DELETE", &one(1)).await.status, 204);
    }
    assert_eq!(slots(&node).await, [json!(["me", [0, 1, 2]])]);
    assert_eq!(node.call("DELETE", &one(2)).await.status, 204);
    assert_eq!(waiting.await.unwrap().json()["slots"], json!([2, 3]), "admitted at once");
    let token = format!("/v1/locks/pool?session=me&token={}&permits=", hold["token"]);
    let problem = node.call("DELETE", &format!("{token}3")).await;
    let problem = problem.problem(409, "limit-mismatch");
    assert!(problem["detail"].as_str().unwrap().contains("2 permits"), "{problem}");
    assert_eq!(node.call("DELETE", &format!("{token}1")).await.status, 204);
    let session = node.call("GET", "/v1/sessions/me").await.json();
    assert_eq!(session["holds"][0]["token"], hold["token"], "the hold keeps its token");
    let last = node.call("DELETE", "/v1/locks/pool?session=me&permits=1").await;
    assert_eq!(last.status, 204, "the last permit ends the hold");
    assert_eq!(node.call("DELETE", &one(2)).await.status, 204, "the first response");
    node.call("DELETE", &one(1).replace("permits=1", "permits=2"))
        .await
        .problem(409, "request-mismatch");
    node.call("DELETE", "/v1/locks/pool?session=me&permits=0")
        .await
        .problem(400, "invalid-argument");
    let over = node.call("PUT", "/v1/locks/pool?session=me&attempt=1").await;
    over.problem(409, "attempt-over");
    assert_eq!(slots(&node).await, [json!(["you", [2, 3]])]);
}

#[tokio::test]
async fn row_35_a_call_that_queues_answers_at_once_with_its_place() {
    let node = Node::holding("/v1/locks/a?session=me&attempt=1").await;
    let place = |session: &str| format!("/v1/locks/a?session={session}&attempt=1&ttl=1m&enqueue");
    for (session, position) in [("one", 1), ("two", 2)] {
        let reply = node.call("PUT", &place(session)).await;
        assert_eq!((reply.status, reply.header("location")), (202, Some("/v1/locks/a")));
        assert_eq!(reply.header("fencing-token"), None);
        let body = reply.json();
        assert_eq!(
            (&body["position"], &body["ahead"][0]["session"]),
            (&json!(position), &json!("me"))
        );
        assert!(body["hint"].as_str().unwrap().contains("keepalive?wait=30s"), "{body}");
    }
    // A long poll of the session answers at the grant.
    let since =
        node.call("POST", "/v1/sessions/one/keepalive?wait=1ms").await.json()["revision"].clone();
    let (address, poll) =
        (node.address, format!("/v1/sessions/one/keepalive?wait=60s&since={since}"));
    let told = tokio::spawn(async move { call(address, "POST", &poll).await });
    assert_eq!(node.call("PUT", &place("two")).await.json()["position"], 2);
    node.call("DELETE", "/v1/locks/a?session=me&attempt=1").await;
    let granted = told.await.unwrap().json();
    assert_eq!(granted["events"][0]["lock"], "a", "{granted}");
    let grant = node.call("PUT", &place("one")).await;
    assert_eq!((grant.status, &grant.json()["session"]), (200, &json!("one")));
    assert!(grant.header("fencing-token").is_some());
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=two&attempt=1").await.status, 204);
    node.call("PUT", &place("two")).await.problem(409, "attempt-over");
    node.until_waiters("a", 0).await;
}

#[tokio::test]
async fn a_place_in_a_queue_ends_with_its_wait_or_its_session() {
    let node = Node::holding("/v1/locks/a?session=me&attempt=1").await;
    let short = node.call("PUT", "/v1/locks/a?session=one&attempt=1&wait=200ms&enqueue").await;
    assert_eq!(short.status, 202);
    node.until_waiters("a", 0).await;
    let reply = node.call("PUT", "/v1/locks/a?session=two&attempt=1&ttl=1s&enqueue").await;
    assert_eq!(reply.status, 202);
    node.until_waiters("a", 0).await;
    assert_eq!(node.call("PUT", "/v1/locks/a?session=three&enqueue").await.status, 202);
    let full = node.call("PUT", "/v1/locks/a?session=four&queue_max=1&enqueue").await;
    full.problem(423, "lock-busy");
    let nobody = node.call("PUT", "/v1/locks/a?enqueue").await.problem(400, "invalid-argument");
    assert_eq!(nobody["parameter"], "session");
    let free = node.call("PUT", "/v1/locks/free?session=one&enqueue").await;
    assert_eq!((free.status, free.header("fencing-token")), (200, Some("2")));
}
