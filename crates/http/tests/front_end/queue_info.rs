//! Queue information: streams of queue positions, connection holds, events of sessions, reasons why a lock is not free,
//! contention and history.

use std::time::{Duration, Instant};

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use serde_json::json;

use crate::node::Node;
use crate::stream::Events;

async fn acquire_stream(node: &Node, target: &str) -> Events {
    Events::begin(node.address, "PUT", target, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiters_stream_reports_each_change_of_its_position_and_then_the_grant() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let mut one = acquire_stream(&node, "/v1/locks/a?session=one&wait=1m").await;
    assert!(
        one.head.contains("200 OK") && one.head.contains("x-accel-buffering: no"),
        "{}",
        one.head
    );
    assert!(one.head.contains("cache-control: no-cache, no-transform"), "{}", one.head);
    let queued = one.expect("queued").await;
    assert_eq!(
        (queued["position"].as_u64(), &queued["ahead"][0]["session"]),
        (Some(1), &json!("me"))
    );
    assert_eq!(queued["ahead"][0]["holds"], true);
    assert_eq!(one.comments, 1);
    let mut two = acquire_stream(&node, "/v1/locks/a?session=two&wait=1m").await;
    let queued = two.expect("queued").await;
    assert_eq!((queued["position"].as_u64(), queued["waiters"].as_u64()), (Some(2), Some(2)));
    assert_eq!(queued["ahead"][1]["session"], "one");
    node.call("DELETE", "/v1/locks/a?session=me").await;
    assert_eq!(one.expect("granted").await["session"], "one");
    assert!(one.next().await.is_none());
    let queued = two.expect("queued").await;
    assert_eq!(
        (queued["position"].as_u64(), &queued["ahead"][0]["session"]),
        (Some(1), &json!("one"))
    );
    // A read of the history returns after all earlier holds are recorded, so the estimate has at least one hold.
    node.call("GET", "/v1/history/a").await;
    let mut three = acquire_stream(&node, "/v1/locks/a?session=three&wait=1m").await;
    let queued = three.expect("queued").await;
    assert!(queued["estimate"]["holds"].as_u64() >= Some(1), "{queued}");
    node.call("DELETE", "/v1/locks/a?session=one").await;
    assert!(two.expect("granted").await["waited_ms"].is_u64());
}

/// A waiter learns that an operator removed it, and the metric of timeouts does not count it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_an_operator_removes_is_told_so() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let mut waiter = acquire_stream(&node, "/v1/locks/a?session=you&wait=1m").await;
    waiter.expect("queued").await;
    let ticket = node.call("GET", "/v1/locks/a").await.json()["queue"][0]["ticket"].clone();
    let force = format!("/v1/force-releases/a?ticket={ticket}&reason=stuck");
    assert_eq!(node.call("POST", &force).await.status, 200);
    let ended = waiter.expect("timeout").await;
    assert_eq!((&ended["code"], &ended["status"]), (&"wait-timeout".into(), &423.into()));
    assert_eq!(ended["detail"], "the cluster ended the wait before its time: force-released");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_does_not_queue_gets_an_ordinary_response() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let busy = acquire_stream(&node, "/v1/locks/a?session=you").await;
    assert!(busy.head.starts_with("HTTP/1.1 423"), "{}", busy.head);
    let held = acquire_stream(&node, "/v1/locks/a?hold=connection").await;
    assert!(held.head.starts_with("HTTP/1.1 423"), "{}", held.head);
    let free = acquire_stream(&node, "/v1/locks/b?session=me").await;
    assert!(free.head.contains("fencing-token: 2"), "{}", free.head);
    node.call("PUT", "/v1/locks/a?hold=connection&session=me")
        .await
        .problem(400, "invalid-argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_without_a_grant_sends_an_event_and_leaves_the_queue() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let mut waiter = acquire_stream(&node, "/v1/locks/a?session=you&wait=300ms").await;
    waiter.expect("queued").await;
    assert_eq!(waiter.expect("timeout").await["code"], "wait-timeout");
    assert!(waiter.next().await.is_none());
    node.until_waiters("a", 0).await;
    let mut waiter = acquire_stream(&node, "/v1/locks/a?session=them&wait=1m").await;
    waiter.expect("queued").await;
    node.call("DELETE", "/v1/sessions/them").await;
    assert_eq!(waiter.expect("lost").await["code"], "session-expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_hold_lasts_as_long_as_its_connection() {
    let node = Node::start().await;
    let mut held = acquire_stream(&node, "/v1/locks/a?hold=connection&ttl=3s").await;
    let granted = held.expect("granted").await;
    assert_eq!((granted["lock"].as_str(), granted["token"].as_u64()), (Some("a"), Some(1)));
    // Twice the TTL: without renewals the session would expire.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        assert!(held.expect("renewed").await["expires_in_ms"].as_u64() > Some(1_500));
    }
    let mut next = acquire_stream(&node, "/v1/locks/a?hold=connection&ttl=1h&wait=1m").await;
    next.expect("queued").await;
    drop(held);
    assert_eq!(next.expect("granted").await["token"], 2);
    // The hold ends with the connection, despite a TTL of one hour.
    drop(next);
    node.until("the release of the lock", "/v1/locks/a", |reply| reply.json()["held"] == false)
        .await;
    node.until("the end of the session", "/v1/sessions", |reply| {
        reply.json()["sessions"] == json!([])
    })
    .await;
}

/// A renewal promises the TTL that the session has now, and not that of the grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_hold_tells_the_ttl_that_another_call_has_set() {
    let node = Node::start().await;
    let mut held = acquire_stream(&node, "/v1/locks/a?hold=connection&ttl=6s").await;
    let session = held.expect("granted").await["session"].as_str().unwrap().to_owned();
    let shorter = format!("/v1/sessions/{session}?ttl=1s");
    assert_eq!(node.call("PUT", &shorter).await.status, 200);
    let renewed = held.expect("renewed").await;
    assert!(renewed["expires_in_ms"].as_u64() <= Some(1_000), "{renewed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_a_connection_hold_leaves_the_queue_when_it_disconnects() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let mut waiter = acquire_stream(&node, "/v1/locks/a?hold=connection&wait=1m").await;
    waiter.expect("queued").await;
    node.until_waiters("a", 1).await;
    drop(waiter);
    node.until_waiters("a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_lost_hold_reports_the_token_and_the_cause() {
    let node = Node::start().await;
    let mut held = acquire_stream(&node, "/v1/locks/a?hold=connection&ttl=1h").await;
    let session = held.expect("granted").await["session"].as_str().unwrap().to_owned();
    let target = format!("/v1/sessions/{session}?force&reason=maintenance");
    assert_eq!(node.call("DELETE", &target).await.status, 204);
    let lost = held.expect("lost").await;
    assert_eq!(
        lost,
        json!({"lock": "a", "token": 1, "session": session, "cause": "force-released"})
    );
    assert!(held.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shutdown_ends_connection_holds_and_releases_their_locks() {
    let node = Node::start().await;
    let mut held = acquire_stream(&node, "/v1/locks/a?hold=connection&ttl=1h").await;
    held.expect("granted").await;
    let service = node.service.clone();
    let draining = tokio::spawn(async move { service.drain().await });
    assert_eq!(held.expect("lost").await["cause"], "shutting-down");
    drop(held);
    draining.await.unwrap();
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_with_wait_returns_at_the_first_event_and_misses_none_between_calls() {
    let node = Node::holding("/v1/locks/a?session=other").await;
    node.call("PUT", "/v1/sessions/me").await;
    let quiet = node.call("POST", "/v1/sessions/me/keepalive?wait=0s").await.json();
    assert_eq!((&quiet["events"], quiet["session"].as_str()), (&json!([]), Some("me")));
    let since = quiet["revision"].as_u64().unwrap();
    let waiting = node.begin("PUT", "/v1/locks/a?session=me&wait=1m");
    node.until_waiters("a", 1).await;
    let target = format!("/v1/sessions/me/keepalive?wait=1m&since={since}");
    let address = node.address;
    let asked = target.clone();
    let news = tokio::spawn(async move { crate::client::call(address, "POST", &asked).await });
    node.call("DELETE", "/v1/locks/a?session=other").await;
    let token = waiting.await.unwrap().json()["token"].as_u64().unwrap();
    let news = news.await.unwrap().json();
    assert_eq!(news["events"][0]["kind"], "granted", "{news}");
    assert_eq!(
        (&news["events"][0]["lock"], news["events"][0]["token"].as_u64()),
        (&json!("a"), Some(token))
    );
    assert_eq!(news["holds"][0]["lock"], "a");
    assert!(news.get("gap").is_none(), "{news}");
    // The next call returns the events since the previous call.
    let since = news["revision"].as_u64().unwrap();
    node.call("DELETE", "/v1/locks/a?session=me").await;
    let target = format!("/v1/sessions/me/keepalive?wait=1m&since={since}");
    let news = node.call("POST", &target).await.json();
    let event = &news["events"][0];
    assert_eq!(
        (&event["kind"], &event["cause"], event["token"].as_u64()),
        (&json!("lost"), &json!("released"), Some(token))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_works_on_another_node_and_missing_events_are_reported_as_a_gap() {
    let nodes = Node::cluster().await;
    nodes[0].take("/v1/locks/a?session=me").await;
    let first = nodes[0].call("POST", "/v1/sessions/me/keepalive?wait=0s").await.json();
    let since = first["revision"].as_u64().unwrap();
    nodes[0].call("DELETE", "/v1/locks/a?session=me").await;
    let target = format!("/v1/sessions/me/keepalive?wait=1m&since={since}");
    let news = nodes[1].call("POST", &target).await.json();
    assert_eq!((&news["events"][0]["kind"], news.get("gap")), (&json!("lost"), None), "{news}");

    let config = ServiceConfig { history_events_max: 1, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), config).await;
    node.call("PUT", "/v1/sessions/me").await;
    node.take("/v1/locks/a?session=me").await;
    let news = node.call("POST", "/v1/sessions/me/keepalive?since=1&wait=1m").await.json();
    assert!(news["gap"]["until"].as_u64() >= Some(1), "{news}");
    assert_eq!(news["holds"][0]["lock"], "a", "{news}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_with_wait_renews_its_session_and_ends_when_the_session_is_closed() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me?ttl=1s").await;
    let kept = node.call("POST", "/v1/sessions/me/keepalive?wait=3s").await.json();
    assert!(kept["waited_ms"].as_u64() >= Some(3_000), "{kept}");
    assert!(kept["expires_in_ms"].as_u64() > Some(0), "{kept}");
    let waiting = node.begin("POST", "/v1/sessions/me/keepalive?wait=1m");
    node.until("the keepalive waits", "/metrics", |reply| {
        reply.body.contains("v1/sessions/{id}/keepalive")
    })
    .await;
    node.call("DELETE", "/v1/sessions/me").await;
    waiting.await.unwrap().problem(410, "session-expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_renews_many_sessions_and_returns_a_result_for_each() {
    let nodes = Node::cluster().await;
    for session in ["a", "b"] {
        nodes[0].call("PUT", &format!("/v1/sessions/{session}?ttl=20s")).await;
    }
    // The first node is the leader, the second a follower.
    for node in &nodes[..2] {
        let reply = node.call_json("POST", "/v1/keepalive", r#"["a", "gone", "b"]"#).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let sessions = reply.json()["sessions"].clone();
        assert_eq!(
            (&sessions[0]["session"], &sessions[0]["ttl_ms"]),
            (&json!("a"), &json!(20_000))
        );
        assert!(sessions[2]["expires_in_ms"].as_u64() > Some(10_000), "{sessions}");
        let problem = &sessions[1]["problem"];
        assert_eq!(
            (&problem["code"], &problem["status"]),
            (&json!("session-expired"), &json!(410))
        );
    }
    nodes[0]
        .call_json("POST", "/v1/keepalive", r#"{"a": 1}"#)
        .await
        .problem(400, "invalid-argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_view_shows_the_lease_of_the_holder_and_the_lock_that_the_holder_waits_for() {
    let nodes = Node::cluster().await;
    nodes[0].take("/v1/locks/a?session=one&ttl=20s&label.host=web1").await;
    nodes[0].take("/v1/locks/b?session=two").await;
    let _one = nodes[0].begin("PUT", "/v1/locks/b?session=one&ttl=20s&wait=1m");
    nodes[0].until_waiters("b", 1).await;
    for node in &nodes[..2] {
        let body = node.call("GET", "/v1/locks/a").await.json();
        let holder = &body["holders"][0];
        assert!(holder["since_renewal_ms"].as_u64() < Some(20_000), "{body}");
        let left = holder["expires_in_ms"].as_u64().unwrap();
        assert!(left <= 20_000, "{body}");
        assert_eq!(body["free_at_latest_in_ms"].as_u64(), Some(left));
        let link = &body["blocked_by"][0];
        assert_eq!(
            (&link["session"], &link["waits_for"], &link["held_by"]),
            (&json!("one"), &json!("b"), &json!("two"))
        );
        assert!(link.get("deadlock").is_none(), "{body}");
        let stale = node.call("GET", "/v1/locks/a?stale").await.json();
        assert!(stale["holders"][0].get("since_renewal_ms").is_none(), "{stale}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sort_by_contention_lists_the_locks_with_the_longest_queues_first() {
    let node = Node::start().await;
    for lock in ["calm", "busy", "hot"] {
        node.take(&format!("/v1/locks/{lock}?session=me")).await;
    }
    let mut waiting = Vec::new();
    for (lock, session) in [("busy", "w1"), ("hot", "w1"), ("hot", "w2"), ("other", "w1")] {
        let target: &'static str = format!("/v1/locks/{lock}?session={session}&wait=1m").leak();
        waiting.push(node.begin("PUT", target));
    }
    node.until_waiters("hot", 2).await;
    node.until_waiters("busy", 1).await;
    let names = |body: &serde_json::Value| -> Vec<String> {
        let locks = body["locks"].as_array().unwrap();
        locks.iter().map(|lock| lock["lock"].as_str().unwrap().to_owned()).collect()
    };
    let body = node.call("GET", "/v1/locks?sort=contention&limit=2").await.json();
    assert_eq!(names(&body), ["hot", "busy"], "{body}");
    // Locks stay in the list after their queue is empty.
    node.call("DELETE", "/v1/locks/busy?session=me").await;
    let target = "/v1/locks?sort=contention&prefix=busy";
    let seen = node.until("times", target, |reply| reply.json()["locks"][0]["wait"]["count"] == 1);
    let body = seen.await.json();
    assert_eq!(body["locks"][0]["hold"]["count"], 1, "{body}");
    let metrics = node.call("GET", "/metrics").await.body;
    assert!(metrics.contains("holdfast_lock_wait_seconds_count 1"), "{metrics}");
    assert!(
        metrics.contains(r#"holdfast_lock_holds_ended_total{cause="released"} 1"#),
        "{metrics}"
    );
    node.call("GET", "/v1/locks?sort=contention&held").await.problem(400, "invalid-argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_close_a_session_with_a_reason() {
    let node = Node::holding("/v1/locks/a?session=stuck").await;
    node.call("DELETE", "/v1/sessions/stuck?force").await.problem(400, "invalid-argument");
    assert_eq!(node.call("DELETE", "/v1/sessions/stuck?force&reason=gone").await.status, 204);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_lock_lists_each_hold_with_its_session_times_and_cause() {
    let node = Node::start().await;
    let first = node.take("/v1/locks/a?session=me").await;
    node.call("DELETE", "/v1/locks/a?session=me").await;
    let second = node.take("/v1/locks/a?session=you&owner=thread-1").await;
    node.call("DELETE", "/v1/sessions/you").await;
    let third = node.take("/v1/locks/a?session=them").await;
    let body = node.call("GET", "/v1/history/a").await.json();
    let told: Vec<_> = body["holds"].as_array().unwrap().iter().collect();
    let tokens: Vec<_> = told.iter().map(|hold| hold["token"].as_u64().unwrap()).collect();
    assert_eq!(tokens, [third, second, first], "{body}");
    assert!(told[0].get("cause").is_none() && told[0].get("ended_at").is_none(), "{body}");
    assert_eq!(
        (&told[1]["cause"], &told[1]["owner"]),
        (&json!("session-closed"), &json!("thread-1"))
    );
    assert_eq!((&told[2]["cause"], &told[2]["session"]), (&json!("released"), &json!("me")));
    assert_eq!(body["complete_since_revision"], 0);
    let since = told[0]["granted_at"].as_str().unwrap();
    let then = node.call("GET", &format!("/v1/history/a?at={since}")).await.json();
    assert_eq!(
        (then["holds"].as_array().unwrap().len(), &then["holds"][0]["token"]),
        (1, &json!(third))
    );
    let before = node.call("GET", "/v1/history/a?at=1h").await.json();
    assert_eq!(before["holds"], json!([]));
    node.call("GET", "/v1/history/a?at=noon").await.problem(400, "invalid-argument");
    assert_eq!(node.call("GET", "/v1/history/a?limit=1").await.json()["holds"][1]["token"], second);
}

/// The node does not wait for a cursor that no response contained.
#[tokio::test]
async fn a_keepalive_with_a_future_cursor_gets_the_current_one() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    let kept = node.call("POST", "/v1/sessions/me/keepalive?since=714842588199832").await;
    assert_eq!(kept.status, 200, "{kept:?}");
    assert!(kept.json()["revision"].as_u64().unwrap() < 1_000, "{kept:?}");
    let kept = node.call_json("POST", "/v1/keepalive", r#"[""]"#).await;
    kept.problem(400, "bad-name");
}

/// A follower may receive the leader's reply before it applies the entry, and an idle cluster applies nothing after it.
#[tokio::test]
async fn a_follower_reports_the_first_position_at_once() {
    let nodes = Node::cluster().await;
    nodes[0].take("/v1/locks/busy?session=holder&ttl=5m").await;
    for waiter in 1..=6 {
        let target = format!("/v1/locks/busy?session=w{waiter}&wait=1m&ttl=5m");
        let queued = async {
            let follower = &nodes[1 + waiter % 2];
            let mut events = Events::begin(follower.address, "PUT", &target, None).await;
            let queued = events.expect("queued").await;
            (events, queued)
        };
        // Without a change of the queue, positions are read every two seconds.
        let queued = tokio::time::timeout(Duration::from_millis(1_900), queued).await;
        let (_events, queued) = queued.expect("the position is late");
        let position = queued["position"].as_u64();
        assert_eq!(
            (position, &queued["ahead"][0]["session"]),
            (Some(waiter as u64), &"holder".into())
        );
        assert_eq!(queued["waiters"].as_u64(), position);
    }
}
