//! Shared functions of this test target: one node with its HTTP API, metrics, and changes from a watch.

use std::time::Duration;

use holdfast_client::Client;
use holdfast_lab::{Cluster, Http};
use serde_json::Value;

use crate::program::addresses;

/// One node and its HTTP API.
pub(crate) async fn one() -> (Cluster, Http) {
    let cluster = Cluster::of(1).start().await;
    let http = cluster.node(1).http.clone();
    (cluster, http)
}

/// A client of all nodes, with a session TTL longer than every test.
pub(crate) fn client(cluster: &Cluster) -> Client {
    let builder = Client::builder(addresses(cluster)).ttl(Duration::from_mins(5));
    builder.build().expect("a client")
}

/// Metric of parked calls that a node has woken.
pub(crate) const WOKEN: &str = "holdfast_lock_wake_ups_total";
/// Metric of acquires with a grant.
pub(crate) const GRANTED: &str =
    r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="200"}"#;

/// The latest revision.
pub(crate) async fn now(http: &Http) -> u64 {
    let answer = http.get("/v1/watch?prefix=/&wait=0s").await.assert_status(200).json();
    answer["revision"].as_u64().expect("a revision")
}

/// The changes since a revision at paths with this prefix.
pub(crate) async fn changes(http: &Http, prefix: &str, since: u64) -> Vec<Value> {
    let target = format!("/v1/watch?prefix={prefix}&since={since}&wait=0s");
    let answer = http.get(&target).await.assert_status(200).json();
    answer["events"].as_array().expect("events").clone()
}

/// The revisions of the changes of one kind.
pub(crate) fn revisions(changes: &[Value], kind: &str) -> Vec<u64> {
    let of_kind = changes.iter().filter(|change| change["kind"] == kind);
    of_kind.map(|change| change["revision"].as_u64().expect("a revision")).collect()
}
