//! Restarts by an operator: one node, all nodes in turn under load, and a node after a long absence.

use std::time::{Duration, Instant};

use holdfast_lab::{
    Actor, Attempt, Cluster, DEADLINE, History, Load, Method, Request, Timing, judge, until,
};
use tokio::time::timeout;

const LONG: Duration = Duration::from_mins(5);
/// Half of the time for which a leader waits for the clocks of a majority.
const SERVES_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_restarted_in_turn_under_load_and_nothing_is_lost() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let load = Load { holders: 10, competing_clients: 20, hot_locks: 4 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(50).await;
    for id in [1, 2, 3] {
        let leader = cluster.wait_ready().await;
        let stopped_at = Instant::now();
        cluster.node(id).stop().await;
        let ended_after = stopped_at.elapsed();
        load.wait_for_grants(1).await;
        println!(
            "node {id} (leader: {}) ended after {ended_after:?}, first grant after {:?}",
            id == leader,
            stopped_at.elapsed()
        );
        let others: Vec<u64> = cluster.others(id).map(|node| node.id).collect();
        cluster.wait_leader_among(&others).await;
        load.wait_for_grants(50).await;
        cluster.node(id).start();
    }
    cluster.wait_ready().await;
    load.wait_for_grants(50).await;
    load.finish().await;
}

/// A node logs the loss of a peer once and its return once, not at every heartbeat.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_peer_is_one_line_in_the_log_and_one_when_it_is_back() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let log = cluster.node(leader);
    let lost = cluster.others(leader).next().expect("a follower");
    let before = log.log_lines_with("peer unreachable");
    let warnings = log.log_lines_with("\"WARN\"");
    lost.kill();
    until("the loss to be noticed", DEADLINE, || async {
        log.log_lines_with("peer unreachable") > before
    })
    .await;
    let history = History::default();
    let mut actor = Actor::new("me", vec![log.http.clone()], LONG, &history);
    // Waits for many heartbeats.
    for round in 0..400 {
        let taken = actor.take(&format!("orders/{round}"), Duration::ZERO, DEADLINE).await;
        assert!(matches!(taken, Attempt::Granted(_)), "{taken:?}");
    }
    assert_eq!(log.log_lines_with("peer unreachable"), before + 1);
    assert!(log.log_lines_with("\"WARN\"") <= warnings + 3, "{}", log.log_tail());
    lost.start();
    until("the return to be noticed", DEADLINE, || async {
        log.log_lines_with("peer reachable again") > 0
    })
    .await;
    cluster.wait_ready().await;
}

/// Election timeouts are many seconds, so a new leader soon after the stop proves a transfer of leadership.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_stop_hands_over() {
    let patient = Timing {
        heartbeat: Duration::from_millis(150),
        election_min: Duration::from_secs(8),
        election_max: Duration::from_secs(12),
    };
    let cluster = Cluster::of(3).timing(patient).start().await;
    for _ in 0..3 {
        let leader = cluster.wait_ready().await;
        let (term, _) = cluster.term_at(leader).await;
        let others: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
        let asked_at = Instant::now();
        cluster.node(leader).stop().await;
        let stopped_after = asked_at.elapsed();
        let new = cluster.wait_leader_among(&others).await;
        let (elapsed, after) = (asked_at.elapsed(), cluster.term_at(new).await.0);
        println!(
            "from {leader} to {new} in {elapsed:?}; the process ended after {stopped_after:?}"
        );
        assert!(elapsed < patient.election_min, "the others had to notice: {elapsed:?}");
        assert_eq!(after, term + 1, "one term further");
        cluster.node(leader).start();
        assert_eq!(cluster.wait_ready().await, new, "who comes back does not push");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_an_ending_node_get_a_retryable_503_and_keep_their_place() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put("/v1/locks/orders?session=me&ttl=60s").await.assert_status(200);
    let http = second.http.clone();
    let waiting = tokio::spawn(async move {
        let target = "/v1/locks/orders?session=you&ttl=60s&wait=60s";
        http.send(Request::new(Method::PUT, target).within(Duration::from_mins(2))).await
    });
    third.http.until_queue("orders", &["you"]).await;
    second.stop().await;
    let told = waiting.await.expect("the waiter").expect("an answer, not a broken connection");
    told.assert_code(503, "shutting-down");
    assert!(told.retryable());
    let http = third.http.clone();
    let again =
        tokio::spawn(
            async move { http.put("/v1/locks/orders?session=you&ttl=60s&wait=60s").await },
        );
    until("the waiter to be back", DEADLINE, || async {
        let lock = first.http.get("/v1/locks/orders").await.json();
        lock["queue"][0]["session"] == "you"
    })
    .await;
    until("the release", DEADLINE, || async {
        first.http.delete("/v1/locks/orders?session=me").await.status == 204
    })
    .await;
    assert_eq!(again.await.expect("the waiter").assert_status(200).session(), "you");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_alone_remembers_everything_across_restarts() {
    let cluster = Cluster::of(1).start().await;
    let history = History::default();
    let node = cluster.node(1);
    let mut actor = Actor::new("me", cluster.endpoints(), LONG, &history);
    let held = actor.take("orders", Duration::ZERO, DEADLINE).await;
    for kill in [true, false, true] {
        if kill {
            node.kill();
        } else {
            node.stop().await;
        }
        node.start();
        cluster.wait_ready().await;
        assert_eq!(actor.take("orders", Duration::ZERO, DEADLINE).await, held, "the same token");
    }
    judge::check_lock_history(&history);
}

/// The node receives a snapshot for entries that were purged during its absence.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_catches_up_and_can_carry_the_cluster() {
    let cluster = Cluster::of(3).extra("[storage]\nsnapshot_log = \"64KiB\"\n").start().await;
    let history = History::default();
    let away = cluster.others(cluster.wait_ready().await).next().expect("a follower").id;
    let mut kept = Actor::new("kept", cluster.endpoints(), LONG, &history);
    let held = kept.take("own", Duration::ZERO, DEADLINE).await;
    cluster.node(away).kill();
    let load = Load { holders: 0, competing_clients: 16, hot_locks: 8 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(1_500).await;
    load.finish().await;
    cluster.node(away).start();
    cluster.wait_ready().await;
    until("the node that was away to have applied everything", DEADLINE, || async {
        let Some(view) = cluster.node(away).view().await else { return false };
        let applied: Vec<Option<u64>> =
            view.nodes.iter().map(|node| node.applied_revision).collect();
        applied.iter().all(|revision| revision.is_some() && *revision == applied[0])
    })
    .await;
    let gone = cluster.others(away).next().expect("another").id;
    cluster.node(gone).kill();
    let rest: Vec<u64> = cluster.others(gone).map(|node| node.id).collect();
    cluster.wait_leader_among(&rest).await;
    let mut at_away = Actor::new("kept", vec![cluster.node(away).http.clone()], LONG, &history);
    let still = at_away.take("own", Duration::ZERO, DEADLINE).await;
    assert_eq!(still, held, "the hold is known to the node that was away");
    assert!(matches!(still, Attempt::Granted(_)));
    judge::check_lock_history(&history);
}

/// A node whose clock is in no record serves no client until the clocks of a majority reply, for up to 10 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_hands_over_to_a_node_whose_clock_is_recorded() {
    let cluster = Cluster::three().await;
    let first = cluster.wait_ready().await;
    cluster.node(first).kill();
    let second = cluster.wait_ready().await;
    let recorded = |count| format!("the clocks of {count} members are recorded");
    let has_recorded = |count| cluster.node(second).log_lines_with(&recorded(count)) > 0;
    until("a record without the first node", DEADLINE, || async { has_recorded(2) }).await;
    cluster.node(first).start();
    cluster.node(first).wait_ready().await;
    cluster.node(second).stop().await;
    let third = cluster.others(first).find(|node| node.id != second).expect("one of three").id;
    let leader = cluster.wait_leader_among(&[first, third]).await;
    // The first node may lead as well, if a record with its clock reached the log just before it was killed.
    let endpoints = vec![cluster.node(leader).http.clone()];
    let mut actor = Actor::new("me", endpoints, LONG, &History::default());
    let taken = timeout(SERVES_WITHIN, actor.take("orders/1", Duration::ZERO, DEADLINE)).await;
    assert!(matches!(taken, Ok(Attempt::Granted(_))), "node {leader} leads: {taken:?}");
}
