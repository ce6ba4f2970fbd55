//! Opening, renewing, reading and closing sessions.

use serde_json::json;

use crate::client::Reply;
use crate::node::Node;

#[tokio::test]
async fn a_session_is_created_by_the_first_put_and_renewed_by_later_calls() {
    let node = Node::start().await;
    let reply = node.call("PUT", "/v1/sessions/me?ttl=20s&label.host=web3").await;
    assert_eq!((reply.status, reply.header("location")), (201, Some("/v1/sessions/me")));
    let body = reply.json();
    assert_eq!((&body["session"], &body["ttl_ms"]), (&json!("me"), &json!(20_000)));
    assert_eq!((&body["anonymous"], &body["labels"]["host"]), (&json!(false), &json!("web3")));
    let again = node.call("PUT", "/v1/sessions/me").await;
    assert_eq!((again.status, again.header("location")), (200, None));
    let renewed = node.call("POST", "/v1/sessions/me/keepalive").await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert!(renewed.json()["expires_in_ms"].as_u64().unwrap() <= 20_000);
}

#[tokio::test]
async fn a_post_creates_a_session_with_an_id_from_the_server() {
    let node = Node::start().await;
    let reply = node.call("POST", "/v1/sessions?ttl=20s").await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let id = reply.json()["session"].as_str().unwrap().to_owned();
    assert_eq!(reply.header("location").unwrap(), format!("/v1/sessions/{id}"));
    let read = node.call("GET", &format!("/v1/sessions/{id}")).await.json();
    assert_eq!(read["ttl_ms"], 20_000);
}

#[tokio::test]
async fn a_session_lists_its_locks_and_releases_them_when_it_is_closed() {
    let node = Node::start().await;
    let grant = node.call("PUT", "/v1/locks/a/b?session=me").await.json();
    let read = node.call("GET", "/v1/sessions/me").await.json();
    let hold = json!({"lock": "a/b", "ticket": grant["ticket"], "token": grant["token"]});
    assert_eq!(read["holds"], json!([hold]));
    let list = node.call("GET", "/v1/sessions?limit=1").await.json();
    assert_eq!(list["sessions"][0]["session"], "me");
    for _ in 0..2 {
        assert_eq!(node.call("DELETE", "/v1/sessions/me").await.status, 204);
    }
    assert_eq!(node.call("GET", "/v1/locks/a/b").await.json()["held"], false);
}

/// Another program has closed the session and opened it again.
#[tokio::test]
async fn a_keepalive_with_an_incarnation_renews_no_later_session() {
    let node = Node::start().await;
    let incarnation = |reply: Reply| reply.json()["incarnation"].as_u64().unwrap();
    let first = incarnation(node.call("PUT", "/v1/sessions/me").await);
    let other = incarnation(node.call("PUT", "/v1/sessions/other").await);
    node.call("DELETE", "/v1/sessions/me").await;
    let second = incarnation(node.call("PUT", "/v1/sessions/me").await);
    for more in ["", "&wait=1ms", "&since=0"] {
        let renew = |of| format!("/v1/sessions/me/keepalive?incarnation={of}{more}");
        assert_eq!(node.call("POST", &renew(second)).await.status, 200, "{more}");
        for of in [first, other] {
            node.call("POST", &renew(of)).await.problem(410, "session-expired");
        }
    }
}

#[tokio::test]
async fn a_waiting_keepalive_follows_a_ttl_that_another_call_has_shortened() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/s?ttl=6s").await.json();
    // Before, the new leader has no lease, and gives the session its full TTL later.
    let runs = |reply: &Reply| reply.json()["expires_in_ms"].as_u64() < Some(6_000);
    node.until("the lease", "/v1/sessions/s", runs).await;
    // It renews the session after a third of the TTL.
    let waiting = node.begin("POST", "/v1/sessions/s/keepalive?wait=2500ms");
    node.until_parked(1).await;
    node.call("PUT", "/v1/sessions/s?ttl=1s").await.json();
    let waited = waiting.await.unwrap().json();
    assert!(waited["expires_in_ms"].as_u64().is_some_and(|left| left <= 1_000), "{waited}");
}
