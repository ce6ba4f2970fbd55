//! Event streams of waiters and holders across a kill of the streaming node.

use holdfast_lab::{Cluster, DEADLINE, Events, Http, Method, Request, until, until_some};
use serde_json::Value;

async fn queue(http: &Http, target: &str) -> Events {
    http.stream(Method::PUT, target).await.expect("a stream")
}

async fn expect(events: &mut Events, name: &str) -> Value {
    let notice = events.next().await.unwrap_or_else(|| panic!("the end, not {name}"));
    assert_eq!(notice.name, name, "{notice:?}");
    notice.data
}

/// A ticket outlives the connection: the queue entry is in the log and belongs to the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_is_killed_goes_on_elsewhere_from_the_same_place() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let mut others = cluster.others(leader);
    let (dying, living) = (others.next().expect("a follower"), others.next().expect("another"));
    cluster.node(leader).http.put("/v1/locks/a?session=holder&ttl=5m").await.assert_status(200);
    let mut first = queue(&dying.http, "/v1/locks/a?session=first&ttl=1m&wait=5m").await;
    assert_eq!(expect(&mut first, "queued").await["position"], 1);
    let mut second = queue(&living.http, "/v1/locks/a?session=second&ttl=1m&wait=5m").await;
    assert_eq!(expect(&mut second, "queued").await["position"], 2);
    dying.kill();
    while first.next().await.is_some() {}
    let mut first = queue(&living.http, "/v1/locks/a?session=first&ttl=1m&wait=5m").await;
    assert_eq!(expect(&mut first, "queued").await["position"], 1);
    living.http.delete("/v1/locks/a?session=holder").await.assert_status(204);
    assert_eq!(expect(&mut first, "granted").await["session"], "first");
    let queued = expect(&mut second, "queued").await;
    assert_eq!((&queued["position"], &queued["ahead"][0]["session"]), (&1.into(), &"first".into()));
}

/// After a kill of the node no process closes the session; it expires at its TTL.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_a_connection_to_a_killed_node_ends_with_its_ttl_and_the_next_is_granted() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let dying = cluster.others(leader).next().expect("a follower");
    let http = &cluster.node(leader).http;
    let mut held = queue(&dying.http, "/v1/locks/a?hold=connection&ttl=2s").await;
    let token = expect(&mut held, "granted").await["token"].as_u64().expect("a token");
    expect(&mut held, "renewed").await;
    let mut next = queue(http, "/v1/locks/a?session=next&wait=1m").await;
    expect(&mut next, "queued").await;
    dying.kill();
    let granted = expect(&mut next, "granted").await;
    assert!(granted["token"].as_u64() > Some(token), "{granted}");
    let history = http.get("/v1/history/a").await.json();
    assert_eq!(history["holds"][1]["cause"], "session-expired", "{history}");
}

const HOLDS: usize = 5;

async fn holds_and_history(http: &Http) -> Value {
    for _ in 0..HOLDS {
        http.put("/v1/locks/a?session=me").await.assert_status(200);
        http.delete("/v1/locks/a?session=me").await.assert_status(204);
    }
    let history = http.get("/v1/history/a").await.assert_status(200).json();
    assert_eq!(history["holds"].as_array().map(Vec::len), Some(HOLDS), "{history}");
    history
}

/// Compares the history before and after a restart.
async fn remembered(cluster: &Cluster, http: &Http) -> Value {
    cluster.start_all();
    cluster.wait_ready().await;
    until_some("the history to answer", DEADLINE, async || {
        let asked = Request::new(Method::GET, "/v1/history/a");
        http.send(asked).await.ok().filter(|reply| reply.status == 200).map(|reply| reply.json())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_survives_a_restart() {
    let cluster = Cluster::three().await;
    cluster.wait_ready().await;
    let node = cluster.node(2);
    let before = holds_and_history(&node.http).await;
    for node in cluster.nodes() {
        node.stop().await;
    }
    let after = remembered(&cluster, &node.http).await;
    assert_eq!(after["holds"], before["holds"]);
    assert_eq!(after["complete_since_revision"], 0, "{after}");
}

/// A hold is still in the history, or the history reports that it does not reach back to it.
#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_of_every_node_the_history_says_from_where_on_it_is_complete() {
    let cluster = Cluster::three().await;
    cluster.wait_ready().await;
    let node = cluster.node(2);
    let before = holds_and_history(&node.http).await;
    cluster.kill_all();
    let after = remembered(&cluster, &node.http).await;
    let (complete_after, known) = (&after["complete_since_revision"], after["holds"].as_array());
    let known = known.expect("a list");
    for hold in before["holds"].as_array().expect("a list") {
        let ended = hold["ended_revision"].as_u64().expect("the hold has ended");
        let missing = ended <= complete_after.as_u64().expect("a revision");
        assert!(missing || known.contains(hold), "{hold} of {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_ends_a_session_is_in_the_audit_trail() {
    let cluster = Cluster::three().await;
    cluster.wait_ready().await;
    let node = cluster.node(1);
    node.http.put("/v1/locks/a?session=stuck").await.assert_status(200);
    node.http.delete("/v1/sessions/stuck?force&reason=paged+at+night").await.assert_status(204);
    until("the line", DEADLINE, || async { node.log_lines_with("paged at night") == 1 }).await;
    assert_eq!(node.log_lines_with("an operator ended a session"), 1);
}
