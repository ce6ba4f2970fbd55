//! `kill -9`: of the leader under load, of all nodes, of a client.

use std::time::{Duration, Instant};

use holdfast_lab::{Actor, Attempt, Cluster, DEADLINE, History, Load, Node, Timing, judge, until};

/// A session TTL longer than any test.
const LONG: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn fifty_clients_survive_the_death_of_leader_after_leader() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let load = Load::FIFTY.start(&cluster.endpoints(), &history);
    load.wait_for_grants(100).await;
    for round in 0..3 {
        let leader = cluster.wait_ready().await;
        let killed_at = Instant::now();
        cluster.node(leader).kill();
        load.wait_for_grants(1).await;
        println!(
            "round {round}: first grant {:?} after the death of leader {leader}",
            killed_at.elapsed()
        );
        load.wait_for_grants(100).await;
        cluster.node(leader).start();
    }
    cluster.wait_ready().await;
    load.wait_for_grants(100).await;
    load.finish().await;
}

/// With these timeouts, an election after the lease would take twenty seconds.
#[tokio::test(flavor = "multi_thread")]
async fn the_locks_of_a_killed_leader_are_granted_again_before_its_lease_expires() {
    let lease = Duration::from_secs(20);
    let timing =
        Timing { election_min: Duration::from_secs(5), election_max: lease, ..Timing::default() };
    let cluster = Cluster::of(3).timing(timing).start().await;
    let leader = cluster.wait_ready().await;
    let survivor = cluster.others(leader).next().expect("a survivor");
    survivor.http.take("before?session=s").await;
    let killed_at = Instant::now();
    cluster.node(leader).kill();
    until("a grant", lease, async || {
        survivor.http.put("/v1/locks/after?session=s").await.status == 200
    })
    .await;
    assert!(killed_at.elapsed() < lease, "the lease had to expire");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_grant_is_there_after_the_death_of_all_nodes() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let mut holders = Vec::new();
    for index in 0..30 {
        let actor = Actor::new(&format!("s{index}"), cluster.endpoints(), LONG, &history)
            .at_endpoint(index);
        assert!(matches!(
            actor.acquire(&format!("own/{index}"), Duration::ZERO).await,
            Attempt::Granted(_)
        ));
        holders.push(actor);
    }
    let load = Load { holders: 0, competing_clients: 12, hot_locks: 3 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(50).await;
    let crashed_us = history.now_us();
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_ready().await;
    for (index, holder) in holders.iter_mut().enumerate() {
        holder.next_endpoint();
        assert!(holder.look(&format!("own/{index}")).await.is_some(), "a read after the restart");
    }
    // The hot locks are still under load; the judges below check them.
    let mut operations = history.operations();
    operations
        .retain(|operation| operation.call.lock().is_some_and(|lock| lock.starts_with("own/")));
    history.require(judge::acknowledged_grants_survive(&operations, crashed_us));
    load.wait_for_grants(50).await;
    load.finish().await;
    for (index, holder) in holders.iter_mut().enumerate() {
        assert_eq!(
            holder.release_until_known(&format!("own/{index}"), DEADLINE).await,
            Attempt::Done
        );
    }
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_dead_client_is_handed_on_and_never_early() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let ttl = Duration::from_secs(2);
    let dead = Actor::new("dead", cluster.endpoints(), ttl, &history);
    assert!(matches!(dead.acquire("orders", Duration::ZERO).await, Attempt::Granted(_)));
    let heir = Actor::new("heir", cluster.endpoints(), LONG, &history).at_endpoint(1);
    let waiting = tokio::spawn(async move { heir.acquire("orders", DEADLINE).await });
    // The client renews a few times, then stops.
    for http in 0..3 {
        let renewed = dead.clone().at_endpoint(http).keep_alive().await;
        assert_eq!(renewed, Attempt::Done);
    }
    let silent_since = Instant::now();
    assert!(matches!(waiting.await.expect("the heir"), Attempt::Granted(_)));
    println!("a ttl of {ttl:?} was over {:?} after the last renewal", silent_since.elapsed());
    assert_eq!(dead.keep_alive().await, Attempt::Expired);
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_full_time_when_the_leader_dies() {
    keeps_its_full_time_when_the_leader_dies(None).await;
}

/// The client was told the longer TTL, in a renewal that is not in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_shortened_ttl_keeps_its_full_time_when_the_leader_dies() {
    keeps_its_full_time_when_the_leader_dies(Some("other?session=dead&attempt=99&ttl=1s")).await;
}

/// `shortens` takes another lock in the session of the dead client.
async fn keeps_its_full_time_when_the_leader_dies(shortens: Option<&str>) {
    let cluster = Cluster::three().await;
    let history = History::default();
    let leader = cluster.wait_ready().await;
    let endpoints: Vec<_> = cluster.others(leader).map(|node| node.http.clone()).collect();
    let dead = Actor::new("dead", endpoints.clone(), Duration::from_secs(4), &history);
    assert!(matches!(dead.acquire("orders", Duration::ZERO).await, Attempt::Granted(_)));
    let mut heir = Actor::new("heir", endpoints.clone(), LONG, &history).at_endpoint(1);
    let waiting =
        tokio::spawn(async move { heir.take("orders", Duration::from_secs(10), DEADLINE).await });
    until("the heir to queue", DEADLINE, || async {
        dead.look("orders").await.is_some_and(|lock| lock["queue"][0]["session"] == "heir")
    })
    .await;
    assert_eq!(dead.keep_alive().await, Attempt::Done);
    if let Some(lock) = shortens {
        endpoints[0].take(lock).await;
    }
    cluster.node(leader).kill();
    assert!(matches!(waiting.await.expect("the heir"), Attempt::Granted(_)));
    judge::check_lock_history(&history);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_serve_without_two() {
    let cluster = Cluster::of(5).start().await;
    let history = History::default();
    let load = Load { holders: 5, competing_clients: 15, hot_locks: 3 }
        .start(&cluster.endpoints(), &history);
    load.wait_for_grants(50).await;
    let first = cluster.wait_ready().await;
    cluster.node(first).kill();
    load.wait_for_grants(50).await;
    let rest: Vec<u64> = cluster.others(first).map(|node| node.id).collect();
    let second = cluster.wait_leader_among(&rest).await;
    cluster.node(second).kill();
    load.wait_for_grants(50).await;
    load.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_logs_each_known_leader_with_its_term_and_the_loss_of_the_leader() {
    let cluster = Cluster::three().await;
    let first = cluster.wait_ready().await;
    cluster.node(first).kill();
    let second = cluster.wait_ready().await;
    let mut rest = cluster.nodes().iter().filter(|node| node.is_started() && node.id != second);
    let last = rest.next().expect("one of three");
    let gone = r#""message":"the leader is unknown","term":"#;
    until("the end of the first", DEADLINE, || async { last.log_lines_with(gone) > 0 }).await;
    for leader in [first, second] {
        let known = format!(r#""message":"the leader is known","leader":{leader},"term":"#);
        until("a leader's line", DEADLINE, || async { last.log_lines_with(&known) > 0 }).await;
    }
    cluster.node(second).kill();
    // A call that was sent before the connection closed would have an unknown outcome.
    until("the end of the second", DEADLINE, || async {
        let nodes = last.view().await.map_or_else(Vec::new, |view| view.nodes);
        nodes.iter().any(|node| node.id == second && node.role == "unreachable")
    })
    .await;
    // The node also logs the failed operation.
    last.http.put("/v1/locks/orders?session=me").await.assert_code(503, "no-leader");
    let call = r#""message":"call","term":"#;
    until("the call's line", DEADLINE, || async { last.log_lines_with(call) > 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_quorum_is_not_ready_until_the_quorum_is_back() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let followers: Vec<&Node> = cluster.others(leader).collect();
    let [last, other] = followers[..] else { panic!("three nodes") };
    cluster.node(leader).kill();
    other.kill();
    until("the last node is not ready", DEADLINE, || async { !last.is_ready().await }).await;
    let checks = last.http.get("/readyz").await.assert_status(503).json()["checks"].clone();
    let failed: Vec<_> =
        checks.as_array().expect("checks").iter().filter(|one| one["ok"] == false).collect();
    assert!(failed.len() == 1 && failed[0]["name"] == "leader", "{checks}");
    last.http.get("/livez").await.assert_status(200);
    other.start();
    cluster.wait_ready().await;
}

/// Sets the priority of a node that does not run.
fn set_priority(node: &Node, priority: u8) {
    let text = std::fs::read_to_string(node.config()).expect("a configuration");
    assert!(text.contains("\n[raft]\n"), "{text}");
    let text = text.replace("\n[raft]\n", &format!("\n[raft]\npriority = {priority}\n"));
    std::fs::write(node.config(), text).expect("the configuration");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_voter_with_the_highest_priority_leads_as_soon_as_it_runs() {
    let cluster = Cluster::of(3).prepare().await;
    for (node, priority) in cluster.nodes().iter().zip([5, 7, 9]) {
        set_priority(node, priority);
    }
    cluster.start_all();
    let history = History::default();
    cluster.wait_ready().await;
    let load = Load { holders: 4, competing_clients: 8, hot_locks: 2 }
        .start(&cluster.endpoints(), &history);
    until("node 3 to lead", DEADLINE * 2, async || cluster.wait_ready().await == 3).await;
    cluster.node(3).kill();
    until("node 2 to lead", DEADLINE * 2, async || cluster.wait_leader_among(&[1, 2]).await == 2)
        .await;
    load.wait_for_grants(50).await;
    load.finish().await;
}
