//! Sharded locks: assignment of shards, rejections, and their views.

use serde_json::{Value, json};

use crate::client::{call, call_with};
use crate::node::Node;
use crate::stream::Events;

fn name_and_shard(grant: &Value) -> (&Value, &Value) {
    (&grant["lock"], &grant["shard"])
}

#[tokio::test]
async fn row_30_an_acquire_gets_a_free_shard_and_a_repeated_acquire_gets_the_same_shard() {
    let node = Node::start().await;
    let target = |who: &str| format!("/v1/locks/stock?session={who}&shards=2");
    let first = node.call("PUT", &target("a")).await.json();
    assert_eq!(name_and_shard(&first), (&json!("stock/0"), &json!(0)));
    let second = node.call("PUT", &target("b")).await.json();
    assert_eq!(name_and_shard(&second), (&json!("stock/1"), &json!(1)));
    for again in [target("a"), "/v1/locks/stock?session=a&shard=any".to_owned()] {
        let again = node.call("PUT", &again).await.json();
        assert_eq!(
            (name_and_shard(&again), &again["token"]),
            (name_and_shard(&first), &first["token"])
        );
        assert_eq!(again["renewed"], true);
    }
    let busy = node.call("PUT", &target("c")).await.problem(423, "lock-busy");
    assert_eq!(busy["holder"]["session"], "a");
    let waiting = node.begin("PUT", "/v1/locks/stock?session=c&shards=2&wait=60s");
    node.until_waiters("stock/0", 1).await;
    let other = node.begin("PUT", "/v1/locks/stock?session=d&shards=2&wait=60s");
    node.until_waiters("stock/1", 1).await;
    // A release names the sharded lock or the shard.
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=a").await.status, 204);
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=a").await.status, 204);
    assert_eq!(node.call("DELETE", "/v1/locks/stock/1?session=b").await.status, 204);
    let grant = waiting.await.unwrap().json();
    assert_eq!(name_and_shard(&grant), (&json!("stock/0"), &json!(0)));
    assert!(grant["token"].as_u64() > second["token"].as_u64(), "{grant}");
    assert_eq!(name_and_shard(&other.await.unwrap().json()), (&json!("stock/1"), &json!(1)));
}

/// Such a call of an operator once reported 0 holds, while a shard was held.
#[tokio::test]
async fn a_sharded_lock_is_asked_and_force_released_by_shard_and_its_holder_transfers_its_own() {
    let node = Node::start().await;
    node.take("/v1/locks/stock?session=a&shards=2").await;
    assert_eq!(node.call("PUT", "/v1/sessions/b").await.status, 201);
    for target in [
        "/v1/force-releases/stock?reason=stuck",
        "/v1/release-requests/stock",
        "/v1/transfers/stock?session=b&to=a",
    ] {
        let problem = node.call("POST", target).await.problem(409, "shards-mismatch");
        assert_eq!(problem["shards"], 2, "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("NAME/0"), "{problem}");
    }
    let transfer = node.call("POST", "/v1/transfers/stock?session=a&to=b").await;
    assert_eq!(transfer.status, 200, "{transfer:?}");
    let ended = node.call("POST", "/v1/force-releases/stock/0?reason=stuck").await.json();
    assert_eq!(ended["ended"], 1);
}

/// The holders have its shards, so an answer about one lock would be wrong.
#[tokio::test]
async fn the_name_of_a_sharded_lock_has_no_token_no_history_and_no_leader_of_its_own() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/elections/db?session=a&shards=2").await;
    for target in [
        format!("/v1/fence/elections/db?token={token}"),
        format!("/v1/fence/elections/db?token={token}&mode=monotonic&stale"),
        "/v1/history/elections/db".to_owned(),
        "/v1/elections/db".to_owned(),
    ] {
        let problem = node.call("GET", &target).await.problem(409, "shards-mismatch");
        assert_eq!((&problem["shards"], &problem["lock"]), (&json!(2), &json!("elections/db")));
        assert!(problem["hint"].as_str().unwrap().contains("NAME/0"), "{problem}");
    }
    let resumed = [("Accept", "text/event-stream"), ("Last-Event-ID", "1")];
    let stream = call_with(node.address, "GET", "/v1/elections/db", &resumed, "").await;
    stream.problem(409, "shards-mismatch");
    let holds = |lock: &str| format!(r#"{{"if":[{{"lock":"{lock}","holds":{token}}}],"then":[]}}"#);
    let problem = node.call_json("POST", "/v1/txn", &holds("elections/db")).await;
    assert_eq!(problem.problem(409, "shards-mismatch")["lock"], "elections/db");
    let shard = node.call_json("POST", "/v1/txn", &holds("elections/db/0")).await;
    assert_eq!(shard.json()["succeeded"], true);
    let fence = node.call("GET", &format!("/v1/fence/elections/db/0?token={token}")).await;
    assert_eq!(fence.json()["valid"], true);
    let history = node.call("GET", "/v1/history/elections/db/0").await.json();
    assert_eq!(history["holds"][0]["session"], "a");
}

#[tokio::test]
async fn row_30_a_waiter_without_a_named_shard_gets_the_first_that_becomes_free() {
    let node = Node::start().await;
    for session in ["a", "b"] {
        node.take(&format!("/v1/locks/stock?session={session}&shards=2")).await;
    }
    let waiting = node.begin("PUT", "/v1/locks/stock?session=c&shards=2&wait=60s");
    node.until_waiters("stock/0", 1).await;
    let named = node.begin("PUT", "/v1/locks/stock?session=d&shards=2&shard=0&wait=60s");
    node.until_waiters("stock/0", 2).await;
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=b").await.status, 204);
    let grant = waiting.await.unwrap().json();
    assert_eq!(name_and_shard(&grant), (&json!("stock/1"), &json!(1)));
    let again = node.call("PUT", "/v1/locks/stock?session=c&shards=2").await.json();
    assert_eq!((&again["token"], &again["renewed"]), (&grant["token"], &json!(true)));
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=c").await.status, 204);
    assert_eq!(
        node.call("GET", "/v1/locks/stock/0").await.json()["waiters"],
        1,
        "d asked for shard 0"
    );
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=a").await.status, 204);
    assert_eq!(name_and_shard(&named.await.unwrap().json()), (&json!("stock/0"), &json!(0)));
    // A stream of positions ends with the grant of the other shard.
    for session in ["e", "f"] {
        let take = format!("/v1/locks/pair?session={session}&shards=2");
        node.take(&take).await;
    }
    let target = "/v1/locks/pair?session=g&shards=2&wait=60s";
    let mut stream = Events::begin(node.address, "PUT", target, None).await;
    assert_eq!(stream.expect("queued").await["lock"], "pair/0");
    node.call("DELETE", "/v1/locks/pair?session=f").await;
    assert_eq!(name_and_shard(&stream.expect("granted").await), (&json!("pair/1"), &json!(1)));
}

#[tokio::test]
async fn concurrent_callers_get_a_different_shard_each() {
    let node = Node::start().await;
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let address = node.address;
            tokio::spawn(async move {
                let target = format!("/v1/locks/stock?session=s{n}&shards=16");
                call(address, "PUT", &target).await.json()["shard"].as_u64()
            })
        })
        .collect();
    let mut shards = Vec::new();
    for call in calls {
        shards.push(call.await.unwrap().unwrap());
    }
    shards.sort_unstable();
    assert_eq!(shards, (0..16).collect::<Vec<_>>());
}

#[tokio::test]
async fn calls_that_contradict_the_number_of_shards_are_rejected_with_that_number() {
    let node = Node::start().await;
    node.call("PUT", "/v1/locks/stock?session=a&shard=any").await.problem(409, "shards-mismatch");
    node.take("/v1/locks/stock?session=a&shards=8&shard=3").await;
    for query in ["shards=4", "shards=9&shard=0", "shard=8", "mode=shared", "limit=2"] {
        let reply = node.call("PUT", &format!("/v1/locks/stock?session=b&{query}")).await;
        let problem = reply.problem(409, "shards-mismatch");
        assert_eq!(problem["shards"], 8, "{query}");
        assert_eq!(problem["detail"], "the lock has 8 shards, numbered from 0 to 7", "{query}");
    }
    let multi_lock = node.call("POST", "/v1/locks?name=stock&name=z&session=b").await;
    multi_lock.problem(409, "shards-mismatch");
    assert_eq!(node.call("PUT", "/v1/sessions/b").await.status, 201);
    let created =
        node.call("POST", "/v1/tree/locks/stock?session=b&ephemeral&sequential&name=lock-").await;
    created.problem(409, "shards-mismatch");
    let problem = node.call("PUT", "/v1/locks/stock?session=a&shards=8&shard=4").await;
    let problem = problem.problem(409, "in-use");
    assert!(problem["detail"].as_str().unwrap().contains("'stock/3'"), "{problem}");
    node.take("/v1/locks/stock?session=a&owner=other&shards=8&shard=4").await;
    for query in ["shards=0", "shards=1025", "shard=some", "shards=2&shard=2"] {
        let reply = node.call("PUT", &format!("/v1/locks/stock?session=b&{query}")).await;
        reply.problem(400, "invalid-argument");
    }
    node.take("/v1/locks/one?session=a").await;
    let problem = node.call("PUT", "/v1/locks/one?session=b&shards=2").await;
    assert!(problem.problem(409, "shards-mismatch").get("shards").is_none());
}

#[tokio::test]
async fn the_number_of_shards_can_change_only_while_no_shard_is_in_use() {
    let node = Node::start().await;
    let rules = node.call("PATCH", "/v1/policies/stock?shards=2").await.json();
    assert_eq!(rules["shards"], 2);
    node.take("/v1/locks/stock?session=a&shard=any").await;
    node.call("PATCH", "/v1/policies/stock?shards=3").await.problem(409, "in-use");
    node.call("PATCH", "/v1/policies/stock?shards=none").await.problem(409, "in-use");
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=a").await.status, 204);
    let rules = node.call("PATCH", "/v1/policies/stock?shards=none").await.json();
    assert!(rules.get("shards").is_none(), "{rules}");
    node.take("/v1/locks/stock?session=a").await;
}

#[tokio::test]
async fn the_view_of_a_sharded_lock_shows_each_shard() {
    let node = Node::holding("/v1/locks/stock?session=a&shards=3&shard=1").await;
    let _waits = node.begin("PUT", "/v1/locks/stock?session=b&shard=1&wait=60s");
    node.until_waiters("stock/1", 1).await;
    for target in ["/v1/locks/stock", "/v1/locks/stock?stale"] {
        let shown = node.call("GET", target).await.json();
        let shards = shown["shards"].as_array().unwrap();
        assert_eq!((shards.len(), &shown["held"]), (3, &json!(false)), "{shown}");
        assert_eq!(shards[0], json!({ "shard": 0, "held": false, "waiters": 0 }));
        let second = (&shards[1]["session"], &shards[1]["held"], &shards[1]["waiters"]);
        assert_eq!(second, (&json!("a"), &json!(true), &json!(1)));
    }
    let one = node.call("GET", "/v1/locks/stock/1").await.json();
    assert!(one.get("shards").is_none() && one["held"] == true, "{one}");
}

#[tokio::test]
async fn a_wait_timeout_names_the_shard() {
    let node = Node::holding("/v1/locks/stock?session=a&shards=1").await;
    let reply = node.call("PUT", "/v1/locks/stock?session=b&shards=1&wait=50ms").await;
    assert_eq!(reply.problem(423, "wait-timeout")["lock"], "stock/0");
    let lock = node.call("GET", "/v1/locks/stock/0").await.json();
    assert_eq!((&lock["waiters"], &lock["holders"][0]["session"]), (&json!(0), &json!("a")));
}

#[tokio::test]
async fn a_stream_names_the_shard_that_its_caller_waits_for_and_holds() {
    let node = Node::holding("/v1/locks/stock?session=a&shards=1").await;
    let target = "/v1/locks/stock?shards=1&wait=60s&hold=connection";
    let mut events = Events::begin(node.address, "PUT", target, None).await;
    assert_eq!(events.expect("queued").await["lock"], "stock/0");
    assert_eq!(node.call("DELETE", "/v1/locks/stock?session=a").await.status, 204);
    assert_eq!(events.expect("granted").await["shard"], 0);
    let broken = node.call("POST", "/v1/force-releases/stock/0?reason=test").await;
    assert_eq!(broken.json()["ended"], 1);
    let lost = events.expect("lost").await;
    assert_eq!((&lost["lock"], &lost["cause"]), (&json!("stock/0"), &json!("force-released")));
}
