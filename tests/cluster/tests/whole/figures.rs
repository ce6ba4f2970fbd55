//! What an operator sees without a monitoring system: alarms of a policy, the most urgent locks, the figures of each node.

use std::collections::BTreeSet;

use holdfast_lab::{Cluster, DEADLINE, Http, Method, until};
use serde_json::Value;

const WAIT_LONG: &str = "lock-wait-long";
const HOLD_OLD: &str = "lock-hold-old";

/// The fact of an alarm.
async fn detail(http: &Http, alarm: &str) -> Option<String> {
    let alarms = http.get("/v1/alarms").await.assert_status(200).json();
    let mut all = alarms["alarms"].as_array().expect("alarms").iter();
    let found = all.find(|of| of["name"] == alarm)?;
    assert!(found["hint"].as_str().expect("a hint").contains("holdfast who"), "{found}");
    Some(found["detail"].as_str().expect("a detail").to_owned())
}

async fn until_raised(http: &Http, alarm: &str) -> String {
    until(alarm, DEADLINE, || async { detail(http, alarm).await.is_some() }).await;
    detail(http, alarm).await.expect("an alarm that was raised")
}

/// The leader raises the alarms. A policy is replicated, so they outlive a leader.
#[tokio::test(flavor = "multi_thread")]
async fn thresholds_of_a_policy_raise_alarms_that_name_lock_and_holder_also_after_a_failover() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let living = cluster.others(leader).next().expect("a follower").http.clone();
    let token = living.put("/v1/locks/slow?session=web-3&ttl=5m").await.assert_status(200).token();
    living.put("/v1/locks/calm?session=web-3&ttl=5m").await.assert_status(200);
    let queued = living.put("/v1/locks/slow?session=web-4&ttl=5m&enqueue").await;
    queued.assert_status(202);
    let policy = "/v1/policies/slow?wait_alarm=200ms&hold_alarm=300ms";
    let set = living.call(Method::PATCH, policy).await.assert_status(200).json();
    assert_eq!((&set["wait_alarm_ms"], &set["hold_alarm_ms"]), (&200.into(), &300.into()));
    for http in cluster.endpoints() {
        let wait = until_raised(&http, WAIT_LONG).await;
        assert!(wait.starts_with("slow: a wait of "), "{wait}");
        assert!(wait.ends_with(&format!("held by web-3 with token {token}")), "{wait}");
        let hold = until_raised(&http, HOLD_OLD).await;
        assert!(hold.starts_with("slow: a hold of "), "{hold}");
        assert!(hold.ends_with(&format!(" by web-3 with token {token}")), "{hold}");
    }
    cluster.node(leader).kill();
    until_raised(&living, WAIT_LONG).await;
    living.delete("/v1/locks/slow?session=web-3").await.assert_status(204);
    until("the end", DEADLINE, || async { detail(&living, WAIT_LONG).await.is_none() }).await;
    living.call(Method::PATCH, "/v1/policies/slow?hold_alarm=off").await.assert_status(200);
    assert_eq!(detail(&living, HOLD_OLD).await, None, "the hold of web-4 without a threshold");
}

fn names(body: &Value) -> Vec<&str> {
    let locks = body["locks"].as_array().expect("locks").iter();
    locks.map(|lock| lock["lock"].as_str().expect("a name")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_start_with_the_longest_wait_and_the_oldest_hold_on_every_node() {
    let cluster = Cluster::three().await;
    cluster.wait_ready().await;
    let http = cluster.node(1).http.clone();
    for target in ["a-old?session=a", "b-slow?session=b", "c-new?session=c"] {
        http.put(&format!("/v1/locks/{target}&ttl=5m")).await.assert_status(200);
    }
    http.put("/v1/locks/b-slow?session=d&ttl=5m&enqueue").await.assert_status(202);
    // Stamps are milliseconds.
    let waits = || async { http.lock("b-slow").await["longest_wait_ms"].as_u64() > Some(2) };
    until("a wait of some milliseconds", DEADLINE, waits).await;
    http.put("/v1/locks/a-old?session=e&ttl=5m&enqueue").await.assert_status(202);
    for http in cluster.endpoints() {
        let waits = http.get("/v1/locks?sort=longest-wait").await.assert_status(200).json();
        assert_eq!(names(&waits), ["b-slow", "a-old"], "{waits}");
        let holds = http.get("/v1/locks?sort=oldest-hold&limit=2").await.assert_status(200).json();
        assert_eq!(names(&holds), ["a-old", "b-slow"], "{holds}");
        let slow = http.get("/v1/locks/b-slow").await.assert_status(200).json();
        assert!(slow["longest_wait_ms"].is_u64() && slow["oldest_hold_ms"].is_u64(), "{slow}");
        let page = http.get("/v1/locks?prefix=c-new").await.assert_status(200).json();
        assert!(page["locks"][0]["longest_wait_ms"].is_null(), "{page}");
        assert!(page["locks"][0]["oldest_hold_ms"].is_u64(), "{page}");
    }
    http.get("/v1/locks?sort=longest-wait&held").await.assert_code(400, "invalid-argument");
}

/// The values of a figure at a node.
async fn values(http: &Http, metric: &str) -> Vec<Option<u64>> {
    let body = http.get(&format!("/v1/recent?metric={metric}")).await.assert_status(200).json();
    let values = body["figures"][0]["values"].as_array().expect("values");
    values.iter().map(Value::as_u64).collect()
}

/// Figures of the cluster are those of all calls on every node; the others are of one node.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_remembers_the_figures_of_the_last_quarter_of_an_hour() {
    let cluster = Cluster::three().await;
    cluster.wait_ready().await;
    let [first, second] = [1, 2].map(|id| cluster.node(id).http.clone());
    first.put("/v1/locks/a?session=one&ttl=5m").await.assert_status(200);
    for busy in 0..3 {
        let target = format!("/v1/locks/a?session=busy{busy}&ttl=5m");
        first.put(&target).await.assert_code(423, "lock-busy");
    }
    second.put("/v1/locks/a?session=two&ttl=5m&enqueue").await.assert_status(202);
    let newest = async |http: &Http, metric: &str| values(http, metric).await.last().copied();
    for http in cluster.endpoints() {
        for metric in ["locks_held", "lock_waiters"] {
            let is_known = || async { newest(&http, metric).await == Some(Some(1)) };
            until(metric, DEADLINE, is_known).await;
        }
        let counted = || async { values(&http, "grants").await.contains(&Some(1)) };
        until("the grant in a second", DEADLINE, counted).await;
    }
    let busy =
        || async { values(&first, "acquires_busy").await.iter().flatten().sum::<u64>() >= 3 };
    until("the busy acquires at their node", DEADLINE, busy).await;
    assert_eq!(values(&second, "acquires_busy").await.iter().flatten().sum::<u64>(), 0);
    first.delete("/v1/locks/a?session=one").await.assert_status(204);
    for http in cluster.endpoints() {
        let waited = || async { values(&http, "wait_p50").await.iter().flatten().count() == 1 };
        until("the wait", DEADLINE, waited).await;
    }
    let all = first.get("/v1/recent?last=15m&step=1m").await.assert_status(200).json();
    let figures = all["figures"].as_array().expect("figures");
    let distinct: BTreeSet<_> = figures.iter().map(|of| of["metric"].to_string()).collect();
    assert_eq!((distinct.len(), &all["interval_ms"]), (figures.len(), &60_000.into()));
    assert!(figures.iter().all(|of| of["values"].as_array().expect("values").len() == 1), "{all}");
    assert!(all["ends_at"].as_str().expect("a time").ends_with('Z'), "{all}");
    first.get("/v1/recent?metric=x").await.assert_code(400, "invalid-argument");
    first.get("/v1/recent?last=16m").await.assert_code(400, "bad-duration");
}
