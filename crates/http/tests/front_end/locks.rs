//! Calls that acquire, renew, release, hand over, read and list locks.

use serde_json::{Value, json};

use crate::client::call_with;
use crate::node::Node;

#[tokio::test]
async fn a_grant_has_its_token_in_body_and_header() {
    let node = Node::start().await;
    let reply = node.call("PUT", "/v1/locks/orders?session=me&ttl=30s&label.host=web3").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    for (key, value) in [
        ("lock", json!("orders")),
        ("mode", json!("exclusive")),
        ("token", json!(1)),
        ("session", json!("me")),
        ("renewed", json!(false)),
        ("waiters", json!(0)),
        ("hold_count", json!(1)),
        ("permits", json!(1)),
    ] {
        assert_eq!(body[key], value, "{key}: {body}");
    }
    let left = body["expires_in_ms"].as_u64().unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
    assert!(body["waited_ms"].is_u64() && body.get("owner").is_none(), "{body}");
    assert_eq!(reply.header("fencing-token"), Some("1"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("holdfast-node"), Some("1"));
    assert_eq!(reply.header("holdfast-leader"), Some("1"));
    assert_eq!(reply.header("holdfast-revision").unwrap(), body["revision"].to_string());
    assert!(reply.header("holdfast-request-id").unwrap().starts_with("1-"));
}

#[tokio::test]
async fn a_text_plain_response_contains_only_the_token() {
    let node = Node::start().await;
    let headers = [("Accept", "text/plain")];
    let reply = call_with(node.address, "PUT", "/v1/locks/a?session=me", &headers, "").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "1\n"));
    let reply = call_with(node.address, "PUT", "/v1/locks/a?session=you", &headers, "").await;
    reply.problem(423, "lock-busy");
}

#[tokio::test]
async fn a_repeated_acquire_renews_with_the_same_token() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let again = node.call("PUT", "/v1/locks/a?session=me").await.json();
    assert_eq!((&again["token"], &again["renewed"]), (&json!(token), &json!(true)));
}

#[tokio::test]
async fn an_acquire_without_a_session_gets_a_session_from_the_server() {
    let node = Node::start().await;
    let grant = node.call("PUT", "/v1/locks/a?ttl=10s").await.json();
    let session = grant["session"].as_str().unwrap();
    let target = format!("/v1/locks/a?session={session}");
    assert_eq!(node.call("DELETE", &target).await.status, 204);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn an_acquire_of_a_busy_lock_is_rejected_with_its_holder() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me&label.host=web3&owner=t1").await;
    let problem = node.call("PUT", "/v1/locks/a?session=you").await.problem(423, "lock-busy");
    let holder = &problem["holder"];
    assert_eq!((&holder["session"], &holder["owner"]), (&json!("me"), &json!("t1")));
    assert_eq!((&holder["token"], &holder["labels"]["host"]), (&json!(token), &json!("web3")));
    assert!(holder["held_for_ms"].is_u64());
    assert_eq!(problem["hint"], "add the parameter wait=10s to queue");
    assert_eq!(problem["waiters"], 0);
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_the_holder_releases_it() {
    let node = Node::start().await;
    let first = node.take("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=you&wait=60s");
    node.until_waiters("a", 1).await;
    let read = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!(read["queue"][0]["session"], "you");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    let grant = waiting.await.unwrap().json();
    assert_eq!(grant["session"], "you");
    assert!(grant["token"].as_u64().unwrap() > first);
}

#[tokio::test]
async fn a_waiter_leaves_the_queue_when_its_wait_times_out() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let reply = node.call("PUT", "/v1/locks/a?session=you&wait=100ms").await;
    let problem = reply.problem(423, "wait-timeout");
    assert_eq!(problem["holder"]["session"], "me");
    assert!(problem["waited_ms"].as_u64().unwrap() >= 100);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["waiters"], 0);
}

#[tokio::test]
async fn a_release_is_idempotent() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    for _ in 0..2 {
        let reply = node.call("DELETE", "/v1/locks/a?session=me").await;
        assert_eq!((reply.status, reply.body.as_str()), (204, ""));
        assert_eq!(reply.header("holdfast-hold-count"), None);
    }
}

#[tokio::test]
async fn each_attempt_is_counted_once_and_released_once() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me&attempt=1").await;
    assert_eq!(node.take("/v1/locks/a?session=me&attempt=2").await, token);
    assert_eq!(node.take("/v1/locks/a?session=me&attempt=2").await, token);
    assert_eq!(node.call("PUT", "/v1/locks/a?session=me").await.json()["hold_count"], 2);
    for (attempt, left) in [(1, "1"), (1, "1"), (2, "0")] {
        let reply = node.call("DELETE", &format!("/v1/locks/a?session=me&attempt={attempt}")).await;
        assert_eq!(reply.status, 204, "{attempt}: {reply:?}");
        assert_eq!(reply.header("holdfast-hold-count"), Some(left), "{attempt}");
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn an_acquire_by_an_ended_attempt_is_rejected() {
    let node = Node::holding("/v1/locks/a?session=me&attempt=1").await;
    // A cancel may arrive before the call that it cancels.
    let reply = node.call("DELETE", "/v1/locks/a?session=me&attempt=9").await;
    assert_eq!((reply.status, reply.header("holdfast-hold-count")), (204, Some("1")));
    for late in [9, 8] {
        let reply = node.call("PUT", &format!("/v1/locks/a?session=me&attempt={late}")).await;
        assert_eq!(reply.problem(409, "attempt-over")["newest_attempt"], 9);
    }
    let reply = node.call("PUT", "/v1/locks/a?attempt=10").await;
    assert_eq!(reply.problem(400, "invalid-argument")["parameter"], "attempt");
}

#[tokio::test]
async fn a_late_copy_of_a_release_a_hand_over_or_a_close_has_no_effect() {
    let node = Node::start().await;
    let first = node.take("/v1/locks/a?session=me").await;
    node.call("PUT", "/v1/sessions/you").await;
    let release = format!("/v1/locks/a?session=me&token={first}");
    assert_eq!(node.call("DELETE", &release).await.status, 204);
    let second = node.take("/v1/locks/a?session=me").await;
    assert_eq!(node.call("DELETE", &release).await.status, 204, "a late copy gets the first reply");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["holders"][0]["token"], second);

    let hand = format!("/v1/transfers/a?session=me&token={second}&to=you");
    let handed = node.call("POST", &hand).await.json();
    assert_eq!(node.call("POST", &hand).await.json()["token"], handed["token"]);
    let back = format!("/v1/transfers/a?session=you&token={}&to=me", handed["token"]);
    let back = node.call("POST", &back).await.json();
    assert_eq!(node.call("POST", &hand).await.json()["token"], handed["token"]);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["holders"][0]["token"], back["token"]);

    let opened = node.call("GET", "/v1/sessions/me").await.json();
    let close = format!("/v1/sessions/me?incarnation={}", opened["incarnation"]);
    assert_eq!(node.call("DELETE", &close).await.status, 204);
    let again = node.call("PUT", "/v1/sessions/me").await.json();
    assert_ne!(again["incarnation"], opened["incarnation"]);
    assert_eq!(node.call("DELETE", &close).await.status, 204);
    let force = format!("{close}&force&reason=late");
    assert_eq!(node.call("DELETE", &force).await.status, 204);
    let now = node.call("GET", "/v1/sessions/me").await.json();
    assert_eq!(now["incarnation"], again["incarnation"]);
}

/// A repeated acquire of a holder is a renewal, which has no log entry. It follows the same rules.
#[tokio::test]
async fn a_repeated_acquire_keeps_to_its_incarnation_and_sets_its_labels() {
    let node = Node::start().await;
    let open = async || node.call("PUT", "/v1/sessions/me").await.json()["incarnation"].clone();
    let first = open().await;
    let acquire = |incarnation: &Value| format!("/v1/locks/a?session=me&incarnation={incarnation}");
    let token = node.take(&acquire(&first)).await;
    assert_eq!(node.take(&acquire(&first)).await, token);
    assert_eq!(node.call("DELETE", "/v1/sessions/me").await.status, 204);
    let second = open().await;
    let token = node.take(&acquire(&second)).await;
    node.call("PUT", &acquire(&first)).await.problem(410, "session-expired");
    assert_eq!(node.take(&acquire(&second)).await, token);
    assert_eq!(node.take("/v1/locks/a?session=me&label.host=web2").await, token);
    let holder = node.call("GET", "/v1/locks/a").await.json()["holders"][0].clone();
    assert_eq!(holder["labels"]["host"], "web2", "{holder}");
}

#[tokio::test]
async fn a_lock_that_was_never_acquired_is_free() {
    let node = Node::start().await;
    let read = node.call("GET", "/v1/locks/unused").await.json();
    assert_eq!(read["held"], false);
    assert_eq!((&read["holders"], &read["queue"]), (&json!([]), &json!([])));
    assert_eq!(read["last_token"], json!(null));
    let head = node.call("HEAD", "/v1/locks/unused").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn a_stale_read_is_labelled_with_its_revision_and_the_last_leader_contact() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    for target in ["/v1/locks/a?stale", "/v1/locks?stale=true", "/v1/sessions?stale"] {
        let reply = node.call("GET", target).await;
        assert_eq!(reply.status, 200, "{target}: {reply:?}");
        assert!(reply.header("holdfast-applied-revision").is_some(), "{target}");
        let contact = reply.header("holdfast-leader-contact-ms").unwrap();
        assert!(contact.parse::<u64>().is_ok(), "{target}: {contact}");
    }
    let fresh = node.call("GET", "/v1/locks/a").await;
    assert_eq!(fresh.header("holdfast-applied-revision"), None);
    assert_eq!(fresh.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn a_list_of_locks_is_returned_in_pages() {
    let node = Node::start().await;
    for lock in ["a", "b/1", "b/2", "b/3", "c"] {
        node.take(&format!("/v1/locks/{lock}?session=me")).await;
    }
    let (mut found, mut target) = (Vec::new(), "/v1/locks?prefix=b/&limit=2&held".to_owned());
    loop {
        let page = node.call("GET", &target).await.json();
        let locks = page["locks"].as_array().unwrap();
        assert!(locks.len() <= 2, "{page}");
        found.extend(locks.iter().map(|lock| lock["lock"].as_str().unwrap().to_owned()));
        let Some(token) = page["next_page_token"].as_str() else { break };
        let token = holdfast_api::escape_query(token);
        target = format!("/v1/locks?prefix=b/&limit=2&held&page_token={token}");
    }
    assert_eq!(found, ["b/1", "b/2", "b/3"]);
    let of_session = node.call("GET", "/v1/locks?session=unknown&held").await.json();
    assert_eq!(of_session["locks"], json!([]));
}

#[tokio::test]
async fn the_leader_serves_a_call_with_redirect() {
    Node::holding("/v1/locks/a?session=me&redirect=true").await;
}

#[tokio::test]
async fn a_waiter_without_a_session_leaves_the_queue_when_it_disconnects() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?wait=60s");
    node.until_waiters("a", 1).await;
    waiting.abort();
    node.until_waiters("a", 0).await;
}

#[tokio::test]
async fn a_waiter_with_a_session_keeps_its_queue_position_after_a_disconnect() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=you&wait=60s");
    node.until_waiters("a", 1).await;
    waiting.abort();
    assert!(waiting.await.is_err());
    let later = node.begin("PUT", "/v1/locks/a?session=later&wait=60s");
    node.until_waiters("a", 2).await;
    let again = node.begin("PUT", "/v1/locks/a?session=you&wait=60s");
    node.call("DELETE", "/v1/locks/a?session=me").await;
    assert_eq!(again.await.unwrap().json()["session"], "you");
    let lock = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!((&lock["waiters"], &lock["queue"][0]["session"]), (&json!(1), &json!("later")));
    node.call("DELETE", "/v1/locks/a?session=you").await;
    assert_eq!(later.await.unwrap().json()["session"], "later");
}

#[tokio::test]
async fn an_acquire_with_queue_max_is_rejected_when_that_many_callers_wait() {
    let node = Node::holding("/v1/locks/a?session=holder&queue_max=1").await;
    let first = node.begin("PUT", "/v1/locks/a?session=first&wait=60s&queue_max=1");
    node.until_waiters("a", 1).await;
    let full = node.call("PUT", "/v1/locks/a?session=second&wait=60s&queue_max=1").await;
    let problem = full.problem(423, "lock-busy");
    assert_eq!((&problem["waiters"], &problem["holder"]["session"]), (&json!(1), &json!("holder")));
    assert!(problem["hint"].as_str().unwrap().contains("queue_max is 1"), "{problem}");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["waiters"], 1);
    let zero = node.call("PUT", "/v1/locks/a?session=second&wait=60s&queue_max=0").await;
    zero.problem(400, "invalid-argument");
    node.call("POST", "/v1/locks?name=a&name=b&session=third&wait=60s&queue_max=1")
        .await
        .problem(423, "lock-busy");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=holder").await.status, 204);
    assert_eq!(first.await.unwrap().status, 200);
}

/// The hold is exclusive for another attempt alone, whose release would share it again.
#[tokio::test]
async fn an_acquire_without_an_attempt_gets_no_mode_of_another_attempt() {
    let node = Node::start().await;
    node.call("PUT", "/v1/locks/x?session=s&mode=shared").await.json();
    let nested = node.call("PUT", "/v1/locks/x?session=s&attempt=1").await.json();
    assert_eq!(nested["mode"], "exclusive");
    node.call("PUT", "/v1/locks/x?session=s&mode=exclusive").await.problem(409, "mode-conflict");
    node.call("DELETE", "/v1/locks/x?session=s&attempt=1").await;
    assert_eq!(node.call("PUT", "/v1/locks/x?session=other&mode=shared").await.status, 200);
}
