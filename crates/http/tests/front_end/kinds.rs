//! Readers and writers, semaphores, how long holds last, and rules that are changed while a lock is in use.

use serde_json::json;

use crate::node::Node;

#[tokio::test]
async fn readers_share_and_an_upgradable_one_becomes_the_writer_with_a_new_token() {
    let node = Node::start().await;
    let reader = node.take("/v1/locks/a?session=r&mode=shared").await;
    let upgradable = node.take("/v1/locks/a?session=u&mode=upgradable").await;
    let second = node.call("PUT", "/v1/locks/a?session=v&mode=upgradable").await;
    second.problem(423, "lock-busy");
    let problem = node.call("PUT", "/v1/locks/a?session=r&mode=exclusive").await;
    problem.problem(409, "mode-conflict");
    let upgrade = node.begin("PUT", "/v1/locks/a?session=u&mode=exclusive&wait=60s");
    let upgrading = |reply: &crate::client::Reply| reply.json()["holders"][1]["upgrading"] == true;
    node.until("the upgrade to be asked for", "/v1/locks/a", upgrading).await;
    let late = node.call("PUT", "/v1/locks/a?session=late&mode=shared").await;
    late.problem(423, "lock-busy");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=r").await.status, 204);
    let grant = upgrade.await.unwrap().json();
    assert_eq!(grant["mode"], "exclusive");
    assert!(grant["token"].as_u64().unwrap() > upgradable.max(reader), "{grant}");
    let kept = node.call("PUT", "/v1/locks/a?session=u&mode=shared").await.json();
    assert_eq!((&kept["mode"], &kept["token"]), (&json!("shared"), &grant["token"]));
}

#[tokio::test]
async fn a_semaphore_gives_slots_and_its_limit_is_changed_live() {
    let node = Node::start().await;
    let first = node.call("PUT", "/v1/locks/s?session=a&limit=3&permits=2").await.json();
    assert_eq!((&first["permits"], &first["slots"]), (&json!(2), &json!([0, 1])));
    let problem = node.call("PUT", "/v1/locks/s?session=b&permits=4").await;
    problem.problem(409, "limit-mismatch");
    let problem = node.call("PUT", "/v1/locks/s?session=b&limit=5").await;
    problem.problem(409, "limit-mismatch");
    let waiting = node.begin("PUT", "/v1/locks/s?session=b&permits=2&wait=60s");
    node.until_waiters("s", 1).await;
    let problem = node.call("PATCH", "/v1/locks/s?limit=none").await;
    problem.problem(409, "in-use");
    let rules = node.call("PATCH", "/v1/locks/s?limit=4").await.json();
    assert_eq!(rules["limit"], 4);
    let grant = waiting.await.unwrap().json();
    assert_eq!((&grant["slots"], &grant["floor"]), (&json!([2, 3]), &first["token"]));
    let lock = node.call("GET", "/v1/locks/s").await.json();
    assert_eq!((&lock["permits_held"], &lock["policy"]["limit"]), (&json!(4), &json!(4)));
}

#[tokio::test]
async fn a_hold_ends_at_its_maximum_however_often_it_is_renewed() {
    let node = Node::start().await;
    let grant = node.call("PUT", "/v1/locks/a?session=me&max_hold=300ms").await.json();
    assert!(grant["ends_in_ms"].as_u64().unwrap() <= 300, "{grant}");
    let next = node.call("PUT", "/v1/locks/a?session=you&wait=60s").await.json();
    assert!(next["token"].as_u64() > grant["token"].as_u64(), "{next}");
    assert_eq!(node.call("PUT", "/v1/sessions/me").await.status, 200);
}

#[tokio::test]
async fn a_lock_that_is_closed_says_why_and_until_when() {
    let node = Node::start().await;
    node.take("/v1/locks/a?session=me&min_hold=10m").await;
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    let reply = node.call("PUT", "/v1/locks/a?session=you").await;
    let problem = reply.problem(423, "lock-closed");
    assert!(problem.to_string().contains("min_hold"), "{problem}");
    let lock = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!((&lock["held"], &lock["closed"]["why"]), (&json!(false), &json!("min-hold")));
    let opens = lock["closed"]["opens_in_ms"].as_u64().unwrap();
    assert!((1..=600_000).contains(&opens), "{lock}");
}

#[tokio::test]
async fn a_higher_priority_goes_first_and_shows_its_value() {
    let node = Node::start().await;
    node.take("/v1/locks/a?session=me").await;
    let plain = node.begin("PUT", "/v1/locks/a?session=plain&wait=60s");
    node.until_waiters("a", 1).await;
    let urgent = node.begin("PUT", "/v1/locks/a?session=urgent&wait=60s&priority=9&value=job%207");
    node.until_waiters("a", 2).await;
    let queue = node.call("GET", "/v1/locks/a").await.json()["queue"].clone();
    let first = &queue[0];
    assert_eq!((&first["session"], &first["priority"]), (&json!("urgent"), &json!(9)));
    assert_eq!(first["value"], "job 7");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    assert_eq!(urgent.await.unwrap().status, 200);
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=urgent").await.status, 204);
    assert_eq!(plain.await.unwrap().status, 200);
}

#[tokio::test]
async fn an_owner_that_must_not_enter_twice_is_refused_at_once() {
    let node = Node::start().await;
    node.take("/v1/locks/a?session=me&attempt=1").await;
    let target = "/v1/locks/a?session=me&attempt=2&reentrant=false";
    node.call("PUT", target).await.problem(409, "not-reentrant");
    let again = node.call("PUT", "/v1/locks/a?session=me&attempt=2").await.json();
    assert_eq!(again["entries"], 2);
}

#[tokio::test]
async fn rules_come_from_a_body_as_well_and_are_read_back() {
    let node = Node::start().await;
    let body = r#"{"order": "reader-first", "cooldown": "1m", "detect_deadlocks": false}"#;
    let headers = [("Content-Type", "application/json")];
    let reply =
        crate::client::call_with(node.address, "PATCH", "/v1/locks/a", &headers, body).await;
    let rules = reply.json();
    assert_eq!((&rules["order"], &rules["cooldown_ms"]), (&json!("reader-first"), &json!(60_000)));
    assert_eq!(rules["detect_deadlocks"], false);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["policy"], rules);
    let problem = node.call("PATCH", "/v1/locks/a?limits=3").await.problem(400, "invalid-argument");
    assert!(problem["hint"].as_str().unwrap().starts_with("did you mean 'limit'?"), "{problem}");
}

#[tokio::test]
async fn a_holder_is_asked_hears_of_it_and_loses_the_lock_at_the_deadline() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let quiet = node.call("POST", "/v1/sessions/me/keepalive?wait=0s").await.json();
    let asked = node
        .call("POST", "/v1/locks/a?ask=release&reason=patch+day&deadline=1s&revoke")
        .await
        .json();
    assert_eq!(asked["asked"], 1);
    let holder = node.call("GET", "/v1/locks/a").await.json()["holders"][0].clone();
    assert_eq!(holder["release_request"]["reason"], "patch day");
    let since = &quiet["revision"];
    let target = format!("/v1/sessions/me/keepalive?wait=60s&since={since}");
    let news = node.call("POST", &target).await.json();
    let event = &news["events"][0];
    assert_eq!((&event["kind"], &event["token"]), (&json!("release-requested"), &json!(token)));
    assert_eq!((&event["reason"], &event["revoke"]), (&json!("patch day"), &json!(true)));
    assert!(event["wanted_in_ms"].as_u64().unwrap() <= 1_000, "{event}");
    let next = node.call("PUT", "/v1/locks/a?session=you&wait=60s").await.json();
    assert!(next["token"].as_u64().unwrap() > token, "{next}");
    node.call("POST", "/v1/locks/a?ask=release&session=me").await.problem(409, "not-holder");
}

#[tokio::test]
async fn a_holder_is_told_the_reason_of_the_operator_who_breaks_its_hold() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let quiet = node.call("POST", "/v1/sessions/me/keepalive?wait=0s").await.json();
    node.call("DELETE", "/v1/locks/a?force&reason=stuck").await;
    let lost = json!(["lost", token, "broken", "stuck"]);
    let since = &quiet["revision"];
    let target = format!("/v1/sessions/me/keepalive?wait=60s&since={since}");
    // Once from the memory of those who listen, once from the history of the node.
    for target in [target, "/v1/sessions/me/keepalive?wait=60s&since=1".to_owned()] {
        let news = node.call("POST", &target).await.json();
        let event = news["events"].as_array().unwrap().last().unwrap();
        let told = json!([event["kind"], event["token"], event["cause"], event["reason"]]);
        assert_eq!(told, lost, "{news}");
    }
}

#[tokio::test]
async fn a_lock_is_handed_on_without_a_gap() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=waiter&wait=60s");
    node.until_waiters("a", 1).await;
    node.call("PUT", "/v1/sessions/you").await;
    let handed = node.call("DELETE", "/v1/locks/a?session=me&to=you").await.json();
    assert_eq!(handed["to"], "you");
    assert!(handed["token"].as_u64().unwrap() > token, "{handed}");
    let lock = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!((&lock["holders"][0]["session"], &lock["waiters"]), (&json!("you"), &json!(1)));
    node.call("GET", &format!("/v1/fence/a?token={token}")).await.problem(412, "stale-token");
    let problem = node.call("DELETE", "/v1/locks/a?session=you&to=nobody").await;
    assert_eq!(problem.status, 410, "{problem:?}");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=you").await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_hand_over_that_closes_a_cycle_is_rejected() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    node.take("/v1/locks/b?session=waiter").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=waiter&wait=60s");
    node.until_waiters("a", 1).await;
    let other = node.begin("PUT", "/v1/locks/b?session=you&wait=60s");
    node.until_waiters("b", 1).await;
    let reply = node.call("DELETE", "/v1/locks/a?session=me&to=you").await;
    let detail = reply.problem(409, "deadlock")["detail"].clone();
    assert_eq!(detail, "'you' waits for 'b', 'waiter' waits for 'a'");
    let holder = node.call("GET", "/v1/locks/a").await.json()["holders"][0].clone();
    assert_eq!((&holder["session"], &holder["token"]), (&json!("me"), &json!(token)));
    // Released instead, everybody has a turn.
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(node.call("DELETE", "/v1/locks/b?session=waiter").await.status, 204);
    assert_eq!(other.await.unwrap().status, 200);
}

#[tokio::test]
async fn an_operator_takes_a_lock_away_and_the_next_is_granted() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=waiter&wait=60s");
    node.until_waiters("a", 1).await;
    let broken = node.call("DELETE", "/v1/locks/a?force&reason=host+is+gone").await.json();
    assert_eq!(broken["broken"], 1);
    // Sent again with the token, it affects no later holder.
    let target = format!("/v1/locks/a?force&reason=again&token={token}");
    assert_eq!(node.call("DELETE", &target).await.json()["broken"], 0);
    assert!(waiting.await.unwrap().json()["token"].as_u64().unwrap() > token);
    node.call("DELETE", "/v1/locks/a?session=me").await.problem(409, "not-holder");
    node.call("DELETE", "/v1/locks/a?force").await.problem(400, "invalid-argument");
}

#[tokio::test]
async fn a_deadlock_cycle_is_rejected() {
    let node = Node::start().await;
    node.take("/v1/locks/a?session=me").await;
    node.take("/v1/locks/b?session=you").await;
    let waiting = node.begin("PUT", "/v1/locks/b?session=me&wait=60s");
    node.until_waiters("b", 1).await;
    let problem = node.call("PUT", "/v1/locks/a?session=you&wait=60s").await;
    let problem = problem.problem(409, "deadlock");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("'you' waits for 'a'") && detail.contains("'me' waits for 'b'"),
        "{detail}"
    );
    assert_eq!(node.call("DELETE", "/v1/locks/b?session=you").await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn several_locks_come_together_each_with_its_token_or_not_at_all() {
    let node = Node::start().await;
    node.take("/v1/locks/b/x?session=other").await;
    let both = "/v1/locks?name=a&name=b/x&session=me&wait=60s";
    node.call("POST", "/v1/locks?name=a&name=b/x&session=me").await.problem(423, "lock-busy");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["waiters"], 0);
    let waiting = node.begin("POST", both);
    node.until_waiters("b/x", 1).await;
    // The free one is kept for it: a smaller call does not starve it.
    node.call("PUT", "/v1/locks/a?session=small").await.problem(423, "lock-busy");
    let queue = node.call("GET", "/v1/locks/b/x").await.json()["queue"].clone();
    assert_eq!(queue[0]["multi_lock"], json!(["a", "b/x"]));
    assert_eq!(node.call("DELETE", "/v1/locks/b/x?session=other").await.status, 204);
    let grants = waiting.await.unwrap().json()["grants"].clone();
    let names: Vec<_> = [0, 1].map(|n| grants[n]["lock"].clone()).into();
    assert_eq!(names, ["a", "b/x"]);
    assert_ne!(grants[0]["token"], grants[1]["token"]);
    let again = node.call("POST", both).await.json()["grants"].clone();
    assert_eq!((&again[0]["token"], &again[0]["renewed"]), (&grants[0]["token"], &json!(true)));
    let target = "/v1/locks?name=b/x&name=a&session=me";
    for _ in 0..2 {
        assert_eq!(node.call("DELETE", target).await.status, 204);
    }
    assert_eq!(node.call("GET", "/v1/locks?held").await.json()["locks"], json!([]));
}

#[tokio::test]
async fn several_locks_are_named_once_each_in_the_query_or_a_body() {
    let node = Node::start().await;
    let headers = [("Content-Type", "application/json")];
    let body = r#"{"name": ["a", "b"], "session": "me"}"#;
    let reply = crate::client::call_with(node.address, "POST", "/v1/locks", &headers, body).await;
    assert_eq!(reply.json()["grants"].as_array().unwrap().len(), 2);
    let many: Vec<String> = (0..17).map(|n| format!("name=l{n}")).collect();
    for query in ["session=me", "name=a&name=a", &many.join("&"), "name=a&mode=upgradable"] {
        node.call("POST", &format!("/v1/locks?{query}")).await.problem(400, "invalid-argument");
    }
    node.call("POST", "/v1/locks?name=a/../b").await.problem(400, "bad-name");
    node.call("DELETE", "/v1/locks?name=a").await.problem(400, "invalid-argument");
}
