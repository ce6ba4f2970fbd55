//! Calls for locks and sessions that the caller lost or never had, the bound of waiters, and shutdown during a wait.

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use serde_json::json;

use crate::node::Node;

#[tokio::test]
async fn a_release_by_another_session_is_rejected_with_the_holder() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    node.call("PUT", "/v1/sessions/you").await;
    let reply = node.call("DELETE", "/v1/locks/a?session=you").await;
    let problem = reply.problem(409, "not-holder");
    assert_eq!(problem["holder"]["session"], "me");
    assert_eq!(problem["retryable"], false);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], true);
}

#[tokio::test]
async fn a_call_for_an_unknown_session_is_rejected_as_expired() {
    let node = Node::start().await;
    for (method, target) in
        [("POST", "/v1/sessions/ghost/keepalive"), ("GET", "/v1/sessions/ghost")]
    {
        let problem = node.call(method, target).await.problem(410, "session-expired");
        assert_eq!(problem["session"], "ghost");
        assert!(
            problem["hint"].as_str().unwrap().contains("PUT /v1/sessions/ghost?ttl=30s opens it")
        );
    }
}

#[tokio::test]
async fn calls_for_an_expired_session_are_rejected_until_the_loss_is_acknowledged() {
    let node = Node::holding("/v1/locks/a?session=me&ttl=1s").await;
    node.until("the expiry", "/v1/locks/a", |reply| reply.json()["held"] == false).await;
    for (method, target) in [
        ("PUT", "/v1/locks/a?session=me"),
        ("PUT", "/v1/sessions/me"),
        ("POST", "/v1/sessions/me/keepalive"),
        ("GET", "/v1/sessions/me"),
    ] {
        let problem = node.call(method, target).await.problem(410, "session-expired");
        assert!(problem["detail"].as_str().unwrap().contains("expired"), "{problem}");
    }
    assert_eq!(node.call("DELETE", "/v1/sessions/me").await.status, 204);
    node.take("/v1/locks/a?session=me").await;
}

#[tokio::test]
async fn a_stale_token_is_rejected_with_the_current_one() {
    let node = Node::start().await;
    let old = node.take("/v1/locks/a?session=me").await;
    let good = node.call("GET", &format!("/v1/fence/a?token={old}")).await;
    assert_eq!((good.status, &good.json()["valid"]), (200, &json!(true)));
    node.call("DELETE", "/v1/locks/a?session=me").await;
    let free = node.call("GET", &format!("/v1/fence/a?token={old}")).await;
    assert_eq!(free.problem(412, "stale-token").get("current"), None);
    let still = node.call("GET", &format!("/v1/fence/a?token={old}&mode=monotonic")).await;
    assert_eq!(still.status, 200);
    let new = node.take("/v1/locks/a?session=you").await;
    let newer = node.call("GET", &format!("/v1/fence/a?token={}&mode=monotonic", new + 1)).await;
    assert_eq!(newer.status, 200);
    for mode in ["current", "monotonic"] {
        let reply = node.call("GET", &format!("/v1/fence/a?token={old}&mode={mode}")).await;
        let problem = reply.problem(412, "stale-token");
        assert_eq!((&problem["current"], &problem["token"]), (&json!(new), &json!(old)));
    }
}

#[tokio::test]
async fn a_waiter_beyond_the_bound_is_rejected_with_a_retry_delay() {
    let service = ServiceConfig { waiters_max: 2, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), service).await;
    node.take("/v1/locks/a?session=me").await;
    let _first = node.begin("PUT", "/v1/locks/a?session=w1&wait=60s");
    let _second = node.begin("PUT", "/v1/locks/a?session=w2&wait=60s");
    node.until_waiters("a", 2).await;
    let reply = node.call("PUT", "/v1/locks/a?session=w3&wait=60s").await;
    let problem = reply.problem(429, "too-many-waiters");
    assert_eq!((&problem["limit"], &problem["retryable"]), (&json!(2), &json!(true)));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["waiters"], 2);
}

#[tokio::test]
async fn a_node_shutdown_ends_its_waits() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=you&wait=60s");
    node.until_waiters("a", 1).await;
    node.service.drain().await;
    let problem = waiting.await.unwrap().problem(503, "shutting-down");
    assert_eq!(problem["retryable"], true);
    let ready = node.call("GET", "/readyz").await;
    assert_eq!((ready.status, &ready.json()["ok"]), (503, &json!(false)));
    node.stop().await;
}
