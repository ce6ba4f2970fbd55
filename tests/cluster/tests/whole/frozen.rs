//! A frozen or lost leader: every call through a living node ends soon, and says whether it had an effect.
//!
//! The nodes have the default election times. The bounds of the tests are far above them, and below the time limits of
//! clients.

use std::time::Duration;

use holdfast_lab::{Cluster, DEADLINE, Http, Method, Reply, Request, Timing, until, until_some};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The shortest time limit of a command for one call.
const CLIENT_LIMIT: Duration = Duration::from_secs(3);

async fn cluster() -> (Cluster, u64) {
    let timing = Timing {
        heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(400),
        election_max: Duration::from_millis(550),
    };
    let cluster = Cluster::of(3).timing(timing).start().await;
    let leader = cluster.wait_ready().await;
    (cluster, leader)
}

/// A call: its method, its target and its body.
type Call = (Method, String, &'static str);

/// One call of each kind that a follower forwards to the leader.
fn forwarded_calls(tag: &str) -> Vec<Call> {
    let call = |method, target: String| (method, target, "");
    vec![
        call(Method::PUT, format!("/v1/locks/write/{tag}?session=kept&attempt=7")),
        call(Method::PUT, format!("/v1/sessions/new{tag}")),
        call(Method::POST, "/v1/sessions/kept/keepalive".to_owned()),
        (Method::POST, "/v1/keepalive".to_owned(), r#"["kept"]"#),
        call(Method::PUT, format!("/v1/tree/new{tag}")),
        call(Method::POST, format!("/v1/counters/c{tag}?add=1")),
        call(Method::DELETE, format!("/v1/locks/none/{tag}?session=kept&attempt=7")),
        call(Method::GET, "/v1/locks/held".to_owned()),
        call(Method::GET, "/v1/locks".to_owned()),
        call(Method::GET, "/v1/sessions/kept".to_owned()),
        call(Method::GET, "/v1/tree/".to_owned()),
    ]
}

/// Makes all calls at once. Returns each with its reply and the time that it took.
async fn call_all(http: Http, calls: Vec<Call>) -> Vec<(String, Reply, Duration)> {
    let mut all = JoinSet::new();
    for (method, target, body) in calls {
        let http = http.clone();
        all.spawn(async move {
            let (began, call) = (Instant::now(), format!("{method} {target}"));
            let reply = http.send(Request::new(method, &target).body(body)).await;
            let reply = reply.unwrap_or_else(|error| panic!("{call}: {error}"));
            (call, reply, began.elapsed())
        });
    }
    all.join_all().await
}

/// Whether the reply says that nothing was done, or that the outcome is unknown.
fn is_refused(reply: &Reply) -> bool {
    reply.status == 503 && ["no-leader", "outcome-unknown"].contains(&reply.code().as_str())
}

async fn open(http: &Http) {
    http.put("/v1/locks/held?session=holder&ttl=5m").await.assert_status(200);
    http.put("/v1/sessions/kept?ttl=5m").await.assert_status(201);
}

/// The calls that reach the frozen leader end when another node leads, not at the time limit of a connection.
#[tokio::test(flavor = "multi_thread")]
async fn calls_through_the_followers_of_a_frozen_leader_end_with_its_leadership() {
    let (cluster, leader) = cluster().await;
    open(&cluster.node(leader).http).await;
    let others: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
    cluster.node(leader).pause().await;
    let mut calls = JoinSet::new();
    for id in &others {
        calls.spawn(call_all(cluster.node(*id).http.clone(), forwarded_calls(&id.to_string())));
    }
    cluster.wait_leader_among(&others).await;
    let ended = timeout(CLIENT_LIMIT, calls.join_all()).await;
    for (call, reply, _) in ended.expect("a call outlasts the leadership").into_iter().flatten() {
        assert!(
            [200, 201, 204, 404].contains(&reply.status) || is_refused(&reply),
            "{call}: {reply}"
        );
    }
    // New calls work at once through both, and repeated ones with their attempt have one effect.
    for id in &others {
        let target = format!("/v1/locks/write/{id}?session=kept&attempt=7");
        let write = timeout(CLIENT_LIMIT, cluster.node(*id).http.put(&target)).await;
        let token = write.expect("a new write waits").assert_status(200).token();
        let again = cluster.node(others[0]).http.put(&target).await;
        assert_eq!(again.assert_status(200).token(), token);
    }
    // What the frozen node received meanwhile has no effect.
    cluster.node(leader).resume();
    cluster.node(leader).wait_ready().await;
    for id in &others {
        let view = cluster.node(leader).http.get(&format!("/v1/locks/write/{id}")).await.json();
        assert_eq!(view["holders"].as_array().map(Vec::len), Some(1), "{view}");
    }
}

/// Without a quorum each call is refused in time: just after the loss, and later.
async fn is_refused_in_time(cluster: &Cluster, last: u64) {
    let http = &cluster.node(last).http;
    for (call, reply, took) in call_all(http.clone(), forwarded_calls("first")).await {
        assert!(took < CLIENT_LIMIT, "{call} took {took:?}: {reply}");
        // A follower that received the reply before the freeze has answered.
        assert!(reply.status != 503 || is_refused(&reply), "{call}: {reply}");
    }
    until("the node to know that it has no quorum", DEADLINE, || async {
        http.get("/readyz").await.status == 503
    })
    .await;
    let mut calls = forwarded_calls("later");
    calls.push((Method::PUT, "/v1/locks/wait/later?session=kept&attempt=8&wait=30s".into(), ""));
    for (call, reply, took) in call_all(http.clone(), calls).await {
        assert!(took < CLIENT_LIMIT, "{call} took {took:?}: {reply}");
        reply.assert_code(503, "no-leader");
    }
    let stale = http.get("/v1/locks/held?stale").await;
    assert_eq!(stale.assert_status(200).json()["holders"][0]["session"], "holder");
}

/// "Nothing was done" is true.
async fn nothing_was_done(http: &Http) {
    let read = async |target: &'static str| {
        until_some("a leader", DEADLINE, async || {
            Some(http.get(target).await).filter(|reply| reply.status != 503)
        })
        .await
    };
    assert_eq!(read("/v1/locks/write/later").await.json()["held"], false);
    assert_eq!(read("/v1/locks/wait/later").await.json()["held"], false);
    read("/v1/sessions/newlater").await.assert_code(410, "session-expired");
    read("/v1/tree/newlater").await.assert_status(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_without_a_quorum_refuses_in_time() {
    let (cluster, leader) = cluster().await;
    open(&cluster.node(leader).http).await;
    let mut others = cluster.others(leader);
    let (last, other) = (others.next().expect("a follower"), others.next().expect("another"));
    last.http.get("/v1/locks/held").await.assert_status(200);
    // A frozen leader keeps its connections, a killed node does not.
    other.kill();
    cluster.node(leader).pause().await;
    is_refused_in_time(&cluster, last.id).await;
    cluster.node(leader).resume();
    nothing_was_done(&last.http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_quorum_refuses_in_time() {
    let (cluster, leader) = cluster().await;
    open(&cluster.node(leader).http).await;
    for node in cluster.others(leader) {
        node.pause().await;
    }
    is_refused_in_time(&cluster, leader).await;
    for node in cluster.others(leader) {
        node.resume();
    }
    nothing_was_done(&cluster.node(leader).http).await;
}
