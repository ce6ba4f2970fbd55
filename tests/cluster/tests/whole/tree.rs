//! The tree over HTTP on three nodes: every node answers, operations have one order, and transactions are atomic.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_lab::{Cluster, DEADLINE, Http, Method, Reply, Request, until};
use tokio::task::JoinHandle;

/// Maximum data length of one znode, in bytes.
const LARGEST: usize = 1_048_575;

type Headers = &'static [(&'static str, &'static str)];

async fn send(http: &Http, method: Method, target: &str, headers: Headers, body: &str) -> Reply {
    let request = Request::new(method, target).headers(headers).body(body);
    http.send(request).await.expect("an answer")
}

/// Sends thirty concurrent PUTs of different data, spread over the nodes.
fn race(cluster: &Cluster, target: &'static str, headers: Headers) -> Vec<JoinHandle<Reply>> {
    let endpoints = cluster.endpoints();
    let racers = (0..30).map(|n: usize| {
        let http = endpoints[n % endpoints.len()].clone();
        tokio::spawn(async move { send(&http, Method::PUT, target, headers, &n.to_string()).await })
    });
    racers.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_conditional_writes_that_race_on_all_nodes_exactly_one_wins() {
    let cluster = Cluster::three().await;
    let created: (Headers, _, _) = (&[("if-none-match", "*")], 409, "znode-exists");
    let replaced: (Headers, _, _) = (&[("if-match", "\"0\"")], 412, "version-mismatch");
    for (headers, status, code) in [created, replaced] {
        let mut winners = Vec::new();
        for (n, racer) in race(&cluster, "/v1/tree/race", headers).into_iter().enumerate() {
            let reply = racer.await.expect("a call");
            if reply.status < 300 {
                winners.push(n.to_string());
            } else {
                reply.assert_code(status, code);
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        for node in cluster.nodes() {
            assert_eq!(node.http.get("/v1/tree/race").await.assert_status(200).body, winners[0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sequential_names_are_given_once_whichever_node_is_asked() {
    let cluster = Cluster::three().await;
    cluster.node(1).http.put("/v1/tree/queue").await.assert_status(201);
    let endpoints = cluster.endpoints();
    let posts = (0..60).map(|n: usize| {
        let http = endpoints[n % endpoints.len()].clone();
        tokio::spawn(async move { http.post("/v1/tree/queue?sequential&name=job-").await })
    });
    let mut paths = BTreeSet::new();
    for post in posts.collect::<Vec<_>>() {
        let reply = post.await.expect("a call");
        let path = reply.assert_status(201).json()["path"].as_str().expect("a path").to_owned();
        assert_eq!(reply.header("location"), Some(format!("/v1/tree{path}").as_str()));
        paths.insert(path);
    }
    let expected: BTreeSet<String> = (0..60).map(|n| format!("/queue/job-{n:010}")).collect();
    assert_eq!(paths, expected);
    let list = cluster.node(2).http.get("/v1/tree/queue?children&limit=1000").await;
    assert_eq!(list.assert_status(200).json()["children"].as_array().map(Vec::len), Some(60));
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemerals_go_with_their_session_on_every_node() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.put("/v1/tree/workers").await.assert_status(201);
    for (session, ttl) in [("closes", "30s"), ("expires", "1s")] {
        http.put(&format!("/v1/sessions/{session}?ttl={ttl}")).await.assert_status(201);
        let target = format!("/v1/tree/workers/{session}?ephemeral&session={session}");
        cluster.node(2).http.put(&target).await.assert_status(201);
        http.put(&format!("/v1/tree/workers/{session}/x"))
            .await
            .assert_code(409, "ephemeral-parent");
    }
    cluster.node(3).http.delete("/v1/sessions/closes").await.assert_status(204);
    http.get("/v1/tree/workers/closes").await.assert_code(404, "not-found");
    for node in cluster.nodes() {
        let what = format!("node {} to see both gone", node.id);
        until(&what, DEADLINE, || async {
            let list = node.http.get("/v1/tree/workers?children&stale").await.json();
            list["children"].as_array().is_some_and(Vec::is_empty)
        })
        .await;
    }
    http.put("/v1/tree/workers/x?ephemeral&session=expires")
        .await
        .assert_code(410, "session-expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_node_goes_through_every_node_and_one_byte_more_is_refused() {
    let cluster = Cluster::three().await;
    for node in cluster.nodes() {
        let (target, data) = (format!("/v1/tree/large{}", node.id), "x".repeat(LARGEST));
        node.http.put_data(&target, &data).await.assert_status(201);
        node.http.put_data(&target, &data).await.assert_status(200);
        let refused = node.http.put_data(&target, &format!("{data}x")).await;
        assert_eq!(refused.assert_code(413, "payload-too-large").json()["limit"], LARGEST);
    }
    for node in cluster.nodes() {
        for id in 1..=3 {
            let read = node.http.get(&format!("/v1/tree/large{id}")).await;
            assert_eq!((read.status, read.body.len()), (200, LARGEST), "node {}", node.id);
            assert_eq!(read.header("etag"), Some("\"1\""));
        }
    }
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_ready().await;
    let read = cluster.node(2).http.get("/v1/tree/large3").await;
    assert_eq!(read.assert_status(200).body.len(), LARGEST, "it outlives a crash of all nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_all_or_nothing_on_every_node() {
    let cluster = Cluster::three().await;
    let [first, second, third] = cluster.nodes() else { panic!("three nodes") };
    let token =
        first.http.put("/v1/locks/ledger?session=me&ttl=30s").await.assert_status(200).token();
    let txn = async |http: &Http, body: &str| {
        send(http, Method::POST, "/v1/txn", &[("content-type", "application/json")], body).await
    };
    let good = format!(
        r#"{{"if":[{{"lock":"ledger","holds":{token}}},{{"session":"me","open":true}}],
        "then":[{{"create":"/a"}},{{"create":"/a/b","data":"x"}},{{"set":"/a","data":"y","version":0}}]}}"#
    );
    let done = txn(&second.http, &good).await;
    let body = done.assert_status(200).json();
    assert_eq!(body["succeeded"], true, "{body}");
    assert_eq!(body["results"][1]["stat"]["created_revision"], body["revision"], "{body}");
    assert_eq!(body["results"][2]["stat"]["modified_revision"], body["revision"], "{body}");
    let bad = r#"{"then":[{"create":"/c"},{"delete":"/a","recursive":true},{"check":"/a"}]}"#;
    let refused = txn(&third.http, bad).await;
    assert_eq!(refused.assert_code(404, "not-found").json()["at"], 2, "{refused}");
    let stale = good.replace(&token.to_string(), &(token + 1).to_string());
    assert_eq!(txn(&first.http, &stale).await.assert_status(200).json()["succeeded"], false);
    for node in cluster.nodes() {
        node.http.get("/v1/tree/c").await.assert_code(404, "not-found");
        assert_eq!(node.http.get("/v1/tree/a").await.assert_status(200).body, "y");
        assert_eq!(node.http.get("/v1/tree/a/b").await.assert_status(200).body, "x");
    }
}

/// A change sent twice with one request id has one effect, at any nodes and under any leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_through_another_node_after_a_kill_gets_the_first_answer() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let http = &cluster.node(leader).http;
    http.put("/v1/sessions/me?ttl=60s").await.assert_status(201);
    http.put("/v1/tree/q").await.assert_status(201);
    let post = "/v1/tree/q?sequential&session=me&request=1";
    let first = http.post(post).await.assert_status(201).json()["path"].clone();
    cluster.node(leader).kill();
    let others: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
    cluster.wait_leader_among(&others).await;
    for id in others {
        let again = cluster.node(id).http.post(post).await;
        assert_eq!(again.assert_status(201).json()["path"], first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_has_its_code_on_a_node_that_does_not_lead() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let follower = cluster.others(leader).next().expect("a follower");
    let http = &follower.http;
    http.put("/v1/tree/a").await.assert_status(201);
    http.put("/v1/tree/a/b").await.assert_status(201);
    let mine: Headers = &[("authorization", "Basic bWU6c2VjcmV0")];
    send(http, Method::PUT, "/v1/tree/mine?acl=auth::cdrwa", mine, "").await.assert_status(201);
    let bearer: Headers = &[("authorization", "Bearer x")];
    for (method, target, headers, status, code) in [
        (Method::GET, "/v1/tree/none", &[] as Headers, 404, "not-found"),
        (Method::PUT, "/v1/tree/none/x", &[], 404, "not-found"),
        (Method::PUT, "/v1/tree/a", &[("if-none-match", "*")], 409, "znode-exists"),
        (Method::PUT, "/v1/tree/a?container", &[], 409, "znode-exists"),
        (Method::DELETE, "/v1/tree/a", &[], 409, "not-empty"),
        (Method::PUT, "/v1/tree/a", &[("if-match", "\"7\"")], 412, "version-mismatch"),
        (Method::DELETE, "/v1/tree/a/b", &[("if-match", "\"7\"")], 412, "version-mismatch"),
        (Method::PUT, "/v1/tree/a", &[("if-match", "7")], 400, "invalid-argument"),
        (Method::GET, "/v1/tree/mine", &[], 403, "forbidden"),
        (Method::PUT, "/v1/tree/mine", &[], 403, "forbidden"),
        (Method::GET, "/v1/tree/a", bearer, 401, "unauthenticated"),
        (Method::PUT, "/v1/tree/a/", &[], 400, "bad-name"),
        (Method::DELETE, "/v1/tree/", &[], 400, "bad-name"),
        (Method::PUT, "/v1/tree/e?ephemeral", &[], 400, "invalid-argument"),
        (Method::PUT, "/v1/tree/e?ephemeral&session=ghost", &[], 410, "session-expired"),
        (Method::PUT, "/v1/tree/t?ttl=5", &[], 400, "bad-duration"),
        (Method::POST, "/v1/tree/a", &[], 400, "invalid-argument"),
        (Method::PATCH, "/v1/tree/a", &[], 405, "method-not-allowed"),
        (Method::POST, "/v1/txn", &[], 400, "invalid-argument"),
        (Method::GET, "/v1/watch", &[], 400, "invalid-argument"),
    ] {
        let reply = send(http, method.clone(), target, headers, "").await;
        let found = (reply.status, reply.code());
        assert_eq!(found, (status, code.to_owned()), "{method} {target}: {reply}");
    }
    let waited = Request::new(Method::GET, "/v1/tree/a?stale").within(Duration::from_secs(5));
    http.send(waited).await.expect("an answer").assert_status(200);
}

/// The value of a gauge at one node.
async fn gauge(cluster: &Cluster, node: u64, name: &str) -> u64 {
    let reply = cluster.node(node).http.get("/metrics").await;
    let metrics = &reply.assert_status(200).body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is missing")).parse().expect("a number")
}

/// Waits until all nodes have applied the same entries and asserts that a gauge is equal on all of them.
async fn stored(cluster: &Cluster) -> u64 {
    until("all nodes to show the same bytes", DEADLINE, || async {
        let first = gauge(cluster, 1, "holdfast_tree_bytes").await;
        first == gauge(cluster, 2, "holdfast_tree_bytes").await
            && first == gauge(cluster, 3, "holdfast_tree_bytes").await
    })
    .await;
    gauge(cluster, 1, "holdfast_tree_bytes").await
}

/// A client can store data up to the limit; every node rejects the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_data_stops_at_the_limit_of_bytes_and_deletes_make_room() {
    const MAX: u64 = 4 << 20;
    let config = "[limits]\ntree_bytes_max = \"4MiB\"\n";
    let cluster = Cluster::of(3).extra(config).start().await;
    let leader = cluster.wait_ready().await;
    until("the leader to set the limit", DEADLINE, || async {
        gauge(&cluster, leader, "holdfast_tree_bytes_max").await == MAX
    })
    .await;
    let data = "x".repeat(256 << 10);
    let mut made = Vec::new();
    for n in 0..48_u64 {
        let http = &cluster.node(n % 3 + 1).http;
        let target = format!("/v1/tree/flood-{n}");
        let reply = send(http, Method::PUT, &target, &[], &data).await;
        if reply.status == 201 {
            made.push(target);
        } else {
            reply.assert_code(403, "quota-exceeded");
        }
    }
    assert_eq!(made.len(), 15, "so many fit beside the names of the built-in nodes");
    let full = stored(&cluster).await;
    assert!(full <= MAX && full > MAX / 10 * 9, "{full}");
    for node in cluster.nodes() {
        let more = send(&node.http, Method::PUT, "/v1/tree/flood-more", &[], &data).await;
        more.assert_code(403, "quota-exceeded");
        let same = send(&node.http, Method::PUT, &made[0], &[], &data).await;
        assert_eq!(same.status, 200, "what stores nothing more passes: {}", same.body);
        assert_eq!(node.log_lines_with("% of limits.tree_bytes_max"), 1, "node {}", node.id);
    }
    assert_eq!(stored(&cluster).await, full);
    for target in made.drain(..8) {
        send(&cluster.node(2).http, Method::DELETE, &target, &[], "").await.assert_status(204);
    }
    assert!(stored(&cluster).await < MAX / 2);
    send(&cluster.node(3).http, Method::PUT, "/v1/tree/again", &[], &data).await.assert_status(201);
}

/// With the defaults, the container would stay for a minute, and six znodes one after the other for 50 s.
#[tokio::test(flavor = "multi_thread")]
async fn the_settings_of_sweeps_decide_how_long_containers_and_expired_znodes_stay() {
    let swift = "[tree]\ncontainer_idle = \"300ms\"\nsweep_every = \"100ms\"\n";
    let cluster = Cluster::of(1).extra(swift).start().await;
    let http = &cluster.nodes()[0].http;
    let is_gone = async |name: &str| http.get(&format!("/v1/tree/{name}")).await.status == 404;
    http.put_data("/v1/tree/c?container", "").await.assert_status(201);
    http.put_data("/v1/tree/c/child", "").await.assert_status(201);
    http.delete("/v1/tree/c/child").await.assert_status(204);
    let expiring = async {
        for _ in 0..6 {
            http.put_data("/v1/tree/t?ttl=100ms", "").await.assert_status(201);
            until("the end of the znode", DEADLINE, async || is_gone("t").await).await;
        }
        until("the end of the container", DEADLINE, async || is_gone("c").await).await;
    };
    tokio::time::timeout(DEADLINE, expiring).await.expect("sweeps every 100 ms");
}
