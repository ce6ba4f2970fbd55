//! Row 65: durable holds, on a node that is killed.

use holdfast_lab::zk::{ZkClient, delete};
use holdfast_lab::{Cluster, DEADLINE, until};
use serde_json::{Value, json};

const HOLD: &str = "/v1/locks/freeze?hold=durable&owner=carol&attempt=1&reason=moving+to+v2";

/// A durable hold has no lease, so neither time nor a restart ends it. Its alarm is raised by its age and ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn row_65_a_durable_hold_survives_restarts_and_raises_an_alarm() {
    let extra = "[locks]\ndurable_alarm_after = \"1s\"\n";
    let cluster = Cluster::of(1).extra(extra).start().await;
    let http = cluster.node(1).http.clone();
    let token = http.put(HOLD).await.assert_status(200).token();
    let waiting = http.queue_up("freeze?session=next");
    http.until_waiters("freeze", 1).await;
    cluster.node(1).kill();
    cluster.node(1).start();
    cluster.wait_ready().await;
    drop(waiting);
    assert_eq!(http.put(HOLD).await.assert_status(200).token(), token);
    // A lease of one second begins after it, and ends before.
    http.take("short?session=dead&ttl=1s").await;
    until("the end of a lease", DEADLINE, || async {
        http.lock("short").await["held"] == json!(false)
    })
    .await;
    let alarms = async || http.get("/v1/alarms").await.json()["alarms"].clone();
    let old = async || {
        let alarms = alarms().await;
        let mut all = alarms.as_array().expect("alarms").iter();
        all.find(|alarm| alarm["name"] == "durable-hold-old").cloned()
    };
    until("the alarm", DEADLINE, || async { old().await.is_some() }).await;
    let detail = old().await.map_or(Value::Null, |alarm| alarm["detail"].clone());
    let detail = detail.as_str().expect("a detail");
    assert!(
        detail.starts_with("freeze by carol for ") && detail.ends_with(": moving to v2"),
        "{detail}"
    );
    let release = format!("/v1/locks/freeze?hold=durable&owner=carol&token={token}");
    http.delete(&release).await.assert_status(204);
    until("the end of the alarm", DEADLINE, || async { old().await.is_none() }).await;
    let history = http.get("/v1/history/freeze").await.json();
    // The first is the hold of the next session.
    let past = &history["holds"][1];
    assert_eq!(
        (&past["owner"], &past["cause"]),
        (&json!("carol"), &json!("released")),
        "{history}"
    );
    let next = http.lock("freeze").await;
    assert!(next["holders"][0]["token"].as_u64() > Some(token), "{next}");
}

/// A ZooKeeper client sees an ephemeral sequential znode of a session that never expires, and queues behind it.
#[tokio::test(flavor = "multi_thread")]
async fn row_65_a_zookeeper_client_queues_behind_a_durable_hold() {
    let (cluster, http) = crate::lab::one().await;
    let token = http.put(HOLD).await.assert_status(200).token();
    let mut zk = ZkClient::open(cluster.node(1).zookeeper, 40_000).await;
    let mine = zk.create("/locks/freeze/lock-", 3).await;
    let mut names = zk.children("/locks/freeze").await;
    names.sort();
    let [first, second] = &names[..] else { panic!("{names:?}") };
    assert!(mine.ends_with(second.as_str()), "{names:?}");
    let durable = format!("/locks/freeze/{first}");
    assert!(zk.owner(&durable).await > Some(0), "an ephemeral znode");
    let release = format!("/v1/locks/freeze?hold=durable&owner=carol&token={token}");
    http.delete(&release).await.assert_status(204);
    zk.sync().await;
    assert_eq!(zk.children("/locks/freeze").await, std::slice::from_ref(second));
    let next = http.lock("freeze").await;
    assert!(next["holders"][0]["token"].as_u64() > Some(token), "{next}");
    // A delete of the znode ends the hold as a force-release does.
    zk.done(delete(&mine, -1)).await;
    http.put(&HOLD.replace("attempt=1", "attempt=2")).await.assert_status(200);
    let held = zk.children("/locks/freeze").await;
    zk.done(delete(&format!("/locks/freeze/{}", held[0]), -1)).await;
    assert_eq!(http.lock("freeze").await["held"], json!(false));
    let records = http.get("/v1/audit").await.json()["records"].clone();
    let mut all = records.as_array().expect("records").iter();
    assert!(all.any(|one| one["action"] == "force-release"), "{records}");
}
