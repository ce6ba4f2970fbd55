//! Late copies of calls: a stopped node has unread requests, the clients repeat them at other nodes, and the node
//! executes the copies after it resumes.
//!
//! `HOLDFAST_SECONDS` is the duration of the campaign; without it, the test runs a few rounds.

use std::time::{Duration, Instant};

use holdfast_lab::{Cluster, DEADLINE, History, Http, LateCopies, Load, Method, Node, Reply};
use serde_json::Value;
use tokio::task::JoinSet;

const DELETE: &Method = &Method::DELETE;
const POST: &Method = &Method::POST;
const PUT: &Method = &Method::PUT;
/// Rounds of the campaign without `HOLDFAST_SECONDS`.
const ROUNDS: usize = 4;
/// Grants at the other nodes while one node is stopped.
const GRANTS: u64 = 10;

/// The holders and waiters of a lock, by a linearizable read.
async fn places(http: &Http, lock: &str) -> Value {
    let body = http.get(&format!("/v1/locks/{lock}")).await.assert_status(200).json();
    let name = |of: &Value| (of["session"].clone(), of["token"].clone());
    let holders: Vec<_> = body["holders"].as_array().expect("holders").iter().map(name).collect();
    serde_json::json!({ "holders": holders, "waiters": body["waiters"] })
}

/// The two followers.
async fn followers(cluster: &Cluster) -> (&Node, &Node) {
    let mut others = cluster.others(cluster.wait_ready().await);
    (others.next().expect("a follower"), others.next().expect("another"))
}

async fn take(http: &Http, lock: &str, query: &str) -> u64 {
    http.put(&format!("/v1/locks/{lock}?ttl=60s&{query}")).await.assert_status(200).token()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_left_unread_in_a_stopped_node_change_nothing_when_it_wakes() {
    let cluster = Cluster::three().await;
    let (stopped, other) = followers(&cluster).await;
    let http = &other.http;
    let released = take(http, "released", "session=a&attempt=1").await;
    take(http, "ended", "session=a&attempt=2").await;
    let handed = take(http, "handed", "session=a&attempt=3").await;
    take(http, "plain", "session=a").await;
    let both = "name=one&name=two&session=a&attempt=4";
    http.post(&format!("/v1/locks?ttl=60s&{both}")).await.assert_status(200);
    http.put("/v1/sessions/heir?ttl=60s").await.assert_status(201);
    let opened = http.put("/v1/sessions/closed?ttl=60s").await.assert_status(201).json();

    let calls = [
        (DELETE, format!("/v1/locks/released?session=a&token={released}")),
        (DELETE, "/v1/locks/ended?session=a&attempt=2".to_owned()),
        (POST, format!("/v1/transfers/handed?session=a&token={handed}&to=heir")),
        (DELETE, format!("/v1/locks?{both}")),
        (DELETE, format!("/v1/sessions/closed?incarnation={}", opened["incarnation"])),
        (DELETE, "/v1/locks/plain?session=a".to_owned()),
    ];
    let unread = LateCopies::default();
    stopped.pause().await;
    unread.begin(&stopped.http);
    for (method, target) in &calls {
        unread.leave(method, target).await;
        let answer = http.call((*method).clone(), target).await;
        assert!(matches!(answer.status, 200 | 204), "{target}: {answer}");
    }
    // This call gets no reply; its client cancels the attempt at another node.
    unread.leave(PUT, "/v1/locks/cancelled?session=a&attempt=9&ttl=60s").await;
    http.delete("/v1/locks/cancelled?session=a&attempt=9").await.assert_status(204);
    unread.end();

    // The clients acquire the same locks with new attempts, and each lock has a waiter.
    take(http, "released", "session=a&attempt=11").await;
    take(http, "ended", "session=a&attempt=12").await;
    let heir = places(http, "handed").await["holders"][0][1].clone();
    http.delete(&format!("/v1/locks/handed?session=heir&token={heir}")).await.assert_status(204);
    take(http, "handed", "session=a&attempt=13").await;
    http.post("/v1/locks?ttl=60s&name=one&name=two&session=a&attempt=14").await.assert_status(200);
    http.put("/v1/sessions/closed?ttl=60s").await.assert_status(201);
    take(http, "kept", "session=closed&attempt=1").await;
    take(http, "plain", "session=a").await;
    let locks = ["released", "ended", "handed", "one", "two", "kept", "plain", "cancelled"];
    let waiting = wait_behind(http, &locks[..7]).await;
    let mut before = Vec::new();
    for lock in locks {
        before.push(places(http, lock).await);
    }

    stopped.resume();
    let answers = unread.answers(DEADLINE).await;
    assert_eq!(answers.len(), calls.len() + 1);
    for (call, answer) in &answers {
        let late = call.starts_with("PUT");
        let expected =
            if late { answer.contains("attempt-over") } else { answer.starts_with("20") };
        assert!(expected, "{call}: {answer}");
    }
    for (lock, before) in locks.iter().zip(before) {
        let after = places(http, lock).await;
        if *lock == "plain" {
            // The documented effect of a call without an attempt, which also proves that the copies arrived.
            assert_ne!(after, before, "a late plain release releases what came after");
        } else {
            assert_eq!(after, before, "{lock}");
        }
    }
    drop(waiting);
}

/// A copy that a resumed node executes converts no hold, in either direction, and reverts no value and no TTL.
#[tokio::test(flavor = "multi_thread")]
async fn requests_left_unread_in_a_stopped_node_revert_no_mode_no_value_and_no_ttl() {
    let cluster = Cluster::three().await;
    let (stopped, other) = followers(&cluster).await;
    let http = &other.http;
    take(http, "down", "session=a&mode=upgradable&attempt=1").await;
    let late = [
        "/v1/locks/up?ttl=60s&session=a&mode=upgradable&attempt=2",
        "/v1/locks/down?session=a&mode=exclusive&change=1&attempt=3",
        "/v1/elections/e?session=a&attempt=4&value=old",
        "/v1/sessions/t?ttl=2s&attempt=1",
    ];
    let newer = [
        "/v1/locks/up?session=a&mode=exclusive&change=2&attempt=5",
        "/v1/locks/down?session=a&mode=shared&change=1&attempt=6",
        "/v1/elections/e?session=a&change=4&attempt=7&value=new",
        "/v1/sessions/t?ttl=60s&attempt=2",
    ];
    let unread = LateCopies::default();
    stopped.pause().await;
    unread.begin(&stopped.http);
    for target in late {
        unread.leave(PUT, target).await;
        let answer = http.put(target).await;
        assert!(matches!(answer.status, 200 | 201), "{target}: {answer}");
    }
    unread.end();
    let mut tokens = Vec::new();
    for target in newer {
        let answer = http.put(target).await.assert_status(200).json();
        tokens.push(answer["token"].clone());
    }

    stopped.resume();
    let answers = unread.answers(DEADLINE).await;
    assert_eq!(answers.len(), late.len());
    for (call, answer) in &answers {
        assert!(answer.starts_with("20"), "{call}: {answer}");
    }
    for (lock, mode, token) in [("up", "exclusive", &tokens[0]), ("down", "shared", &tokens[1])] {
        let body = http.get(&format!("/v1/locks/{lock}")).await.assert_status(200).json();
        let holder = &body["holders"][0];
        assert_eq!((holder["mode"].as_str(), &holder["token"]), (Some(mode), token), "{body}");
    }
    http.put("/v1/locks/up?session=r&mode=shared").await.assert_code(423, "lock-busy");
    let elected = http.get("/v1/elections/e").await.assert_status(200).json();
    assert_eq!(elected["leader"]["value"], "new", "{elected}");
    let session = http.get("/v1/sessions/t").await.assert_status(200).json();
    assert_eq!(session["ttl_ms"], 60_000, "{session}");
}

/// Enqueues another session for each of the locks.
async fn wait_behind(http: &Http, locks: &[&str]) -> JoinSet<Reply> {
    let mut waiting = JoinSet::new();
    for lock in locks {
        let (at, target) = (http.clone(), format!("/v1/locks/{lock}?session=b&ttl=60s&wait=60s"));
        waiting.spawn(async move { at.put(&target).await });
        http.until_waiters(lock, 1).await;
    }
    waiting
}

/// Whether a campaign has run for `HOLDFAST_SECONDS` or, without it, for this number of rounds.
pub(super) fn is_over(began: Instant, round: usize, rounds: usize) -> bool {
    let seconds = std::env::var("HOLDFAST_SECONDS").ok().and_then(|text| text.parse().ok());
    match seconds {
        Some(seconds) => began.elapsed() >= Duration::from_secs(seconds),
        None => round >= rounds,
    }
}

/// Every call of every client is sent to the stopped node and repeated at another one, in every round; leaders are
/// stopped and killed as well. The judges check the history.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_whose_calls_arrive_late_keeps_every_promise() {
    let cluster = Cluster::three().await;
    let (history, unread, began) = (History::default(), LateCopies::default(), Instant::now());
    let load = Load { holders: 4, competing_clients: 12, hot_locks: 3 };
    let load = load.start_with_late_copies(&cluster.endpoints(), &history, &unread);
    let (mut round, mut copies, mut effects) = (0, 0, 0);
    while !is_over(began, round, ROUNDS) {
        let leader = cluster.wait_ready().await;
        // Alternates between a follower, the leader, and the other follower.
        let followers: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
        let stopped = cluster.node([followers[0], leader, followers[1]][round % 3]);
        stopped.pause().await;
        unread.begin(&stopped.http);
        load.wait_for_grants(GRANTS).await;
        unread.end();
        println!("round {round}: node {} was stopped, {:?}", stopped.id, began.elapsed());
        stopped.resume();
        for (call, answer) in unread.answers(DEADLINE * 2).await {
            copies += 1;
            effects += usize::from(call.starts_with("PUT") && answer.starts_with("200"));
        }
        round += 1;
        if round % 4 == 0 {
            let leader = cluster.node(cluster.wait_ready().await);
            leader.kill();
            load.wait_for_grants(GRANTS).await;
            leader.start();
        }
    }
    cluster.wait_ready().await;
    load.finish().await;
    println!(
        "{round} rounds, {copies} late copies, {effects} of them renewed a hold of the same attempt"
    );
    assert!(copies > 0, "no call was left unread");
}
