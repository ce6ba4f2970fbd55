//! HTTP watches across a kill of the watched node: a client that resumes from the last event id misses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_lab::{Cluster, DEADLINE, Events, Http, Method, Request, until_some};
use tokio::task::JoinHandle;

/// Creates `/log/n0`, `/log/n1` … through one node until it is stopped, and returns their number. A create without a
/// reply is repeated, and may then find an existing node.
fn write(http: Http, stop: Arc<AtomicBool>) -> JoinHandle<usize> {
    tokio::spawn(async move {
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) {
            let target = format!("/v1/tree/log/n{written}");
            let headers = [("if-none-match", "*")];
            let sent = http.send(Request::new(Method::PUT, &target).headers(&headers)).await;
            written += usize::from(sent.is_ok_and(|reply| matches!(reply.status, 201 | 409)));
        }
        written
    })
}

/// The events of a watcher: paths under `/log`, in order.
async fn follow(events: &mut Events, told: &mut Vec<String>, enough: impl Fn(&[String]) -> bool) {
    while !enough(told) {
        let Some(notice) = events.next().await else { return };
        if notice.name == "created" {
            told.push(notice.data["path"].as_str().expect("a path").to_owned());
        }
        assert_ne!(notice.name, "compacted", "nothing was forgotten: {notice:?}");
    }
}

async fn open(http: &Http, last: Option<u64>) -> Events {
    until_some("a stream", DEADLINE, async || http.events("prefix=/log/&since=0", last).await.ok())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_at_another_node_after_kill_9_and_misses_nothing() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let survivor = cluster.others(leader).next().expect("a follower");
    survivor.http.put("/v1/tree/log").await.assert_status(201);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write(survivor.http.clone(), stop.clone());
    let mut told = Vec::new();
    let mut last = None;
    // Kills the leader, then the other follower, each while it is watched.
    let victims = [leader, cluster.others(leader).nth(1).expect("a follower").id];
    for victim in victims {
        let node = cluster.node(victim);
        let mut events = open(&node.http, last).await;
        let enough = told.len() + 40;
        follow(&mut events, &mut told, |told| told.len() >= enough).await;
        node.kill();
        // Events in transit still count.
        follow(&mut events, &mut told, |_| false).await;
        last = events.last();
        node.start();
        cluster.wait_ready().await;
    }
    stop.store(true, Ordering::Relaxed);
    let written = writer.await.expect("the writer");
    let mut events = open(&survivor.http, last).await;
    follow(&mut events, &mut told, |told| told.len() >= written).await;
    let expected: Vec<String> = (0..written).map(|n| format!("/log/n{n}")).collect();
    assert!(told == expected, "{} told of {written}", told.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_says_reconnect_and_one_that_restarted_says_what_it_forgot() {
    let cluster = Cluster::three().await;
    let node = cluster.node(2);
    let made = node.http.put("/v1/tree/log").await;
    let since = made.assert_status(201).json()["revision"].as_u64().expect("a revision");
    let mut events = open(&node.http, None).await;
    let stopping = node.stop();
    let reading = async {
        while let Some(notice) = events.next().await {
            if notice.name == "reconnect" {
                return notice.data["code"].as_str().map(str::to_owned);
            }
        }
        None
    };
    let (said, ()) = tokio::join!(reading, stopping);
    assert_eq!(said.as_deref(), Some("shutting-down"));
    cluster.node(1).http.put("/v1/tree/log/a").await.assert_status(201);
    node.start();
    cluster.wait_ready().await;
    // The node sends every event after that revision, or reports a gap.
    let poll = node.http.get(&format!("/v1/watch?prefix=/log/&since={since}&wait=5s")).await;
    match poll.status {
        200 => assert_eq!(poll.json()["events"][0]["path"], "/log/a", "{poll}"),
        _ => assert!(poll.assert_code(410, "revision-compacted").json()["restart_from"].is_u64()),
    }
    let other = cluster.node(3).http.get(&format!("/v1/watch?prefix=/log/&since={since}")).await;
    assert_eq!(other.assert_status(200).json()["events"][0]["path"], "/log/a", "{other}");
}
