//! Elections: campaigning, values, reading, observing, resigning.

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{Reply, call_with};
use crate::node::Node;
use crate::stream::Events;

/// Campaigns with a value in the body.
async fn campaign(node: &Node, target: &str, value: &str) -> Reply {
    call_with(node.address, "PUT", target, &[], value).await
}

/// Campaigns in the background, and waits until the election has this many candidates.
async fn campaign_in_background(
    node: &Node,
    target: &'static str,
    total: u64,
) -> JoinHandle<Reply> {
    let begun = node.begin("PUT", target);
    let name = target.split(['?']).next().unwrap();
    let waits = |reply: &Reply| reply.json()["candidates_total"] == total;
    node.until("the candidate", name, waits).await;
    begun
}

#[tokio::test]
async fn row_81b_the_leader_has_a_value_and_a_token_and_the_first_candidate_succeeds_it() {
    let node = Node::start().await;
    let vacant = node.call("GET", "/v1/elections/db").await.json();
    assert_eq!((&vacant["leader"], &vacant["candidates"]), (&Value::Null, &json!([])));
    let elected = campaign(&node, "/v1/elections/db?session=db1&ttl=10s", "10.0.0.7:5432").await;
    let token = elected.json()["token"].as_u64().unwrap();
    assert_eq!(elected.header("fencing-token"), Some(token.to_string().as_str()));
    assert_eq!(
        (&elected.json()["election"], &elected.json()["value"]),
        (&json!("db"), &json!("10.0.0.7:5432"))
    );
    let second =
        campaign_in_background(&node, "/v1/elections/db?session=db2&wait=60s&value=10.0.0.8", 1)
            .await;
    let third =
        campaign_in_background(&node, "/v1/elections/db?session=db3&wait=60s&value=10.0.0.9", 2)
            .await;
    let seen = node.call("GET", "/v1/elections/db").await.json();
    let leader = json!({ "session": "db1", "token": token, "value": "10.0.0.7:5432" });
    assert_eq!(seen["leader"], leader);
    let values: Vec<&Value> =
        seen["candidates"].as_array().unwrap().iter().map(|c| &c["value"]).collect();
    assert_eq!(values, ["10.0.0.8", "10.0.0.9"]);
    assert_eq!(node.call("DELETE", "/v1/elections/db?session=db1").await.status, 204);
    let next = second.await.unwrap().json();
    assert!(next["token"].as_u64().unwrap() > token, "{next}");
    // After its `DELETE`, db3 does not lead. The token of the previous leader is stale.
    assert_eq!(node.call("DELETE", "/v1/elections/db?session=db3").await.status, 204);
    assert_ne!(third.await.unwrap().status, 200);
    node.call("GET", &format!("/v1/fence/elections/db?token={token}"))
        .await
        .problem(412, "stale-token");
    let text = [("Accept", "text/plain")];
    let value = call_with(node.address, "GET", "/v1/elections/db", &text, "").await;
    assert_eq!((value.status, value.body.as_str()), (200, "10.0.0.8\n"));
}

#[tokio::test]
async fn the_lock_calls_work_on_an_election() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/elections/a/b?session=me&value=here").await;
    let seen = node.call("GET", "/v1/elections/a/b").await.json();
    assert_eq!(
        (&seen["leader"]["value"], &seen["leader"]["token"]),
        (&json!("here"), &json!(token))
    );
    node.call("PUT", "/v1/elections/a/b?session=you").await.problem(423, "lock-busy");
    node.call("PUT", "/v1/sessions/you").await;
    assert_eq!(
        node.call("POST", "/v1/transfers/elections/a/b?session=me&to=you").await.status,
        200
    );
    let handed = node.call("GET", "/v1/elections/a/b").await.json();
    assert_eq!(handed["leader"]["session"], "you");
    assert_eq!(
        handed["leader"].get("value"),
        None,
        "a hand-over keeps no value of the previous leader"
    );
    node.call("DELETE", "/v1/elections/a/b?session=me").await;
    assert_eq!(node.call("DELETE", "/v1/elections/a/b?session=you").await.status, 204);
    assert_eq!(node.call("GET", "/v1/locks/elections/a/b").await.json()["held"], false);
}

#[tokio::test]
async fn a_rejected_candidate_gets_the_current_leader() {
    let node = Node::start().await;
    campaign(&node, "/v1/elections/db?session=db1", "10.0.0.7").await;
    let busy =
        campaign(&node, "/v1/elections/db?session=db2", "10.0.0.8").await.problem(423, "lock-busy");
    assert_eq!(
        (&busy["holder"]["session"], &busy["holder"]["value"]),
        (&json!("db1"), &json!("10.0.0.7"))
    );
    let late = campaign(&node, "/v1/elections/db?session=db2&wait=50ms", "10.0.0.8").await;
    late.problem(423, "wait-timeout");
    assert_eq!(node.call("GET", "/v1/elections/db").await.json()["candidates_total"], 0);
}

#[tokio::test]
async fn a_repeated_campaign_renews_and_changes_the_value_under_the_same_token() {
    let node = Node::start().await;
    let target = "/v1/elections/db?session=db1";
    let first = campaign(&node, target, "old").await.json();
    let plain = campaign(&node, target, "other").await.problem(409, "value-conflict");
    assert!(plain["hint"].as_str().unwrap().contains("change=N"), "{plain}");
    for (value, shown) in [("", "old"), ("new", "new"), ("", "new")] {
        let change = if value.is_empty() { "" } else { "&change=0" };
        let again = campaign(&node, &format!("{target}{change}"), value).await.json();
        assert_eq!((&again["token"], &again["renewed"]), (&first["token"], &json!(true)));
        assert_eq!(again["value"], shown);
    }
    let waiting =
        campaign_in_background(&node, "/v1/elections/db?session=db2&wait=60s&value=a", 1).await;
    let again = node.begin("PUT", "/v1/elections/db?session=db2&wait=60s&change=0&value=b");
    let shows = |reply: &Reply| reply.json()["candidates"][0]["value"] == "b";
    node.until("the other value", "/v1/elections/db", shows).await;
    assert_eq!(node.call("GET", "/v1/elections/db").await.json()["candidates_total"], 1);
    node.call("DELETE", target).await;
    for led in [waiting, again] {
        assert_eq!(led.await.unwrap().json()["value"], "b");
    }
}

#[tokio::test]
async fn invalid_election_calls_are_rejected_with_the_parameter_or_a_hint() {
    let node = Node::start().await;
    let asked = async |target: &str, body: &str| campaign(&node, target, body).await;
    let problem = asked("/v1/elections/db?vale=x", "").await.problem(400, "invalid-argument");
    assert!(problem["hint"].as_str().unwrap().starts_with("did you mean 'value'?"), "{problem}");
    let problem = asked("/v1/elections/db?value=x", "y").await.problem(400, "invalid-argument");
    assert_eq!(problem["parameter"], "value");
    asked("/v1/elections/db", &"x".repeat(4_097)).await.problem(413, "payload-too-large");
    assert_eq!(asked("/v1/elections/db", &"x".repeat(4_096)).await.status, 200);
    asked("/v1/elections/", "").await.problem(400, "bad-name");
    let long = format!("/v1/elections/{}", "x".repeat(512));
    asked(&long, "").await.problem(400, "bad-name");
    asked("/v1/elections/db?ttl=10", "").await.problem(400, "bad-duration");
    let problem = node.call("DELETE", "/v1/elections/db").await.problem(400, "invalid-argument");
    assert_eq!(problem["parameter"], "session");
    node.call("DELETE", "/v1/elections/db?session=unknown").await.problem(410, "session-expired");
    node.call("POST", "/v1/elections/db").await.problem(405, "method-not-allowed");
    node.call("GET", "/v1/elections/db?since=1").await.problem(400, "invalid-argument");
}

/// Returns the name, session, value and id of the next event.
async fn next_change(events: &mut Events) -> (String, Value, Value, u64) {
    let event = events.next_change().await;
    let leader = &event.data["leader"];
    (
        event.name.clone(),
        leader["session"].clone(),
        leader["value"].clone(),
        event.id.unwrap_or_default(),
    )
}

#[tokio::test]
async fn row_81b_an_observer_gets_every_change_of_leader_and_a_succession_is_one_event() {
    let node = Node::start().await;
    let mut events = Events::open(node.address, "/v1/elections/db", None).await;
    assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
    assert_eq!(next_change(&mut events).await.0, "vacant");
    campaign(&node, "/v1/elections/db?session=db1", "a").await;
    let (name, session, value, begun) = next_change(&mut events).await;
    assert_eq!((name.as_str(), &session, &value), ("leader", &json!("db1"), &json!("a")));
    campaign(&node, "/v1/elections/db?session=db1&change=0", "b").await;
    let (name, session, value, _) = next_change(&mut events).await;
    assert_eq!((name.as_str(), &session, &value), ("leader", &json!("db1"), &json!("b")));
    let next =
        campaign_in_background(&node, "/v1/elections/db?session=db2&wait=60s&value=c", 1).await;
    node.call("DELETE", "/v1/elections/db?session=db1").await;
    let succession = next_change(&mut events).await;
    assert_eq!(
        (succession.0.as_str(), &succession.1, &succession.2),
        ("leader", &json!("db2"), &json!("c"))
    );
    next.await.unwrap();
    node.call("DELETE", "/v1/elections/db?session=db2").await;
    let last = next_change(&mut events).await;
    assert_eq!(last.0, "vacant");
    // A resumed stream has each change after the id exactly once.
    let mut resumed = Events::open(node.address, "/v1/elections/db", Some(begun)).await;
    let mut values = Vec::new();
    for _ in 0..3 {
        let (name, _, value, id) = next_change(&mut resumed).await;
        values.push((name, value));
        assert!(id > begun);
    }
    let leader = |value: &str| ("leader".to_owned(), json!(value));
    assert_eq!(values, [leader("b"), leader("c"), ("vacant".to_owned(), Value::Null)]);
    let mut late = Events::open(node.address, "/v1/elections/db", Some(last.3)).await;
    campaign(&node, "/v1/elections/db?session=db3", "d").await;
    assert_eq!(next_change(&mut late).await.2, "d");
}

#[tokio::test]
async fn other_elections_and_waiting_candidates_cause_no_event() {
    let node = Node::start().await;
    campaign(&node, "/v1/elections/db?session=db1", "a").await;
    let mut events = Events::open(node.address, "/v1/elections/db", None).await;
    assert_eq!(next_change(&mut events).await.2, "a");
    campaign(&node, "/v1/elections/db/eu?session=db9", "other").await;
    let waits =
        campaign_in_background(&node, "/v1/elections/db?session=db2&wait=60s&value=b", 1).await;
    node.call("DELETE", "/v1/elections/db?session=db2").await;
    drop(waits);
    campaign(&node, "/v1/elections/db?session=db1&change=0", "c").await;
    assert_eq!(next_change(&mut events).await.2, "c");
}

#[tokio::test]
async fn an_observer_that_misses_dropped_changes_gets_a_gap_and_then_the_current_leader() {
    let service = ServiceConfig { history_events_max: 8, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), service).await;
    campaign(&node, "/v1/elections/db?session=db1", "a").await;
    for n in 0..40 {
        node.call("PUT", &format!("/v1/tree/n{n}")).await;
    }
    let mut events = Events::open(node.address, "/v1/elections/db", Some(2)).await;
    let gap = events.next_change().await;
    assert_eq!((gap.name.as_str(), gap.id), ("gap", None));
    let (name, session, value, id) = next_change(&mut events).await;
    assert_eq!((name.as_str(), &session, &value), ("leader", &json!("db1"), &json!("a")));
    assert_eq!(gap.data["until"], id);
    campaign(&node, "/v1/elections/db?session=db1&change=0", "b").await;
    assert_eq!(next_change(&mut events).await.2, "b");
}

#[tokio::test]
async fn a_node_shutdown_ends_observers_with_a_reconnect_event() {
    let node = Node::start().await;
    let mut events = Events::open(node.address, "/v1/elections/db", None).await;
    assert_eq!(next_change(&mut events).await.0, "vacant");
    node.stop().await;
    let last = events.next_change().await;
    assert_eq!((last.name.as_str(), &last.data["code"]), ("reconnect", &json!("shutting-down")));
    assert_eq!(events.next().await, None);
}
