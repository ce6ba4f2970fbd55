//! Durable holds: no session, no end but the token and an operator, and shown to everybody who asks.

use serde_json::json;

use crate::node::Node;

const HOLD: &str = "/v1/locks/db?hold=durable&owner=carol&attempt=1&reason=moving%20the%20database";

#[tokio::test]
async fn row_65_a_durable_hold_ends_with_its_token_and_a_repeated_call_returns_it() {
    let node = Node::start().await;
    let first = node.call("PUT", HOLD).await.json();
    assert_eq!((&first["owner"], &first["renewed"]), (&json!("carol"), &json!(false)));
    assert_eq!(first.get("expires_in_ms"), None, "{first}");
    let again = node.call("PUT", HOLD).await.json();
    assert_eq!((&again["token"], &again["renewed"]), (&first["token"], &json!(true)));
    for path in ["/v1/locks/db", "/v1/locks/db?stale"] {
        let shown = node.call("GET", path).await.json();
        let holder = &shown["holders"][0];
        assert_eq!(holder["durable_reason"], "moving the database", "{path}: {shown}");
        assert!(
            holder["held_for_ms"].is_u64() && holder.get("expires_in_ms").is_none(),
            "{holder}"
        );
        assert_eq!(shown.get("free_at_latest_in_ms"), None, "{shown}");
    }
    let listed = node.call("GET", "/v1/locks?held").await.json();
    assert_eq!(listed["locks"][0]["holders"][0]["durable_reason"], "moving the database");
    let sessions = node.call("GET", "/v1/sessions").await.json();
    assert_eq!(sessions["sessions"], json!([]), "it has no session of a client");
    let busy = node.call("PUT", "/v1/locks/db?session=b").await;
    let busy = busy.problem(423, "lock-busy");
    assert_eq!(busy["holder"]["durable_reason"], "moving the database");
    let waiting = node.begin("PUT", "/v1/locks/db?session=b&wait=60s");
    node.until_waiters("db", 1).await;
    let release = |token: u64| format!("/v1/locks/db?hold=durable&owner=carol&token={token}");
    let token = first["token"].as_u64().unwrap();
    // A copy of an earlier release ends nothing.
    let late = node.call("DELETE", &release(token + 1)).await;
    assert_eq!(
        (late.status, node.call("GET", "/v1/locks/db").await.json()["waiters"].clone()),
        (204, json!(1))
    );
    for _ in 0..2 {
        assert_eq!(node.call("DELETE", &release(token)).await.status, 204);
    }
    let next = waiting.await.unwrap().json();
    assert!(next["token"].as_u64() > Some(token), "{next}");
}

#[tokio::test]
async fn no_other_call_ends_a_durable_hold_or_uses_its_session() {
    let node = Node::start().await;
    node.call("PUT", HOLD).await.json();
    for (method, path) in [
        ("DELETE", "/v1/locks/db?session=durable!carol"),
        ("DELETE", "/v1/locks/db?session=durable!carol&attempt=1"),
        ("DELETE", "/v1/sessions/durable!carol"),
        ("PUT", "/v1/sessions/durable!carol"),
        ("PUT", "/v1/locks/db?session=durable!carol"),
        ("PUT", "/v1/locks/other?session=durable!dave&ttl=5s"),
        ("POST", "/v1/transfers/db?session=durable!carol&owner=carol&to=b"),
    ] {
        if path.contains("to=b") {
            node.call("PUT", "/v1/sessions/b").await.json();
        }
        node.call(method, path).await.problem(400, "invalid-argument");
    }
    let renewed = node.call("POST", "/v1/sessions/durable!carol/keepalive").await;
    renewed.problem(410, "session-expired");
    for path in [
        "/v1/locks/db?hold=durable&owner=carol",
        "/v1/locks/db?hold=durable&token=1",
        "/v1/locks/db?hold=durable&owner=carol&token=1&session=b",
    ] {
        node.call("DELETE", path).await.problem(400, "invalid-argument");
    }
    let shown = node.call("GET", "/v1/locks/db").await.json();
    assert_eq!(shown["holders"][0]["owner"], "carol");
    // A person is asked, and an operator ends it.
    node.call("POST", "/v1/release-requests/db?reason=please&deadline=1h").await.json();
    let shown = node.call("GET", "/v1/locks/db").await.json();
    assert_eq!(shown["holders"][0]["release_request"]["reason"], "please");
    let ended = node.call("POST", "/v1/force-releases/db?reason=carol%20has%20left").await.json();
    assert_eq!(ended["ended"], 1);
    let records = node.call("GET", "/v1/audit").await.json();
    let actions: Vec<_> = records["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["action"], one["reason"]]))
        .collect();
    assert!(actions.contains(&json!(["hold-durable", "moving the database"])), "{records}");
    assert!(actions.contains(&json!(["force-release", "carol has left"])), "{records}");
}

#[tokio::test]
async fn a_durable_hold_waits_in_the_queue_and_its_wait_ends() {
    let node = Node::start().await;
    node.call("PUT", "/v1/locks/db?session=a").await.json();
    node.call("PUT", HOLD).await.problem(423, "lock-busy");
    let short = node.call("PUT", &format!("{HOLD}&wait=200ms")).await;
    short.problem(423, "wait-timeout");
    // The attempt that waited is over.
    node.call("PUT", HOLD).await.problem(409, "attempt-over");
    let long = "/v1/locks/db?hold=durable&owner=carol&attempt=2&reason=moving&wait=60s";
    let waiting = node.begin("PUT", long);
    node.until_waiters("db", 1).await;
    node.call("DELETE", "/v1/locks/db?session=a").await;
    let granted = waiting.await.unwrap().json();
    assert_eq!((&granted["owner"], granted.get("expires_in_ms")), (&json!("carol"), None));
    let shared = "/v1/locks/pool?hold=durable&owner=dave&attempt=1&reason=drill&limit=3&permits=2";
    assert_eq!(node.call("PUT", shared).await.json()["slots"], json!([0, 1]));
}

/// Nothing else would end the hold of a caller that is gone.
#[tokio::test]
async fn a_durable_wait_ends_with_its_connection() {
    let node = Node::start().await;
    node.call("PUT", "/v1/locks/db?session=a").await.json();
    let long = "/v1/locks/db?hold=durable&owner=carol&attempt=1&reason=moving&wait=5m";
    let waiting = node.begin("PUT", long);
    node.until_waiters("db", 1).await;
    let next = node.begin("PUT", "/v1/locks/db?session=b&wait=60s");
    node.until_waiters("db", 2).await;
    // The same call on another connection keeps the place.
    waiting.abort();
    let waiting = node.begin("PUT", long);
    node.until_parked(2).await;
    waiting.abort();
    node.until_waiters("db", 1).await;
    node.call("DELETE", "/v1/locks/db?session=a").await;
    assert_eq!(next.await.unwrap().status, 200);
}
