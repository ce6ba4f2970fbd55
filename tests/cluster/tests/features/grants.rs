//! Rows 44a, 44e, 44f, 66, 68 and 75: tokens, durability, inspection and revocation of grants.

use std::time::Instant;

use holdfast_lab::zk::{WatchEventType, ZkClient, create, delete, exists};
use holdfast_lab::{Cluster, DEADLINE, Http, until};
use serde_json::json;

use crate::lab::one;

#[tokio::test(flavor = "multi_thread")]
async fn row_44a_every_grant_has_a_larger_token_and_reentry_has_the_same() {
    let (cluster, http) = one().await;
    let mut last = 0;
    let mut grow = |token: u64| {
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    let first = http.take("a?session=me&ttl=5m&attempt=1").await;
    assert_eq!(http.take("a?session=me&attempt=2").await, first, "reentry");
    assert_eq!(http.take("a?session=me&attempt=1").await, first, "renewal");
    grow(first);
    http.release("a?session=me").await;
    // Grants by shared mode, permits, an expiry and a hand-over, and of another lock in between.
    grow(http.take("a?session=r1&mode=shared&ttl=5m").await);
    grow(http.take("a?session=r2&mode=shared&ttl=5m").await);
    for reader in ["r1", "r2"] {
        http.release(&format!("a?session={reader}")).await;
    }
    grow(http.take("a?session=brief&ttl=1s").await);
    http.until_held_by("a", &[]).await;
    grow(http.take("other?session=me&ttl=5m").await);
    grow(http.take("a?session=me&ttl=5m").await);
    http.put("/v1/sessions/you?ttl=5m").await.assert_status(201);
    let handed = http.post("/v1/transfers/a?session=me&to=you").await.assert_status(200).json();
    grow(handed["token"].as_u64().expect("a token"));
    // Kills and restarts the node.
    cluster.node(1).kill();
    cluster.node(1).start();
    cluster.wait_ready().await;
    http.release("a?session=you").await;
    grow(http.take("a?session=me&ttl=5m").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_44e_a_grant_that_was_acknowledged_is_on_the_disks_of_a_majority() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    let token = http.take("a?session=me&ttl=5m").await;
    // Kills all nodes immediately, without a shutdown.
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_ready().await;
    assert_eq!(http.lock("a").await["holders"][0]["token"], token);
    // Without a majority no acquire is acknowledged.
    let leader = cluster.wait_ready().await;
    cluster.others(leader).for_each(holdfast_lab::Node::kill);
    let refused = cluster.node(leader).http.put("/v1/locks/b?session=me").await;
    assert_eq!(refused.status, 503, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_44f_one_answer_says_who_holds_it_how_often_and_for_how_long_and_an_operator_may_end_it()
 {
    let (_cluster, http) = one().await;
    let free = http.lock("a").await;
    assert_eq!((&free["held"], &free["holders"]), (&json!(false), &json!([])));
    let token = http.take("a?session=me&owner=import&ttl=1m&attempt=1").await;
    http.take("a?session=me&owner=import&attempt=2").await;
    let _waiting = http.queue_up("a?session=you");
    http.until_waiters("a", 1).await;
    let lock = http.lock("a").await;
    let holder = &lock["holders"][0];
    assert_eq!((&lock["held"], &lock["waiters"]), (&json!(true), &json!(1)));
    assert_eq!(
        [&holder["session"], &holder["owner"], &holder["token"], &holder["hold_count"]],
        [&json!("me"), &json!("import"), &json!(token), &json!(2)]
    );
    let left = holder["expires_in_ms"].as_u64().expect("what is left");
    assert!((1..=60_000).contains(&left), "{lock}");
    http.post("/v1/force-releases/a")
        .await
        .assert_code(400, "invalid-argument")
        .assert_body_contains("reason");
    let broken = http.post(&format!("/v1/force-releases/a?reason=stuck&token={token}")).await;
    assert_eq!(broken.assert_status(200).json()["ended"], 1);
    http.until_held_by("a", &["you"]).await;
}

/// The age of a hold counts the log's time, which jumps over a stop of all nodes; at most 1 s is missing.
#[tokio::test(flavor = "multi_thread")]
async fn row_44f_the_age_of_a_hold_survives_a_restart_of_all_nodes() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.take("a?session=me&ttl=5m").await;
    let age = async || http.lock("a").await["holders"][0]["held_for_ms"].as_u64().unwrap_or(0);
    until("a hold of some age", DEADLINE, || async { age().await >= 3_000 }).await;
    let (taken_for, stopped) = (age().await, Instant::now());
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_ready().await;
    until("the log's time to jump over the stop", DEADLINE, || async {
        // Without the jump, the age lacks at least the 3 s before the stop for ever.
        let passed = u64::try_from(stopped.elapsed().as_millis()).expect("a short time");
        age().await + 1_500 >= taken_for + passed
    })
    .await;
}

/// Followers answer reads, through the leader unless the caller allows stale reads; only the leader writes, and counts.
#[tokio::test(flavor = "multi_thread")]
async fn row_66_only_the_leader_writes_and_followers_read_for_those_who_ask_for_it() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let mut leading = Vec::new();
    for node in cluster.nodes() {
        if node.http.metric_value("holdfast_is_leader").await == 1 {
            leading.push(node.id);
        }
    }
    assert_eq!(leading, [leader]);
    let follower = cluster.others(leader).next().expect("a follower");
    let written = async |http: &Http| http.metric_value("holdfast_applied_revision").await;
    let before = written(&cluster.node(leader).http).await;
    for number in 0..10 {
        follower.http.take(&format!("w/{number}?session=me&ttl=5m")).await;
    }
    until("the rate of writes to be seen", DEADLINE, || async {
        written(&cluster.node(leader).http).await >= before + 10
    })
    .await;
    let fresh = follower.http.get("/v1/locks/w/9").await;
    assert_eq!(
        fresh.assert_status(200).header("holdfast-applied-revision"),
        None,
        "not stale unless asked"
    );
    until("the follower to have heard", DEADLINE, || async {
        let stale = follower.http.get("/v1/locks/w/9?stale").await;
        assert!(stale.assert_status(200).header("holdfast-leader-contact-ms").is_some(), "{stale}");
        stale.json()["held"] == true
    })
    .await;
    // Without a leader, only stale reads succeed.
    cluster.nodes().iter().filter(|node| node.id != follower.id).for_each(holdfast_lab::Node::kill);
    let stale = follower.http.get("/v1/locks/w/9?stale").await;
    assert_eq!(stale.assert_status(200).json()["held"], true);
    follower.http.get("/v1/locks/w/9").await.assert_status(503);
}

/// The steps of the ZooKeeper lock recipe (create, list, delete) beside the single HTTP call.
#[tokio::test(flavor = "multi_thread")]
async fn row_68_the_sequential_recipe_and_the_one_call_stand_in_one_order() {
    let (cluster, http) = one().await;
    let address = cluster.node(1).zookeeper;
    let mut first = ZkClient::open(address, 40_000).await;
    let mut last = ZkClient::open(address, 40_000).await;
    for path in ["/locks", "/locks/orders"] {
        let error = first.error(create(path, 4)).await;
        assert!([0, -110].contains(&error), "{path}: error {error}");
    }
    let mine = first.create("/locks/orders/lock-", 3).await;
    let over_http = http.queue_up("orders?session=http");
    http.until_waiters("orders", 1).await;
    let theirs = last.create("/locks/orders/lock-", 3).await;
    // The lowest number holds; the others follow in order.
    let mut names = last.children("/locks/orders").await;
    names.sort_unstable_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    assert_eq!(names.len(), 3);
    assert!(mine.ends_with(&names[0]) && theirs.ends_with(&names[2]), "{names:?}");
    assert_eq!(http.queue("orders").await[0], "http");
    last.done(exists(&format!("/locks/orders/{}", names[1]), true)).await;
    first.done(delete(&mine, -1)).await;
    over_http.await.expect("a task").assert_status(200);
    http.release("orders?session=http").await;
    let woken = (WatchEventType::Deleted, format!("/locks/orders/{}", names[1]));
    assert_eq!(last.event().await, woken);
    last.sync().await;
    let left = last.children("/locks/orders").await;
    assert!(left.len() == 1 && theirs.ends_with(&left[0]), "{left:?}: it holds");
    assert!(http.holders("orders").await[0].starts_with("zk-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn row_75_a_holder_is_asked_with_a_deadline_and_revoked_behind_a_higher_floor() {
    let (_cluster, http) = one().await;
    let token = http.take("a?session=me&ttl=5m").await;
    let quiet = http.post("/v1/sessions/me/keepalive?wait=0s").await.json();
    let since = quiet["revision"].as_u64().expect("a revision");
    // A release request without revoke takes nothing away.
    let asked = http.post("/v1/release-requests/a?reason=patch+day&deadline=1s").await;
    assert_eq!(asked.assert_status(200).json()["asked"], 1);
    let news = http.post(&format!("/v1/sessions/me/keepalive?wait=20s&since={since}")).await.json();
    let event = &news["events"][0];
    assert_eq!(
        [&event["kind"], &event["token"], &event["reason"]],
        [&json!("release-requested"), &json!(token), &json!("patch day")],
        "{news}"
    );
    let next = http.queue_up("a?session=next");
    http.until_waiters("a", 1).await;
    // A release request with revoke ends the hold at the deadline.
    http.post("/v1/release-requests/a?reason=patch+day&deadline=1s&revoke")
        .await
        .assert_status(200);
    let granted = next.await.expect("a task");
    assert!(granted.assert_status(200).token() > token);
    let floor = http.lock("a").await["min_valid_token"].as_u64();
    assert_eq!(floor, Some(granted.token()), "the old token is below the floor");
    let stale = http.get(&format!("/v1/fence/a?token={token}&mode=monotonic")).await;
    stale.assert_code(412, "stale-token");
    let history = http.get("/v1/history/a").await.json();
    assert_eq!(history["holds"][1]["cause"], "revoked", "{history}");
}
