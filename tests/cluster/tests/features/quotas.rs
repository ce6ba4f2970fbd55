//! Row 51: quotas of subtrees over HTTP, as clients of ZooKeeper see them, with the alarm of a soft limit.

use holdfast_lab::zk::{ZkClient, create, create_with, delete, exists};
use holdfast_lab::{DEADLINE, Http, until};
use holdfast_zkwire::Acl;
use serde_json::{Value, json};

/// The error of ZooKeeper for a hard quota.
const QUOTA_EXCEEDED: i32 = -125;
const NO_NODE: i32 = -101;

async fn alarm(http: &Http, name: &str) -> Option<Value> {
    let alarms = http.get("/v1/alarms").await.json()["alarms"].clone();
    let mut all = alarms.as_array().expect("alarms").iter();
    all.find(|alarm| alarm["name"] == name).map(|alarm| alarm["detail"].clone())
}

/// What `setquota`, `listquota` and `delquota` of zkCli read and write.
#[tokio::test(flavor = "multi_thread")]
async fn row_51_http_and_zookeeper_clients_see_one_quota() {
    let (cluster, http) = crate::lab::one().await;
    let mut zk = ZkClient::open(cluster.node(1).zookeeper, 40_000).await;
    let [limits, stats] =
        ["limits", "stats"].map(|kind| format!("/zookeeper/quota/shop/zookeeper_{kind}"));
    zk.create("/shop", 0).await;
    http.put("/v1/tree-quotas/shop?znodes=2&soft_znodes=1").await.assert_status(204);
    assert_eq!(zk.data(&limits).await, b"count=1,bytes=-1=;countHardLimit=2");
    assert_eq!(zk.data(&stats).await, b"count=1,bytes=0");
    zk.create("/shop/a", 0).await;
    assert_eq!(zk.error(create("/shop/b", 0)).await, QUOTA_EXCEEDED);
    // setquota -n 5 of zkCli keeps the hard limit.
    zk.set(&limits, b"count=5,bytes=-1=;countHardLimit=2").await;
    let read = http.get("/v1/tree-quotas/shop").await.assert_status(200).json();
    assert_eq!(read["limits"], json!({ "soft_znodes": 5, "znodes": 2 }));
    assert_eq!(read["used"], json!({ "znodes": 2, "bytes": 0 }));
    http.delete("/v1/tree-quotas/shop").await.assert_status(204);
    assert_eq!(zk.error(exists("/zookeeper/quota/shop", false)).await, NO_NODE);
    // Both directions.
    zk.create("/zookeeper/quota/shop", 0).await;
    let data = b"count=7,bytes=-1";
    zk.done(create_with(&limits, 0, data, vec![Acl::open()])).await;
    zk.done(create_with(&stats, 0, b"count=0,bytes=0", vec![Acl::open()])).await;
    let listed = http.get("/v1/tree-quotas").await.assert_status(200).json();
    assert_eq!(listed["quotas"][0]["limits"], json!({ "soft_znodes": 7 }), "{listed}");
    for path in [&limits, &stats, "/zookeeper/quota/shop"] {
        zk.done(delete(path, -1)).await;
    }
    http.get("/v1/tree-quotas/shop").await.assert_code(404, "not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_51_a_soft_limit_raises_an_alarm_that_ends_and_a_nearly_reached_hard_one_is_near() {
    let (cluster, http) = crate::lab::one().await;
    http.put("/v1/tree-quotas/shop?soft_znodes=1&bytes=10").await.assert_status(204);
    for (target, status) in [("/v1/tree/shop", 201), ("/v1/tree/shop/a", 201)] {
        http.put(target).await.assert_status(status);
    }
    assert_eq!(alarm(&http, "tree-quota-soft").await, Some(json!("znodes of /shop 2 of 1")));
    let warning = "the subtree is above a soft limit of its quota";
    assert_eq!(cluster.node(1).log_lines_with(warning), 1);
    assert_eq!(alarm(&http, "quota-near").await, None);
    http.put_data("/v1/tree/shop/a", "123456789").await.assert_status(200);
    assert_eq!(alarm(&http, "quota-near").await, Some(json!("bytes of /shop 9 of 10")));
    http.delete("/v1/tree/shop/a").await.assert_status(204);
    for name in ["tree-quota-soft", "quota-near"] {
        assert_eq!(alarm(&http, name).await, None, "{name}");
    }
    let metric = r#"holdfast_alarm{name="tree-quota-soft"}"#;
    until("the end of the alarm in the metrics", DEADLINE, || async {
        http.metric_value(metric).await == 0
    })
    .await;
}
