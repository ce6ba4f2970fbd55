//! Traces: one acquire is one tree of spans over the nodes that handle it, and a collector never delays a call.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_lab::zk::{ZkClient, children};
use holdfast_lab::{Cluster, DEADLINE, Http, Method, Reply, Request, until, until_some};

use crate::collector::{Collector, ReceivedSpan};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn traces(endpoint: &str, sample: &str) -> String {
    format!("[traces]\nendpoint = \"{endpoint}\"\nsample = {sample}\n")
}

async fn put_traced(http: &Http, target: &str, flags: &str) -> Reply {
    let traceparent = format!("00-{TRACE}-{CALLER}-{flags}");
    let headers = [("traceparent", traceparent.as_str())];
    let request = Request::new(Method::PUT, target).headers(&headers);
    http.send(request).await.expect("a reply")
}

/// The spans of the trace by node and name, once all of them have arrived.
async fn tree(
    collector: &Collector,
    names: &[(&str, &str)],
) -> BTreeMap<(String, String), ReceivedSpan> {
    until_some("the spans of the trace", DEADLINE, async || {
        let spans = collector.spans().into_iter().filter(|span| span.trace == TRACE);
        let by_name = spans.map(|span| ((span.node.clone(), span.name.clone()), span));
        let by_name: BTreeMap<_, _> = by_name.collect();
        let has = |(node, name): &(&str, &str)| {
            by_name.contains_key(&((*node).to_owned(), (*name).to_owned()))
        };
        names.iter().all(has).then_some(by_name)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_through_a_follower_is_one_tree_over_two_nodes() {
    let collector = Collector::start().await;
    let cluster = Cluster::of(3).extra(&traces(collector.endpoint(), "0")).start().await;
    let leader = cluster.wait_ready().await;
    let follower = cluster.others(leader).next().expect("a follower");
    let at_leader = &cluster.node(leader).http;
    let holding = at_leader.put("/v1/locks/orders?session=holder&ttl=60s").await;
    assert_eq!(holding.assert_status(200).header("traceparent"), None, "it is not traced");

    let waiting = follower.http.clone();
    let target = "/v1/locks/orders?session=waiter&ttl=60s&wait=30s";
    let waiting = tokio::spawn(async move { put_traced(&waiting, target, "01").await });
    at_leader.until_queue("orders", &["waiter"]).await;
    at_leader.delete("/v1/locks/orders?session=holder").await.assert_status(204);
    let granted = waiting.await.expect("the waiter");
    let token = granted.assert_status(200).token();

    let (follower, leader) = (follower.id.to_string(), leader.to_string());
    let (here, there) = (follower.as_str(), leader.as_str());
    let parents = [
        ((here, "acquire"), (here, "http")),
        ((here, "propose"), (here, "acquire")),
        ((here, "forward"), (here, "propose")),
        ((there, "forwarded"), (here, "forward")),
        ((there, "propose"), (there, "forwarded")),
        ((there, "commit"), (there, "propose")),
        ((there, "append"), (there, "commit")),
        ((there, "apply"), (there, "commit")),
        ((here, "parked"), (here, "acquire")),
    ];
    let mut names = parents.map(|(child, _)| child).to_vec();
    names.push((here, "http"));
    let tree = tree(&collector, &names).await;
    assert_eq!(tree.len(), names.len(), "{tree:?}");
    let span = |(node, name): (&str, &str)| &tree[&(node.to_owned(), name.to_owned())];
    for (child, parent) in parents {
        assert_eq!(span(child).parent, span(parent).id, "{child:?} below {parent:?}: {tree:?}");
    }
    let http = span((here, "http"));
    assert_eq!(http.parent, CALLER);
    let revision = granted.header("holdfast-revision").expect("a revision");
    for (attribute, value) in [
        ("lock", "orders"),
        ("session", "waiter"),
        ("token", token.to_string().as_str()),
        ("revision", revision),
        ("http.response.status_code", "200"),
        ("http.request.method", "PUT"),
    ] {
        assert_eq!(http.attributes.get(attribute).map(String::as_str), Some(value), "{attribute}");
    }
    let returned = format!("00-{TRACE}-{}-01", http.id);
    assert_eq!(granted.header("traceparent"), Some(returned.as_str()));
    let others = collector.spans().into_iter().filter(|span| span.trace != TRACE);
    assert_eq!(others.count(), 0, "the other calls are not traced");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_and_the_callers_flag_choose_the_traced_calls() {
    let collector = Collector::start().await;
    let headers = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(headers.path(), "# secrets\n\nX-Team: storage\n").expect("written");
    let file = format!("headers_file = {:?}\n", headers.path().display().to_string());
    let extra = traces(collector.endpoint(), "1.0") + &file;
    let cluster = Cluster::of(1).extra(&extra).start().await;
    let http = &cluster.node(1).http;
    let unsampled = put_traced(http, "/v1/locks/unsampled?session=me", "00").await;
    assert_eq!(unsampled.assert_status(200).header("traceparent"), None);
    let sampled = http.put("/v1/locks/sampled?session=me").await;
    let returned = sampled.assert_status(200).header("traceparent").expect("a trace").to_owned();

    let names = ["http", "acquire", "propose", "commit", "append", "apply"];
    until("the spans of the sampled call", DEADLINE, async || {
        let spans = collector.spans().into_iter().filter(|span| returned.contains(&span.trace));
        let found: Vec<_> = spans.map(|span| span.name).collect();
        names.iter().all(|name| found.iter().any(|found| found == name))
    })
    .await;
    assert_eq!(collector.team().as_deref(), Some("storage"));
    assert!(collector.spans().iter().all(|span| span.trace != TRACE), "the flag is 00");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_zookeeper_clients_are_traced() {
    let collector = Collector::start().await;
    let cluster = Cluster::of(1).extra(&traces(collector.endpoint(), "1")).start().await;
    let mut zk = ZkClient::open(cluster.node(1).zookeeper, 40_000).await;
    zk.create("/orders", 0).await;
    zk.create("/orders/lock-", 3).await;
    zk.done(children("/orders", true)).await;

    let names = ["propose", "commit", "append", "apply"];
    let root = |span: &&ReceivedSpan| {
        let has = |key: &str, value: &str| span.attributes.get(key).is_some_and(|it| it == value);
        span.name == "zookeeper" && has("op", "create") && has("path", "/orders")
    };
    until("the spans of the create", DEADLINE, async || {
        let spans = collector.spans();
        let Some(root) = spans.iter().find(root) else { return false };
        names
            .iter()
            .all(|name| spans.iter().any(|span| span.trace == root.trace && span.name == *name))
    })
    .await;
    until("the spans of both creates", DEADLINE, async || {
        let spans = collector.spans();
        let requests = spans.iter().filter(|span| span.name == "zookeeper");
        requests.filter(|span| span.attributes["op"] == "create").count() == 2
    })
    .await;
    let spans = collector.spans();
    let session = format!("{:#x}", zk.session());
    assert!(spans.iter().any(|span| span.attributes.get("session") == Some(&session)));
    until("the span of the read", DEADLINE, async || {
        let is_read = |span: &ReceivedSpan| {
            span.attributes.get("op").is_some_and(|op| op.starts_with("getChildren"))
        };
        collector.spans().iter().any(is_read)
    })
    .await;
}

/// Calls succeed, and the node stops in time.
async fn works_with_collector(endpoint: &str) -> Cluster {
    let cluster = Cluster::of(1).extra(&traces(endpoint, "1")).start().await;
    let http = &cluster.node(1).http;
    for round in 0..100 {
        let target = format!("/v1/locks/lock-{round}?session=me");
        http.put(&target).await.assert_status(200);
        http.delete(&target).await.assert_status(204);
    }
    cluster
}

/// Stops the node; the last export has 2 s.
async fn stops_in_time(cluster: &Cluster) {
    let began = Instant::now();
    cluster.node(1).stop().await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_calls_succeed_and_spans_are_counted_as_dropped() {
    let ports = holdfast_lab::PortRange::reserve();
    let port = ports.first();
    let cluster = works_with_collector(&format!("http://127.0.0.1:{port}")).await;
    let node = cluster.node(1);
    until("dropped spans", DEADLINE, async || {
        node.http.metric_value("holdfast_trace_spans_dropped_total").await > 0
    })
    .await;
    stops_in_time(&cluster).await;
    assert_eq!(node.log_lines_with("the collector accepts no traces"), 1, "{}", node.log_tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_delays_no_call_and_no_stop() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let cluster = works_with_collector(&format!("http://{address}")).await;
    stops_in_time(&cluster).await;
}
