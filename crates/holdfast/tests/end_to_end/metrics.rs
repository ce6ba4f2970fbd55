//! The metrics of running nodes, and the page that explains them.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_lab::Http;
use holdfast_lab::zk::ZkClient;

use crate::program::DevCluster;

/// Metrics of nodes with TLS or traces, and of clusters with namespaces. Other tests read them.
const NOT_HERE: [&str; 5] = [
    "holdfast_certificate_expires_timestamp_seconds",
    "holdfast_namespace_used",
    "holdfast_namespace_limit",
    "holdfast_namespace_calls_limited_total",
    "holdfast_trace_spans_dropped_total",
];

/// The names of the metrics that a text mentions.
pub(crate) fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("holdfast_") || word.starts_with("process_"));
    names.map(str::to_owned).collect()
}

/// The names of the metrics of a scrape.
pub(crate) fn names_of(scrape: &str) -> BTreeSet<String> {
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split_once(' ').unwrap().0.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_metrics_names_exactly_the_metrics_of_the_nodes() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let nodes =
        [0, 10, 20].map(|offset| Http::new(format!("127.0.0.1:{}", cluster.port() + offset)));
    // A family with labels is shown from its first series on.
    let [first, ..] = &nodes;
    first.put("/v1/locks/measured?session=me&wait=1s").await.assert_status(200);
    let zookeeper = format!("127.0.0.1:{}", cluster.port() + 2).parse().unwrap();
    assert_eq!(ZkClient::open(zookeeper, 10_000).await.stat("/none").await, None);
    let mut present = BTreeSet::new();
    for node in &nodes {
        present.append(&mut names_of(&node.get("/metrics").await.assert_status(200).body));
    }
    let page = include_str!("../../../../docs/operations.md");
    let (_, page) = page.split_once("\n## Metrics\n").unwrap();
    let (page, _) = page.split_once("\n## ").unwrap();
    let documented = names_in(page);
    let missing: Vec<_> = present.difference(&documented).collect();
    let unknown = documented.difference(&present);
    let unknown: Vec<_> = unknown.filter(|name| !NOT_HERE.contains(&name.as_str())).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_latency_has_the_same_buckets() {
    /// Waits and holds, which last longer.
    const LONG: [&str; 3] =
        ["lock_wait_seconds", "lock_hold_seconds", "http_waiting_request_seconds"];
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let node = Http::new(format!("127.0.0.1:{}", cluster.port()));
    node.put("/v1/locks/measured?session=me&wait=1s").await.assert_status(200);
    let scrape = node.get("/metrics").await.assert_status(200).body.clone();
    let mut bounds = BTreeMap::<&str, BTreeSet<&str>>::new();
    for line in scrape.lines() {
        let Some((name, rest)) = line.split_once("_bucket{") else { continue };
        let (_, bound) = rest.split_once("le=\"").unwrap();
        bounds.entry(name).or_default().insert(bound.split('"').next().unwrap());
    }
    let of = |name: &str| bounds[name].iter().copied().collect::<Vec<_>>();
    let (short, long) = (of("holdfast_raft_log_sync_seconds"), of("holdfast_lock_wait_seconds"));
    assert!(short.contains(&"0.0001") && short.contains(&"30.0") && short.len() == 18, "{short:?}");
    for name in bounds.keys() {
        let is_long = LONG.iter().any(|long| name.ends_with(long));
        assert_eq!(of(name), if is_long { long.clone() } else { short.clone() }, "{name}");
    }
}
