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
async fn who_is_more_urgent_goes_first_and_shows_its_value() {
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
    node.take("/v1/locks/a?session=me&entry=one").await;
    let target = "/v1/locks/a?session=me&entry=two&reentrant=false";
    node.call("PUT", target).await.problem(409, "not-reentrant");
    let again = node.call("PUT", "/v1/locks/a?session=me&entry=two").await.json();
    assert_eq!(again["entries"], 2);
}

#[tokio::test]
async fn rules_come_from_a_body_as_well_and_a_change_of_nothing_answers_them() {
    let node = Node::start().await;
    let body = r#"{"order": "reader-first", "cooldown": "1m", "detect_deadlocks": false}"#;
    let headers = [("Content-Type", "application/json")];
    let reply =
        crate::client::call_with(node.address, "PATCH", "/v1/locks/a", &headers, body).await;
    let rules = reply.json();
    assert_eq!((&rules["order"], &rules["cooldown_ms"]), (&json!("reader-first"), &json!(60_000)));
    assert_eq!(rules["detect_deadlocks"], false);
    assert_eq!(node.call("PATCH", "/v1/locks/a").await.json(), rules);
    let problem = node.call("PATCH", "/v1/locks/a?limits=3").await.problem(400, "invalid-argument");
    assert!(problem["hint"].as_str().unwrap().starts_with("did you mean 'limit'?"), "{problem}");
}
