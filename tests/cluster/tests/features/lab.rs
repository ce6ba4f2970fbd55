//! What the tests of this target share: one node and its HTTP API, calls in the background, and what a lock, its queue and the
//! metrics say.

use std::time::Duration;

use holdfast_client::Client;
use holdfast_lab::{Cluster, DEADLINE, Http, Reply, Request, until};
use reqwest::Method;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::program::addresses;

/// One node and its HTTP API.
pub(crate) async fn one() -> (Cluster, Http) {
    let cluster = Cluster::of(1).start().await;
    let http = cluster.node(1).http.clone();
    (cluster, http)
}

/// A client of all nodes, whose session outlives every test.
pub(crate) fn client(cluster: &Cluster) -> Client {
    let builder = Client::builder(addresses(cluster)).ttl(Duration::from_mins(5));
    builder.build().expect("a client")
}

/// A call that waits, in the background.
pub(crate) fn begin(http: &Http, method: Method, target: &str) -> JoinHandle<Reply> {
    let (http, target) = (http.clone(), target.to_owned());
    tokio::spawn(async move {
        let request = Request::new(method, &target).within(Duration::from_mins(4));
        http.send(request).await.expect("an answer")
    })
}

/// Asks for a lock (`a?session=me`) and waits for it, in the background.
pub(crate) fn queue_up(http: &Http, lock: &str) -> JoinHandle<Reply> {
    begin(http, Method::PUT, &format!("/v1/locks/{lock}&ttl=4m&wait=3m"))
}

/// Takes a lock (`a?session=me`): its token.
pub(crate) async fn take(http: &Http, lock: &str) -> u64 {
    http.put(&format!("/v1/locks/{lock}")).await.has(200).token()
}

/// Gives a lock back (`a?session=me`).
pub(crate) async fn give_back(http: &Http, lock: &str) {
    http.delete(&format!("/v1/locks/{lock}")).await.has(204);
}

/// What a lock says about itself.
pub(crate) async fn look(http: &Http, lock: &str) -> Value {
    http.get(&format!("/v1/locks/{lock}")).await.has(200).json()
}

/// The sessions that hold it, in the order of their grants.
pub(crate) async fn holders(http: &Http, lock: &str) -> Vec<String> {
    sessions_of(&look(http, lock).await["holders"])
}

/// The sessions that wait for it, in their order; the first hundred.
pub(crate) async fn queue(http: &Http, lock: &str) -> Vec<String> {
    sessions_of(&look(http, lock).await["queue"])
}

fn sessions_of(places: &Value) -> Vec<String> {
    let places = places.as_array().expect("a list");
    places.iter().map(|place| place["session"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until so many wait for a lock.
pub(crate) async fn until_waiters(http: &Http, lock: &str, waiters: u64) {
    let what = format!("{waiters} to wait for {lock}");
    until(&what, DEADLINE, || async { look(http, lock).await["waiters"] == waiters }).await;
}

/// Waits until exactly these hold a lock.
pub(crate) async fn until_held_by(http: &Http, lock: &str, sessions: &[&str]) {
    let what = format!("{lock} to be held by {sessions:?}");
    until(&what, DEADLINE, || async { holders(http, lock).await == sessions }).await;
}

/// Parked calls that a node has woken so far.
pub(crate) const WOKEN: &str = "holdfast_lock_wake_ups_total";
/// Calls for a lock that were answered with a grant.
pub(crate) const GRANTED: &str =
    r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="200"}"#;

/// The latest revision.
pub(crate) async fn now(http: &Http) -> u64 {
    let answer = http.get("/v1/watch?prefix=/&wait=0s").await.has(200).json();
    answer["revision"].as_u64().expect("a revision")
}

/// What has changed at paths that begin so since a revision.
pub(crate) async fn changes(http: &Http, prefix: &str, since: u64) -> Vec<Value> {
    let target = format!("/v1/watch?prefix={prefix}&since={since}&wait=0s");
    let answer = http.get(&target).await.has(200).json();
    answer["events"].as_array().expect("events").clone()
}

/// The revisions of the changes of one kind.
pub(crate) fn revisions(changes: &[Value], kind: &str) -> Vec<u64> {
    let of_kind = changes.iter().filter(|change| change["kind"] == kind);
    of_kind.map(|change| change["revision"].as_u64().expect("a revision")).collect()
}
