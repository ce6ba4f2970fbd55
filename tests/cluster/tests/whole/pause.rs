//! A leader that is stopped for longer than an election and resumes must not act on its old state.

use std::time::Duration;

use holdfast_lab::{Actor, Attempt, Cluster, DEADLINE, History, Method, judge, until};

const LONG: Duration = Duration::from_mins(5);

/// The holder's session loses the lock while the leader that granted it is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_woken_leader_renews_nothing_that_was_lost_and_reads_nothing_stale() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let old = cluster.wait_ready().await;
    let others: Vec<u64> = cluster.others(old).map(|node| node.id).collect();
    let endpoints: Vec<_> = others.iter().map(|id| cluster.node(*id).http.clone()).collect();
    let old_http = cluster.node(old).http.clone();
    let loser = Actor::new("loser", vec![old_http.clone()], Duration::from_secs(2), &history);
    let lost = loser.acquire("orders", Duration::ZERO).await;
    assert!(matches!(lost, Attempt::Granted(_)), "{lost:?}");

    cluster.node(old).pause().await;
    let mut heir = Actor::new("heir", endpoints.clone(), LONG, &history);
    let granted = heir.take("orders", Duration::from_secs(10), DEADLINE).await;
    let Attempt::Granted(token) = granted else { panic!("{granted:?}") };

    // The kernel buffers these calls; the node reads them after it resumes.
    let keep_alive = old_http.begin(Method::POST, "/v1/sessions/loser/keepalive");
    let renewal = old_http.begin(Method::PUT, "/v1/locks/orders?session=loser&ttl=2s");
    let read = old_http.begin(Method::GET, "/v1/locks/orders");
    let fence = old_http.begin(Method::GET, &format!("/v1/fence/orders?token={}", token - 1));
    cluster.node(old).resume();
    for (what, call) in [("keepalive", keep_alive), ("renewal", renewal)] {
        let answer = call.await.expect("the call");
        assert!(matches!(answer.status, 410 | 503), "{what} of a lost session: {answer}");
    }
    let answer = read.await.expect("the call");
    let shown = (answer.status != 503)
        .then(|| answer.assert_status(200).json()["holders"][0]["token"].clone());
    assert!(shown.is_none_or(|shown| shown == token), "a stale read: {answer}");
    let answer = fence.await.expect("the call");
    assert!(matches!(answer.status, 412 | 503), "an old token is good no more: {answer}");
    until("the old leader to answer as the others do", DEADLINE, || async {
        old_http.get("/v1/locks/orders").await.status == 200
    })
    .await;
    let seen = old_http.get("/v1/locks/orders").await;
    assert_eq!(seen.assert_status(200).json()["holders"][0]["token"], token);
    assert_eq!(loser.keep_alive().await, Attempt::Expired);
    judge::check_lock_history(&history);
}

/// All leases of the resumed leader are overdue, and it must not expire them.
#[tokio::test(flavor = "multi_thread")]
async fn a_woken_leader_expires_no_session_that_was_renewed_elsewhere() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let old = cluster.wait_ready().await;
    let others: Vec<u64> = cluster.others(old).map(|node| node.id).collect();
    let endpoints: Vec<_> = others.iter().map(|id| cluster.node(*id).http.clone()).collect();
    let mut kept: Vec<Actor> = (0..8)
        .map(|i| {
            Actor::new(&format!("kept{i}"), endpoints.clone(), Duration::from_secs(3), &history)
        })
        .collect();
    let mut tokens = Vec::new();
    for (index, actor) in kept.iter_mut().enumerate() {
        tokens.push(actor.take(&format!("own/{index}"), Duration::ZERO, DEADLINE).await);
    }
    let renewing = tokio::spawn(renew_for_ever(kept.clone()));
    cluster.node(old).pause().await;
    let new = cluster.wait_leader_among(&others).await;
    // Longer than any lease in the old leader's memory.
    let beyond = tokio::time::Instant::now() + Duration::from_secs(4);
    until("the leases the old leader knew to be over", DEADLINE, || async {
        tokio::time::Instant::now() > beyond
    })
    .await;
    cluster.node(old).resume();
    assert_eq!(cluster.wait_leader_among(&[1, 2, 3]).await, new, "the new leader stays");
    for (index, actor) in kept.iter().enumerate() {
        let still =
            actor.clone().at_endpoint(1).acquire(&format!("own/{index}"), Duration::ZERO).await;
        assert_eq!(still, tokens[index], "the same hold, the same token");
    }
    assert!(!renewing.is_finished(), "renewals were acknowledged all the time");
    renewing.abort();
    judge::check_lock_history(&history);
}

/// Renews at the two other nodes until the task is aborted or a session expires.
async fn renew_for_ever(mut actors: Vec<Actor>) {
    let mut beats = tokio::time::interval(Duration::from_millis(400));
    loop {
        beats.tick().await;
        for actor in &mut actors {
            match actor.keep_alive().await {
                Attempt::Expired => return,
                Attempt::Retry(_) => actor.next_endpoint(),
                Attempt::Granted(_) | Attempt::Done | Attempt::Busy | Attempt::Refused(_) => {}
            }
        }
    }
}

/// All nodes stop at once, like on a suspended host, and resume: no session renewed in time is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_cluster_goes_on_where_it_was() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let mut actor = Actor::new("me", cluster.endpoints(), LONG, &history);
    let before = actor.take("orders", Duration::ZERO, DEADLINE).await;
    for node in cluster.nodes() {
        node.pause().await;
    }
    let beyond = tokio::time::Instant::now() + Duration::from_secs(3);
    until("several election timeouts to pass", DEADLINE, || async {
        tokio::time::Instant::now() > beyond
    })
    .await;
    cluster.nodes().iter().for_each(holdfast_lab::Node::resume);
    cluster.wait_ready().await;
    assert_eq!(actor.take("orders", Duration::ZERO, DEADLINE).await, before);
    judge::check_lock_history(&history);
}
