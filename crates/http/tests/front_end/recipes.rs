//! Latches, barriers, double barriers and counters over HTTP, on one node and on three.

use serde_json::json;

use crate::client::call_with;
use crate::node::Node;

#[tokio::test]
async fn a_latch_counts_each_key_once_and_wakes_all_waiters_when_it_opens() {
    let nodes = Node::cluster().await;
    let [leader, first, second] = &nodes[..] else { panic!("three nodes") };
    first.call("GET", "/v1/latches/built").await.problem(404, "not-found");
    assert_eq!(first.call("PUT", "/v1/latches/built?count=2").await.status, 201);
    assert_eq!(second.call("PUT", "/v1/latches/built?count=2").await.status, 200);
    let other = leader.call("PUT", "/v1/latches/built?count=3").await;
    assert_eq!(other.problem(409, "count-mismatch")["count"], 2);
    let early = first.call("GET", "/v1/latches/built").await.problem(423, "not-yet");
    assert_eq!((&early["left"], &early["retryable"]), (&json!(2), &json!(true)));
    let waiting =
        [first, second, leader].map(|node| node.begin("GET", "/v1/latches/built?wait=30s"));
    let down = "/v1/latches/built?key=a";
    let answer = first.call("POST", down).await;
    for node in &nodes {
        assert_eq!(
            node.call("POST", down).await.body,
            answer.body,
            "a repeated key gets the same reply"
        );
    }
    assert_eq!(answer.json(), json!({"latch": "built", "key": "a", "left": 1, "counted": true}));
    let last = second.call("POST", "/v1/latches/built?key=b").await;
    assert_eq!(last.json()["left"], 0);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().json()["open"], true);
    }
    let late = first.call("POST", "/v1/latches/built?key=c").await;
    assert_eq!((&late.json()["left"], &late.json()["counted"]), (&json!(0), &json!(false)));
    first.call("POST", "/v1/latches/built").await.problem(400, "invalid-argument");
    for _ in 0..2 {
        assert_eq!(second.call("DELETE", "/v1/latches/built").await.status, 204);
    }
}

#[tokio::test]
async fn the_deletion_of_a_latch_ends_its_waits_with_not_found() {
    let node = Node::start().await;
    assert_eq!(node.call("PUT", "/v1/latches/a?count=1").await.status, 201);
    let waiting = node.begin("GET", "/v1/latches/a?wait=30s");
    node.until_parked(1).await;
    assert_eq!(node.call("DELETE", "/v1/latches/a").await.status, 204);
    waiting.await.unwrap().problem(404, "not-found");
}

#[tokio::test]
async fn a_promised_key_is_counted_when_the_session_ends() {
    let node = Node::start().await;
    assert_eq!(node.call("PUT", "/v1/latches/a?count=1").await.status, 201);
    let promise = "/v1/latches/a?key=w1&session=w1&on_death=count";
    node.call("POST", promise).await.problem(410, "session-expired");
    assert_eq!(node.call("PUT", "/v1/sessions/w1?ttl=20s").await.status, 201);
    let promised = node.call("POST", promise).await.json();
    assert_eq!((&promised["left"], &promised["counted"]), (&json!(1), &json!(false)));
    let waiting = node.begin("GET", "/v1/latches/a?wait=30s");
    assert_eq!(node.call("DELETE", "/v1/sessions/w1").await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn the_last_arrival_opens_a_barrier_for_the_waiters_on_all_nodes() {
    let nodes = Node::cluster().await;
    let arrive = "/v1/barriers/go?parties=3&session=";
    let early = nodes[0].call("PUT", &format!("{arrive}w0")).await.problem(423, "not-yet");
    assert_eq!((&early["arrived"], &early["parties"]), (&json!(0), &json!(3)));
    let calls = ["w1", "w2", "w3"].map(|who| format!("{arrive}{who}&wait=30s&request=1"));
    let begin = |(node, call): (&Node, String)| {
        let address = node.address;
        tokio::spawn(async move { call_with(address, "PUT", &call, &[], "").await })
    };
    let waiting: Vec<_> = nodes.iter().zip(calls.clone()).map(begin).collect();
    let mut indexes = Vec::new();
    let mut answers = Vec::new();
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        indexes.push(answer.json()["index"].as_u64().unwrap());
        answers.push(answer);
    }
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1, 2]);
    let generation = &answers[0].json()["generation"];
    for (call, answer) in calls.iter().zip(&answers) {
        assert_eq!(&answer.json()["generation"], generation);
        let again = nodes[0].call("PUT", call).await;
        assert_eq!(again.body, answer.body, "a retry gets the reply of the first arrival");
    }
    assert_eq!(nodes[1].call("GET", "/v1/barriers/go").await.json()["arrived"], json!([]));
}

#[tokio::test]
async fn a_session_that_leaves_or_times_out_breaks_the_barrier_for_all_others() {
    let node = Node::start().await;
    let wait = "/v1/barriers/go?parties=3&session=w1&wait=30s&request=1";
    let waiting = node.begin("PUT", wait);
    node.until_arrived("/v1/barriers/go", 1).await;
    let second = node.begin("PUT", "/v1/barriers/go?parties=3&session=w2&wait=30s");
    node.until_arrived("/v1/barriers/go", 2).await;
    let mismatch = node.call("PUT", "/v1/barriers/go?parties=2&session=w3&wait=1s").await;
    assert_eq!(mismatch.problem(409, "count-mismatch")["parties"], 3);
    assert_eq!(node.call("DELETE", "/v1/barriers/go?session=w2").await.status, 204);
    for reply in [waiting.await.unwrap(), second.await.unwrap(), node.call("PUT", wait).await] {
        let broken = reply.problem(409, "barrier-broken");
        assert_eq!((&broken["session"], &broken["cause"]), (&json!("w2"), &json!("left")));
    }
    let first = node.begin("PUT", "/v1/barriers/go?parties=3&session=w1&wait=30s");
    node.until_arrived("/v1/barriers/go", 1).await;
    let short = node.call("PUT", "/v1/barriers/go?parties=3&session=w2&wait=50ms").await;
    assert!(short.problem(423, "not-yet")["waited_ms"].as_u64().unwrap() >= 50);
    let broken = first.await.unwrap().problem(409, "barrier-broken");
    assert_eq!((&broken["session"], &broken["cause"]), (&json!("w2"), &json!("timed-out")));
}

#[tokio::test]
async fn all_sessions_enter_a_double_barrier_together_and_leave_it_together() {
    let node = Node::start().await;
    let room = "/v1/double-barriers/room";
    let waiting = node.begin("PUT", "/v1/double-barriers/room?parties=2&session=w1&wait=30s");
    node.until_arrived(room, 1).await;
    let last = node.call("PUT", "/v1/double-barriers/room?parties=2&session=w2").await;
    let first = waiting.await.unwrap();
    assert_eq!(first.json()["generation"], last.json()["generation"]);
    assert_eq!((&first.json()["index"], &last.json()["index"]), (&json!(0), &json!(1)));
    let again = node.call("PUT", "/v1/double-barriers/room?parties=2&session=w1").await;
    assert_eq!(again.body, first.body);
    assert_eq!(node.call("GET", room).await.json()["inside"], json!(["w1", "w2"]));
    let left = node.call("DELETE", "/v1/double-barriers/room?session=w1").await;
    assert_eq!(left.problem(423, "not-yet")["inside"], 1);
    let leaving = node.begin("DELETE", "/v1/double-barriers/room?session=w1&wait=30s");
    node.until_parked(1).await;
    assert_eq!(
        node.call("DELETE", "/v1/sessions/w2").await.status,
        204,
        "the end of a session counts as leaving"
    );
    assert_eq!(leaving.await.unwrap().status, 200);
    let done = node.call("DELETE", "/v1/double-barriers/room?session=w1&wait=1s").await;
    assert_eq!(done.json(), json!({"barrier": "room", "left": false}));
}

/// The call holds its session, as every waiting call.
#[tokio::test]
async fn a_session_that_waits_to_leave_a_double_barrier_keeps_its_locks() {
    let node = Node::start().await;
    let waiting =
        node.begin("PUT", "/v1/double-barriers/room?parties=2&session=w1&wait=30s&ttl=1s");
    node.until_arrived("/v1/double-barriers/room", 1).await;
    node.take("/v1/locks/a?session=w1").await;
    let last = node.call("PUT", "/v1/double-barriers/room?parties=2&session=w2").await;
    assert_eq!((last.status, waiting.await.unwrap().status), (200, 200));
    let left = node.call("DELETE", "/v1/double-barriers/room?session=w1&wait=3s").await;
    left.problem(423, "not-yet");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], true);
}

#[tokio::test]
async fn a_counter_rejects_an_overflow_and_a_write_at_a_stale_version() {
    let node = Node::start().await;
    let hits = "/v1/counters/hits";
    assert_eq!(
        node.call("GET", hits).await.json(),
        json!({"counter": "hits", "version": 0, "value": 0})
    );
    let five = node.call("POST", "/v1/counters/hits?add=5").await;
    assert_eq!(five.json()["value"], 5);
    let tag = five.header("etag").unwrap().to_owned();
    let stale =
        call_with(node.address, "PUT", "/v1/counters/hits?value=1", &[("If-Match", "\"0\"")], "")
            .await;
    assert_eq!(stale.problem(412, "version-mismatch")["version"], five.json()["version"]);
    for (more, header) in [("", ("If-None-Match", "*")), ("&version=3", ("If-Match", "\"5\""))] {
        let target = format!("{hits}?value=0{more}");
        let refused = call_with(node.address, "PUT", &target, &[header], "").await;
        refused.problem(400, "invalid-argument");
    }
    let set = call_with(
        node.address,
        "PUT",
        "/v1/counters/hits?value=9223372036854775807",
        &[("If-Match", &tag)],
        "",
    )
    .await;
    assert_eq!(set.json()["value"], i64::MAX);
    let over = node.call("POST", "/v1/counters/hits?add=1").await.problem(409, "counter-overflow");
    assert_eq!(over["value"], i64::MAX);
    let text = call_with(node.address, "GET", hits, &[("Accept", "text/plain")], "").await;
    assert_eq!(text.body, "9223372036854775807\n");
    assert_eq!(node.call("PUT", "/v1/sessions/me?ttl=20s").await.status, 201);
    let once = "/v1/counters/orders?add=-2&session=me&request=1";
    let first = node.call("POST", once).await;
    assert_eq!(first.json()["value"], -2);
    assert_eq!(node.call("POST", once).await.body, first.body);
    node.call("POST", "/v1/counters/orders?add=1&request=2").await.problem(400, "invalid-argument");
    node.call("POST", "/v1/counters/orders?add=1.5").await.problem(400, "invalid-argument");
    assert_eq!(node.call("DELETE", hits).await.status, 204);
    assert_eq!(node.call("GET", hits).await.json()["value"], 0);
}

#[tokio::test]
async fn the_list_has_each_recipe_once_in_pages_of_any_size() {
    let node = Node::start().await;
    for (method, target) in [
        ("PUT", "/v1/latches/b/ready?count=3"),
        ("POST", "/v1/latches/b/ready?key=one"),
        ("POST", "/v1/counters/b/hits?add=5"),
        ("POST", "/v1/counters/a?add=-1"),
    ] {
        let answer = node.call(method, target).await;
        assert!(answer.status < 300, "{target}: {}", answer.body);
    }
    let waiting = node.begin("PUT", "/v1/barriers/b/start?parties=3&session=s1&wait=30s");
    node.until_arrived("/v1/barriers/b/start", 1).await;
    let all = node.call("GET", "/v1/recipes").await.json();
    let expected = json!([
        {"kind": "latch", "name": "b/ready", "count": 3, "left": 2},
        {"kind": "barrier", "name": "b/start", "parties": 3, "arrived": 1},
        {"kind": "counter", "name": "a", "value": -1},
        {"kind": "counter", "name": "b/hits", "value": 5},
    ]);
    assert_eq!(all["recipes"], expected);
    for limit in 1..5 {
        let (mut read, mut next) = (Vec::new(), String::new());
        loop {
            let target = format!("/v1/recipes?limit={limit}{next}");
            let page = node.call("GET", &target).await.json();
            read.extend(page["recipes"].as_array().unwrap().clone());
            let Some(token) = page["next_page_token"].as_str() else { break };
            next = format!("&page_token={}", token.replace('/', "%2F"));
        }
        assert_eq!(json!(read), expected, "pages of {limit}");
    }
    let counters = node.call("GET", "/v1/recipes?kind=counter&prefix=b%2F").await.json();
    assert_eq!(counters["recipes"], json!([expected[3]]));
    for (target, parameter) in
        [("/v1/recipes?kind=lock", "kind"), ("/v1/recipes?page_token=a", "page_token")]
    {
        let problem = node.call("GET", target).await.problem(400, "invalid-argument");
        assert_eq!(problem["parameter"], parameter);
    }
    waiting.abort();
}

#[tokio::test]
async fn invalid_recipe_calls_are_rejected_with_the_parameter_and_a_hint() {
    let node = Node::start().await;
    for (method, target, parameter) in [
        ("PUT", "/v1/latches/a", "count"),
        ("PUT", "/v1/latches/a?count=0", "count"),
        ("PUT", "/v1/barriers/a?session=me", "parties"),
        ("PUT", "/v1/barriers/a?parties=1001&session=me", "parties"),
        ("PUT", "/v1/barriers/a?parties=2", "session"),
        ("PUT", "/v1/double-barriers/a?parties=2", "session"),
        ("DELETE", "/v1/barriers/a", "session"),
        ("POST", "/v1/counters/a", "add"),
        ("PUT", "/v1/counters/a?value=x", "value"),
    ] {
        let problem = node.call(method, target).await.problem(400, "invalid-argument");
        assert_eq!(problem["parameter"], parameter, "{method} {target}");
        assert!(problem["hint"].is_string(), "{problem}");
    }
    node.call("PUT", "/v1/barriers/a?parties=2&session=me&wait=6m")
        .await
        .problem(400, "bad-duration");
    node.call("PUT", "/v1/latches/?count=1").await.problem(400, "bad-name");
    node.call("POST", "/v1/counters/a/../b?add=1").await.problem(400, "bad-name");
    node.call("PATCH", "/v1/counters/a").await.problem(405, "method-not-allowed");
    let near = node.call("GET", "/v1/latch/a").await.problem(404, "not-found");
    assert_eq!(near["nearest"], "/v1/latches/{name}");
}
