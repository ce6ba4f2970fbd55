//! The HTTP API: the four curl lines at every node, and a grant within the one call that waits for it.

use std::time::Instant;

use holdfast_lab::{Cluster, Method, Request};

/// Runs curl; returns the body and the status.
async fn curl(arguments: &[&str]) -> (String, u16) {
    let mut command = tokio::process::Command::new("curl");
    command.args(["-sS", "--max-time", "30", "-w", "\n%{http_code}"]).args(arguments);
    let output = command.output().await.expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let (body, status) = text.rsplit_once('\n').expect("curl prints the status");
    (body.to_owned(), status.parse().expect("a status"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_four_curl_lines_work_at_each_of_three_nodes() {
    let cluster = Cluster::three().await;
    let mut last = 0;
    for node in cluster.nodes() {
        let lock = format!("{}/v1/locks/orders", node.http.base());
        let (grant, status) =
            curl(&["-X", "PUT", &format!("{lock}?session=me&ttl=30s&wait=10s")]).await;
        let grant: serde_json::Value = serde_json::from_str(&grant).expect("JSON");
        assert_eq!((status, grant["session"].as_str()), (200, Some("me")), "{grant}");
        let token = grant["token"].as_u64().expect("a token is a number");
        assert!(token > last, "tokens only grow: {token} after {last}");
        last = token;

        let (renewed, status) = curl(&["-X", "PUT", &format!("{lock}?session=me")]).await;
        let renewed: serde_json::Value = serde_json::from_str(&renewed).expect("JSON");
        assert_eq!((status, renewed["token"].as_u64()), (200, Some(token)), "{renewed}");
        assert_eq!(renewed["renewed"], true, "{renewed}");

        let (seen, status) = curl(&[&lock]).await;
        let seen: serde_json::Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!((status, seen["holders"][0]["session"].as_str()), (200, Some("me")), "{seen}");

        let (nothing, status) = curl(&["-X", "DELETE", &format!("{lock}?session=me")]).await;
        assert_eq!((nothing.as_str(), status), ("", 204));
    }
}

/// Each waiter sends one request and gets the grant as its reply. The latency is printed, not asserted.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_in_the_queue_is_granted_by_push_within_its_one_request() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    first.http.put("/v1/locks/orders?session=s0&ttl=60s").await.assert_status(200);
    let mut hand_overs = Vec::new();
    for round in 0..20 {
        let (holder, waiter) = (format!("s{round}"), format!("s{}", round + 1));
        let asking = second.http.clone();
        let target = format!("/v1/locks/orders?session={waiter}&ttl=60s&wait=60s");
        let waiting = tokio::spawn(async move { (asking.put(&target).await, Instant::now()) });
        third.http.until_queue("orders", &[waiter.as_str()]).await;
        assert!(!waiting.is_finished(), "nobody is granted while somebody holds");
        let target = format!("/v1/locks/orders?session={holder}");
        third.http.delete(&target).await.assert_status(204);
        let released_at = Instant::now();
        let (granted, granted_at) = waiting.await.expect("the waiter");
        assert_eq!(granted.assert_status(200).session(), waiter);
        hand_overs.push(granted_at.saturating_duration_since(released_at));
    }
    hand_overs.sort();
    println!(
        "release answered to grant received: p50 {:?}, max {:?}",
        hand_overs[10], hand_overs[19]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_lock_names_its_holder_and_every_answer_names_its_node() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let http = &cluster.node(1).http;
    let mine = http.put("/v1/locks/a/b?session=me&ttl=30s&label.host=web3").await;
    let revision: u64 = mine
        .assert_status(200)
        .header("holdfast-revision")
        .expect("a revision")
        .parse()
        .expect("a number");
    assert!(revision > 0);
    let busy = cluster.node(2).http.put("/v1/locks/a/b?session=you").await;
    busy.assert_code(423, "lock-busy").assert_body_contains("wait=10s");
    let body = busy.json();
    assert_eq!(body["type"], "/errors/lock-busy");
    assert_eq!(body["holder"]["session"], "me", "{body}");
    assert_eq!(body["holder"]["labels"]["host"], "web3", "{body}");
    assert_eq!(body["waiters"], 0, "{body}");
    assert!(busy.retryable());
    let content_type = busy.header("content-type").expect("a content type");
    assert!(content_type.starts_with("application/problem+json"), "{content_type}");
    for (node, reply) in [("1", &mine), ("2", &busy)] {
        assert_eq!(reply.header("holdfast-node"), Some(node));
        assert_eq!(reply.header("holdfast-leader"), Some(leader.to_string().as_str()));
        assert!(reply.header("holdfast-request-id").is_some_and(|id| !id.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_reads_are_labelled_and_answered_without_a_leader() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    let token = http.put("/v1/locks/a?session=me&ttl=60s").await.assert_status(200).token();
    let fresh = http.get("/v1/locks/a").await;
    assert_eq!(
        fresh.assert_status(200).header("holdfast-applied-revision"),
        None,
        "a fresh read is not stale"
    );
    cluster.node(2).kill();
    cluster.node(3).kill();
    let stale = http.get("/v1/locks/a?stale").await;
    assert_eq!(stale.assert_status(200).json()["holders"][0]["token"], token);
    assert!(stale.header("holdfast-applied-revision").is_some(), "{:?}", stale.headers);
    assert!(stale.header("holdfast-leader-contact-ms").is_some(), "{:?}", stale.headers);
    let refused = http.send(Request::new(Method::GET, "/v1/locks/a")).await.expect("an answer");
    refused.assert_code(503, "no-leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_version_and_the_cluster_are_answered_by_every_node() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    for node in cluster.nodes() {
        node.http.get("/livez").await.assert_status(200);
        node.http.get("/readyz").await.assert_status(200);
        let is_leader = node.http.get("/readyz?leader").await.status == 200;
        assert_eq!(is_leader, node.id == leader, "only the leader is ready to lead");
        node.http
            .get("/metrics")
            .await
            .assert_status(200)
            .assert_body_contains("holdfast_has_leader");
        node.http.get("/version").await.assert_status(200).assert_body_contains("version");
        let view = node.view().await.expect("a view");
        let ids: Vec<u64> = view.nodes.iter().map(|node| node.id).collect();
        assert_eq!((view.leader, ids.as_slice()), (Some(leader), &[1, 2, 3][..]));
        assert!(view.nodes.iter().all(|node| node.healthy), "{view:?}");
        let leaders = view.nodes.iter().filter(|node| node.role == "leader").count();
        assert_eq!((view.cluster.as_str(), leaders), ("laboratory", 1), "{view:?}");
        node.http.get("/errors/session-expired").await.assert_status(200);
    }
}
