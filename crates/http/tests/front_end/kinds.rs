//! Modes, semaphores, limits of holds, priorities, policies, release requests, hand-overs, breaks and multi-locks.

use serde_json::json;

use crate::node::Node;

#[tokio::test]
async fn shared_holders_hold_together_and_an_upgrade_to_exclusive_gets_a_new_token() {
    let node = Node::start().await;
    let reader = node.take("/v1/locks/a?session=r&mode=shared").await;
    let upgradable = node.take("/v1/locks/a?session=u&mode=upgradable").await;
    let second = node.call("PUT", "/v1/locks/a?session=v&mode=upgradable").await;
    second.problem(423, "lock-busy");
    let problem = node.call("PUT", "/v1/locks/a?session=r&change=0&mode=exclusive").await;
    problem.problem(409, "mode-conflict");
    let upgrade = node.begin("PUT", "/v1/locks/a?session=u&change=0&mode=exclusive&wait=60s");
    let upgrading = |reply: &crate::client::Reply| reply.json()["holders"][1]["upgrading"] == true;
    node.until("the upgrade waits", "/v1/locks/a", upgrading).await;
    let late = node.call("PUT", "/v1/locks/a?session=late&mode=shared").await;
    late.problem(423, "lock-busy");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=r").await.status, 204);
    let grant = upgrade.await.unwrap().json();
    assert_eq!(grant["mode"], "exclusive");
    assert!(grant["token"].as_u64().unwrap() > upgradable.max(reader), "{grant}");
    let kept = node.call("PUT", "/v1/locks/a?session=u&change=0&mode=shared").await.json();
    assert_eq!((&kept["mode"], &kept["token"]), (&json!("shared"), &grant["token"]));
}

/// A receiver of a transfer knows the token alone. Its upgrade may be in flight when it releases the lock.
#[tokio::test]
async fn a_token_from_before_an_upgrade_releases_the_hold_and_no_later_one() {
    let node = Node::start().await;
    let given = node.take("/v1/locks/a?session=me&mode=upgradable").await;
    node.call("PUT", "/v1/sessions/you").await;
    let hand = format!("/v1/transfers/a?session=me&token={given}&to=you");
    let received = node.call("POST", &hand).await.json()["token"].clone();
    let upgrade = "/v1/locks/a?session=you&change=0&attempt=1&mode=exclusive";
    let upgraded = node.call("PUT", upgrade).await.json();
    assert!(upgraded["token"].as_u64() > received.as_u64(), "{upgraded}");
    let listed = json!({ "lock": "a", "ticket": upgraded["ticket"], "token": upgraded["token"] });
    assert_eq!(node.call("GET", "/v1/sessions/you").await.json()["holds"], json!([listed]));
    let release = |token: u64| format!("/v1/locks/a?session=you&token={token}");
    let held = async || node.call("GET", "/v1/locks/a").await.json()["held"].clone();
    assert_eq!(node.call("DELETE", &release(given)).await.status, 204);
    assert_eq!(held().await, true, "the token of the giver");
    let received = received.as_u64().unwrap();
    assert_eq!(node.call("DELETE", &release(received)).await.status, 204);
    assert_eq!(held().await, false);
    node.take("/v1/locks/a?session=you").await;
    for token in [received, upgraded["token"].as_u64().unwrap()] {
        assert_eq!(node.call("DELETE", &release(token)).await.status, 204);
    }
    assert_eq!(held().await, true, "a late copy ends no later hold");
}

#[tokio::test]
async fn a_semaphore_grants_slots_and_its_limit_can_be_raised_while_callers_wait() {
    let node = Node::start().await;
    let first = node.call("PUT", "/v1/locks/s?session=a&limit=3&permits=2").await.json();
    assert_eq!((&first["permits"], &first["slots"]), (&json!(2), &json!([0, 1])));
    let problem = node.call("PUT", "/v1/locks/s?session=b&permits=4").await;
    problem.problem(409, "limit-mismatch");
    let problem = node.call("PUT", "/v1/locks/s?session=b&limit=5").await;
    problem.problem(409, "limit-mismatch");
    let waiting = node.begin("PUT", "/v1/locks/s?session=b&permits=2&wait=60s");
    node.until_waiters("s", 1).await;
    let problem = node.call("PATCH", "/v1/policies/s?limit=none").await;
    problem.problem(409, "in-use");
    let rules = node.call("PATCH", "/v1/policies/s?limit=4").await.json();
    assert_eq!(rules["limit"], 4);
    let grant = waiting.await.unwrap().json();
    assert_eq!((&grant["slots"], &grant["min_valid_token"]), (&json!([2, 3]), &first["token"]));
    let lock = node.call("GET", "/v1/locks/s").await.json();
    assert_eq!((&lock["permits_held"], &lock["policy"]["limit"]), (&json!(4), &json!(4)));
}

#[tokio::test]
async fn a_hold_ends_at_max_hold_and_its_session_lives_on() {
    let node = Node::start().await;
    let grant = node.call("PUT", "/v1/locks/a?session=me&max_hold=300ms").await.json();
    assert!(grant["ends_in_ms"].as_u64().unwrap() <= 300, "{grant}");
    let next = node.call("PUT", "/v1/locks/a?session=you&wait=60s").await.json();
    assert!(next["token"].as_u64() > grant["token"].as_u64(), "{next}");
    assert_eq!(node.call("PUT", "/v1/sessions/me").await.status, 200);
}

#[tokio::test]
async fn a_lock_in_cooldown_reports_the_cause_and_the_remaining_time() {
    let node = Node::holding("/v1/locks/a?session=me&min_hold=10m").await;
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    let reply = node.call("PUT", "/v1/locks/a?session=you").await;
    let problem = reply.problem(423, "lock-in-cooldown");
    assert!(problem.to_string().contains("min_hold"), "{problem}");
    let lock = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!((&lock["held"], &lock["cooldown"]["cause"]), (&json!(false), &json!("min-hold")));
    let opens = lock["cooldown"]["ends_in_ms"].as_u64().unwrap();
    assert!((1..=600_000).contains(&opens), "{lock}");
}

#[tokio::test]
async fn a_waiter_with_a_higher_priority_is_granted_first_and_the_queue_shows_its_value() {
    let node = Node::holding("/v1/locks/a?session=me").await;
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
async fn a_re_entry_with_reentrant_false_is_rejected() {
    let node = Node::holding("/v1/locks/a?session=me&attempt=1").await;
    let target = "/v1/locks/a?session=me&attempt=2&reentrant=false";
    node.call("PUT", target).await.problem(409, "not-reentrant");
    let again = node.call("PUT", "/v1/locks/a?session=me&attempt=2").await.json();
    assert_eq!(again["hold_count"], 2);
}

#[tokio::test]
async fn a_policy_can_be_set_in_a_body_and_is_part_of_the_lock_view() {
    let node = Node::start().await;
    let body = r#"{"order": "reader-first", "cooldown": "1m", "detect_deadlocks": false}"#;
    let headers = [("Content-Type", "application/json")];
    let reply =
        crate::client::call_with(node.address, "PATCH", "/v1/policies/a", &headers, body).await;
    let rules = reply.json();
    assert_eq!((&rules["order"], &rules["cooldown_ms"]), (&json!("reader-first"), &json!(60_000)));
    assert_eq!(rules["detect_deadlocks"], false);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["policy"], rules);
    let problem =
        node.call("PATCH", "/v1/policies/a?limits=3").await.problem(400, "invalid-argument");
    assert!(problem["hint"].as_str().unwrap().starts_with("did you mean 'limit'?"), "{problem}");
}

#[tokio::test]
async fn a_release_request_with_revoke_notifies_the_holder_and_ends_the_hold_at_its_deadline() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let quiet = node.call("POST", "/v1/sessions/me/keepalive?wait=0s").await.json();
    let asked = node
        .call("POST", "/v1/release-requests/a?reason=patch+day&deadline=1s&revoke")
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
    assert_eq!(event["ticket"], quiet["holds"][0]["ticket"]);
    assert!(event["wanted_in_ms"].as_u64().unwrap() <= 1_000, "{event}");
    let next = node.call("PUT", "/v1/locks/a?session=you&wait=60s").await.json();
    assert!(next["token"].as_u64().unwrap() > token, "{next}");
    node.call("POST", "/v1/release-requests/a?session=me").await.problem(409, "not-holder");
}

#[tokio::test]
async fn a_broken_hold_is_reported_to_its_session_with_the_reason() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let quiet = node.call("POST", "/v1/sessions/me/keepalive?wait=0s").await.json();
    node.call("POST", "/v1/force-releases/a?reason=stuck").await;
    let lost = json!(["lost", token, "force-released", "stuck"]);
    let since = &quiet["revision"];
    let target = format!("/v1/sessions/me/keepalive?wait=60s&since={since}");
    // The first reply comes from the events kept for the session, the second from the node's change log.
    for target in [target, "/v1/sessions/me/keepalive?wait=60s&since=1".to_owned()] {
        let news = node.call("POST", &target).await.json();
        let event = news["events"].as_array().unwrap().last().unwrap();
        let told = json!([event["kind"], event["token"], event["cause"], event["reason"]]);
        assert_eq!(told, lost, "{news}");
    }
}

#[tokio::test]
async fn a_hand_over_gives_the_lock_to_the_target_session_before_queued_waiters() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=waiter&wait=60s");
    node.until_waiters("a", 1).await;
    node.call("PUT", "/v1/sessions/you").await;
    let handed = node.call("POST", "/v1/transfers/a?session=me&to=you").await.json();
    assert_eq!(handed["to"], "you");
    assert!(handed["token"].as_u64().unwrap() > token, "{handed}");
    let lock = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!((&lock["holders"][0]["session"], &lock["waiters"]), (&json!("you"), &json!(1)));
    node.call("GET", &format!("/v1/fence/a?token={token}")).await.problem(412, "stale-token");
    let problem = node.call("POST", "/v1/transfers/a?session=you&to=unknown").await;
    assert_eq!(problem.status, 410, "{problem:?}");
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=you").await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_hand_over_that_closes_a_deadlock_cycle_is_rejected() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    node.take("/v1/locks/b?session=waiter").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=waiter&wait=60s");
    node.until_waiters("a", 1).await;
    let other = node.begin("PUT", "/v1/locks/b?session=you&wait=60s");
    node.until_waiters("b", 1).await;
    let reply = node.call("POST", "/v1/transfers/a?session=me&to=you").await;
    let detail = reply.problem(409, "deadlock")["detail"].clone();
    assert_eq!(detail, "'you' waits for 'b', 'waiter' waits for 'a'");
    let holder = node.call("GET", "/v1/locks/a").await.json()["holders"][0].clone();
    assert_eq!((&holder["session"], &holder["token"]), (&json!("me"), &json!(token)));
    // After a release instead, each waiter is granted its lock.
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(node.call("DELETE", "/v1/locks/b?session=waiter").await.status, 204);
    assert_eq!(other.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_lock_that_an_operator_breaks_is_granted_to_the_next_waiter() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/a?session=me").await;
    let waiting = node.begin("PUT", "/v1/locks/a?session=waiter&wait=60s");
    node.until_waiters("a", 1).await;
    let broken = node.call("POST", "/v1/force-releases/a?reason=host+is+gone").await.json();
    assert_eq!(broken["ended"], 1);
    // A repeated break with the token does not affect a later holder.
    let target = format!("/v1/force-releases/a?reason=again&token={token}");
    assert_eq!(node.call("POST", &target).await.json()["ended"], 0);
    assert!(waiting.await.unwrap().json()["token"].as_u64().unwrap() > token);
    node.call("DELETE", "/v1/locks/a?session=me").await.problem(409, "not-holder");
    node.call("POST", "/v1/force-releases/a").await.problem(400, "invalid-argument");
}

#[tokio::test]
async fn an_acquire_that_closes_a_deadlock_cycle_is_rejected() {
    let node = Node::holding("/v1/locks/a?session=me").await;
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
async fn a_multi_lock_is_granted_as_a_whole_with_a_token_for_each_lock() {
    let node = Node::holding("/v1/locks/b/x?session=other").await;
    let both = "/v1/locks?name=a&name=b/x&session=me&wait=60s";
    node.call("POST", "/v1/locks?name=a&name=b/x&session=me").await.problem(423, "lock-busy");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["waiters"], 0);
    let waiting = node.begin("POST", both);
    node.until_waiters("b/x", 1).await;
    // The free lock is reserved for the multi-lock, so that calls for one lock cannot starve it.
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
async fn a_multi_lock_names_each_lock_once_in_the_query_or_a_body() {
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

/// Findings C-H1 and C-M2: copies that a resumed node carries out after the client went on.
#[tokio::test]
async fn a_late_copy_of_an_acquire_or_an_open_reverts_no_mode_no_value_and_no_ttl() {
    let node = Node::start().await;
    let acquire = "/v1/locks/m?session=A&mode=upgradable&attempt=1&ttl=60s&value=old";
    let upgrade = "/v1/locks/m?session=A&mode=exclusive&change=1&attempt=2&value=new";
    node.take(acquire).await;
    let upgraded = node.call("PUT", upgrade).await.json();
    let late = node.call("PUT", acquire).await.json();
    for field in ["mode", "token", "value"] {
        assert_eq!(late[field], upgraded[field], "{late}");
    }
    node.call("PUT", "/v1/locks/m?session=R&mode=shared").await.problem(423, "lock-busy");
    // The other direction.
    let downgrade = "/v1/locks/m?session=A&mode=shared&change=1&attempt=3";
    assert_eq!(node.call("PUT", downgrade).await.json()["mode"], "shared");
    for late in [upgrade, acquire] {
        let late = node.call("PUT", late).await.json();
        assert_eq!((&late["mode"], &late["token"]), (&json!("shared"), &upgraded["token"]));
    }
    node.take("/v1/locks/m?session=R&mode=shared").await;
    // After the release, a late change acquires nothing.
    node.call("DELETE", "/v1/locks/m?session=A&attempt=1").await;
    node.call("PUT", upgrade).await.problem(409, "attempt-over");
    node.call("PUT", "/v1/locks/m?session=A&change=8&attempt=9").await.problem(409, "not-holder");

    node.call("PUT", "/v1/sessions/t?ttl=2s&attempt=1").await;
    node.call("PUT", "/v1/sessions/t?ttl=60s&attempt=2").await;
    for late in ["ttl=2s&attempt=1", "ttl=2s"] {
        let late = node.call("PUT", &format!("/v1/sessions/t?{late}")).await.json();
        assert_eq!(late["ttl_ms"], 60_000, "{late}");
    }
    node.call("DELETE", "/v1/sessions/t").await;
    node.call("PUT", "/v1/sessions/t?ttl=60s&attempt=2").await.problem(409, "attempt-over");
}

/// Finding M1 of the map of mechanisms: nested code keeps its exclusion.
#[tokio::test]
async fn a_read_in_a_write_does_not_give_up_the_write() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/nest?session=w&attempt=1").await;
    let read = node.call("PUT", "/v1/locks/nest?session=w&attempt=2&mode=shared").await.json();
    assert_eq!((&read["mode"], &read["token"]), (&json!("exclusive"), &json!(token)));
    let reader = "/v1/locks/nest?session=r&mode=shared&attempt=1";
    node.call("PUT", reader).await.problem(423, "lock-busy");
    node.call("DELETE", "/v1/locks/nest?session=w&attempt=2").await;
    assert_eq!(node.call("GET", "/v1/locks/nest").await.json()["mode"], "exclusive");
    node.call("PUT", "/v1/locks/nest?session=w&attempt=3&mode=shared").await;
    node.call("DELETE", "/v1/locks/nest?session=w&attempt=1").await;
    node.take(reader).await;
    // A write in a read waits for nobody: beside another reader it could wait for ever.
    let write = node.call("PUT", "/v1/locks/nest?session=w&attempt=4&wait=60s").await;
    let hint = &write.problem(409, "mode-conflict")["hint"];
    assert!(hint.as_str().unwrap().contains("mode=upgradable"), "{hint}");
    let same = node.call("PUT", "/v1/locks/nest?session=w&attempt=3&mode=exclusive").await;
    let hint = &same.problem(409, "mode-conflict")["hint"];
    assert!(hint.as_str().unwrap().contains("change=N"), "{hint}");
}

#[tokio::test]
async fn the_release_of_a_waiting_upgrade_ends_its_call() {
    let node = Node::holding("/v1/locks/a?session=u&attempt=1&mode=upgradable").await;
    node.take("/v1/locks/a?session=r&mode=shared").await;
    for (call, attempt) in [
        ("/v1/locks/a?session=u&wait=60s&attempt=2&mode=exclusive", 2),
        ("/v1/locks/a?session=u&wait=60s&attempt=3&change=1&mode=exclusive", 3),
    ] {
        let waiting = node.begin("PUT", call);
        let upgrading =
            |reply: &crate::client::Reply| reply.json()["holders"][0]["upgrading"] == true;
        node.until("the upgrade waits", "/v1/locks/a", upgrading).await;
        node.call("DELETE", &format!("/v1/locks/a?session=u&attempt={attempt}")).await;
        waiting.await.unwrap().problem(423, "wait-timeout");
        let kept = node.call("PUT", "/v1/locks/a?session=u&attempt=1").await.json();
        assert_eq!((&kept["mode"], &kept["hold_count"]), (&json!("upgradable"), &json!(1)));
    }
}
