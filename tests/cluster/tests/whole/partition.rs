//! Network faults: black holes, cuts and one-way losses. No unnecessary election, no second effective leader.

use std::time::Duration;

use holdfast_client::Client;
use holdfast_lab::{
    Actor, Attempt, Cluster, DEADLINE, Flow, History, Http, Load, Method, Request, judge, until,
};
use tokio::time::Instant;

const LONG: Duration = Duration::from_mins(5);
/// Several maximum election timeouts.
const SEVERAL_ELECTIONS: Duration = Duration::from_secs(5);

async fn linked() -> Cluster {
    Cluster::of(3).with_links().start().await
}

/// Keeps a fault for a time, with calls in parallel.
async fn lasts(fault: Duration, mut meanwhile: impl AsyncFnMut()) {
    let end = Instant::now() + fault;
    while Instant::now() < end {
        meanwhile().await;
    }
}

/// The status of a write that the node may reject.
async fn asked(http: &Http, target: &str) -> Option<(u16, String)> {
    let request = Request::new(Method::PUT, target).within(Duration::from_secs(20));
    let reply = http.send(request).await.ok()?;
    Some((reply.status, reply.code()))
}

/// The follower still knows the leader, but its view may lack what has changed since.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_of_the_cluster_has_a_leader_only_if_it_is_current() {
    let cluster = linked().await;
    let leader = cluster.wait_ready().await;
    let follower = cluster.others(leader).next().expect("a follower");
    let client = Client::new([follower.http.base(), cluster.node(leader).http.base()]);
    let client = client.expect("a client");
    cluster.links().isolate(follower.id, Flow::BlackHole);
    let view = follower.http.get("/v1/cluster").await.assert_status(200).json();
    assert!(view["leader"].is_null(), "{view}");
    // The client starts at a random node, and asks the other one if the view has no leader.
    for _ in 0..4 {
        let view = client.cluster().await.expect("a view");
        assert_eq!(view.leader.map(|node| node.0), Some(leader));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_follower_comes_back_without_an_election() {
    for flow in [Flow::BlackHole, Flow::Cut] {
        let cluster = linked().await;
        let history = History::default();
        let leader = cluster.wait_ready().await;
        let (term, _) = cluster.term_at(leader).await;
        let follower = cluster.others(leader).next().expect("a follower").id;
        cluster.links().isolate(follower, flow);
        let mut actor = Actor::new("me", vec![cluster.node(leader).http.clone()], LONG, &history);
        lasts(SEVERAL_ELECTIONS, async || {
            assert!(matches!(
                actor.take("orders", Duration::ZERO, DEADLINE).await,
                Attempt::Granted(_)
            ));
            assert_eq!(actor.release_until_known("orders", DEADLINE).await, Attempt::Done);
        })
        .await;
        let http = &cluster.node(follower).http;
        let (status, code) =
            asked(http, "/v1/locks/other?session=you&ttl=60s").await.expect("an answer");
        assert_eq!(status, 503, "a node that hears nobody says so: {code}");
        cluster.links().heal();
        assert_eq!(cluster.wait_leader_among(&[1, 2, 3]).await, leader, "the leader stays");
        until("the follower to serve again", DEADLINE, || async {
            asked(http, "/v1/locks/other?session=you&ttl=60s").await.is_some_and(|(s, _)| s == 200)
        })
        .await;
        for node in cluster.nodes() {
            assert_eq!(
                cluster.term_at(node.id).await,
                (term, Some(leader)),
                "{flow:?}: no election"
            );
        }
        judge::check_lock_history(&history);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_leader_acknowledges_nothing_and_another_serves() {
    let cluster = linked().await;
    let history = History::default();
    let load = Load { holders: 6, competing_clients: 18, hot_locks: 3 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(50).await;
    let old = cluster.wait_ready().await;
    let (old_term, _) = cluster.term_at(old).await;
    let others: Vec<u64> = cluster.others(old).map(|node| node.id).collect();
    cluster.links().isolate(old, Flow::BlackHole);
    let new = cluster.wait_leader_among(&others).await;
    let (new_term, _) = cluster.term_at(new).await;
    assert!(new_term > old_term && new != old);
    load.wait_for_grants(50).await;

    let http = &cluster.node(old).http;
    for target in ["/v1/locks/alone?session=x&ttl=60s", "/v1/locks/alone?session=y&ttl=60s"] {
        let (status, code) = asked(http, target).await.expect("an answer");
        assert!(
            status == 503 && matches!(code.as_str(), "no-leader" | "outcome-unknown"),
            "an isolated leader acknowledges nothing: {status} {code}"
        );
    }
    let named = "/v1/locks/named?session=x&ttl=60s&attempt=1";
    let request = Request::new(Method::PUT, named).within(Duration::from_secs(20));
    let reply = http.send(request).await.expect("an answer");
    let doubt = reply.code() == "outcome-unknown";
    let hint = reply.json()["hint"].to_string();
    assert!(!doubt || hint.contains("the same session and attempt"), "{reply}");
    assert!(!doubt || hint.contains("DELETE it"), "{reply}");
    let read = Request::new(Method::GET, "/v1/locks/alone").within(Duration::from_secs(20));
    http.send(read).await.expect("an answer").assert_code(503, "no-leader");

    cluster.links().heal();
    assert_eq!(cluster.wait_leader_among(&[1, 2, 3]).await, new, "the new leader stays");
    assert_eq!(cluster.term_at(old).await.0, new_term, "one election for one fault");
    load.wait_for_grants(50).await;
    load.finish().await;
}

/// With a majority connected in both directions, writes continue despite one-way losses.
#[tokio::test(flavor = "multi_thread")]
async fn one_way_losses_stop_nobody_else() {
    let cluster = linked().await;
    let history = History::default();
    let mut actor = Actor::new("me", cluster.endpoints(), LONG, &history);
    for (of_leader, outgoing) in [(true, true), (true, false), (false, true), (false, false)] {
        let leader = cluster.wait_ready().await;
        let (term, _) = cluster.term_at(leader).await;
        let victim = if of_leader { leader } else { leader % 3 + 1 };
        for other in cluster.others(victim) {
            let (from, to) = if outgoing { (victim, other.id) } else { (other.id, victim) };
            cluster.links().set(from, to, Flow::BlackHole);
        }
        let others: Vec<u64> = cluster.others(victim).map(|node| node.id).collect();
        let serving = cluster.wait_leader_among(&others).await;
        lasts(SEVERAL_ELECTIONS, async || {
            let taken = actor.take("orders", Duration::ZERO, DEADLINE).await;
            assert!(matches!(taken, Attempt::Granted(_)), "{taken:?}");
            assert_eq!(actor.release_until_known("orders", DEADLINE).await, Attempt::Done);
        })
        .await;
        cluster.links().heal();
        let healed = cluster.wait_leader_among(&[1, 2, 3]).await;
        let (after, _) = cluster.term_at(healed).await;
        println!("leader {of_leader}, outgoing {outgoing}: term {term} to {after}");
        if !of_leader {
            assert_eq!(
                (healed, after),
                (leader, term),
                "outgoing {outgoing}: a follower's trouble is its own"
            );
            assert_eq!(serving, leader);
        }
    }
    judge::check_lock_history(&history);
}

/// Two followers cannot reach each other, but both reach the leader: no election.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_reaches_both_is_kept_when_they_do_not_reach_each_other() {
    let cluster = linked().await;
    let leader = cluster.wait_ready().await;
    let (term, _) = cluster.term_at(leader).await;
    let followers: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
    cluster.links().set(followers[0], followers[1], Flow::Cut);
    cluster.links().set(followers[1], followers[0], Flow::Cut);
    let history = History::default();
    let mut actor = Actor::new("me", cluster.endpoints(), LONG, &history);
    lasts(SEVERAL_ELECTIONS, async || {
        assert!(matches!(
            actor.take("orders", Duration::ZERO, DEADLINE).await,
            Attempt::Granted(_)
        ));
        assert_eq!(actor.release_until_known("orders", DEADLINE).await, Attempt::Done);
        actor.next_endpoint();
    })
    .await;
    for node in cluster.nodes() {
        assert_eq!(cluster.term_at(node.id).await, (term, Some(leader)));
    }
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_jittery_links_cost_no_election_and_no_promise() {
    let cluster = Cluster::of(3).with_delays(2026, Duration::from_millis(60)).start().await;
    let leader = cluster.wait_ready().await;
    let (term, _) = cluster.term_at(leader).await;
    let history = History::default();
    let load = Load { holders: 4, competing_clients: 12, hot_locks: 3 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(60).await;
    load.finish().await;
    assert_eq!(cluster.term_at(leader).await, (term, Some(leader)));
}
