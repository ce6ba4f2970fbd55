//! The states of real nodes are the same under load. `POST /v1/cluster/verify` finds a node with another state, and a node whose
//! results differ stops before it serves clients.

use holdfast_lab::{Cluster, DEADLINE, History, Load, Node, until};
use holdfast_storage::Snapshots;
use serde_json::{Value, json};

/// A value in the state, and what one node has instead.
const VALUE: &[u8] = b"value-of-the-majority";
const OTHER: &[u8] = b"value-of-one-node----";
/// The length of the head of an encoded part. The checksum is in its last four bytes.
const HEAD: usize = 12;

async fn verify(node: &Node) -> Value {
    node.http.post("/v1/cluster/verify").await.assert_status(200).json()
}

fn states(verification: &Value) -> Vec<&str> {
    let members = verification["members"].as_array().expect("a list");
    members.iter().map(|member| member["state"].as_str().expect("a word")).collect()
}

/// Replaces bytes in the snapshot of a stopped node, with correct checksums, and returns how often they were found.
fn replace_in_snapshot(node: &Node, from: &[u8], to: &[u8]) -> usize {
    let snapshots = Snapshots::open(&node.data_dir.join("snapshots")).expect("snapshots");
    let old = snapshots.latest().expect("readable").expect("a snapshot");
    let mut new = snapshots.begin("other").expect("a new snapshot");
    let mut replaced = 0;
    for part in old.parts() {
        let mut part = part.expect("a part").to_vec();
        for at in 0..=part.len().saturating_sub(from.len()) {
            if part[at..].starts_with(from) {
                part[at..at + from.len()].copy_from_slice(to);
                replaced += 1;
            }
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&part[..8]), &part[HEAD..]);
        part[8..HEAD].copy_from_slice(&checksum.to_le_bytes());
        new.write_part(&part).expect("written");
    }
    new.finish(old.meta()).expect("the snapshot");
    replaced
}

fn snapshot_has(node: &Node, wanted: &[u8]) -> bool {
    let files = std::fs::read_dir(node.data_dir.join("snapshots")).expect("a directory");
    files.flatten().any(|file| {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        bytes.windows(wanted.len()).any(|window| window == wanted)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_state_is_found_although_its_replies_were_right() {
    let cluster = Cluster::of(3).extra("[storage]\nsnapshot_log = \"64KiB\"\n").start().await;
    let leader = cluster.wait_ready().await;
    let value = std::str::from_utf8(VALUE).expect("a text");
    cluster.node(leader).http.put_data("/v1/tree/settings", value).await.assert_status(201);

    let load = Load { holders: 0, competing_clients: 16, hot_locks: 8 }
        .start(&cluster.endpoints(), &History::default());
    for node in cluster.nodes() {
        let verification = verify(node).await;
        assert_eq!(verification["same"], true, "{verification}");
        assert_eq!(states(&verification), ["same"; 3], "{verification}");
    }
    let different = cluster.others(leader).next().expect("a follower");
    let has_value = async || snapshot_has(different, VALUE);
    until("a snapshot with the value", DEADLINE, has_value).await;
    load.finish().await;
    different.stop().await;
    assert_eq!(replace_in_snapshot(different, VALUE, OTHER), 1);

    let leader = cluster.node(cluster.wait_ready().await);
    let verification = verify(leader).await;
    assert_eq!(verification["same"], false, "{verification}");
    assert_eq!(states(&verification).iter().filter(|state| **state == "unknown").count(), 1);
    different.start();
    until("the node to follow", DEADLINE, async || different.is_ready().await).await;
    let verification = verify(leader).await;
    assert_eq!(verification["same"], false, "{verification}");
    let found = verification["members"].as_array().expect("a list").iter();
    let found: Vec<_> = found.filter(|member| member["state"] == "different").collect();
    assert_eq!(found.len(), 1, "{verification}");
    assert_eq!(found[0]["id"], json!(different.id), "{verification}");
}

/// The znode has another name on one node. Its deletion while that node is stopped has another result there. The node finds
/// that when it starts, also a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_results_differ_stops_before_it_serves() {
    const NAME: &[u8] = b"name-on-the-majority";
    let cluster = Cluster::of(3).extra("[storage]\nsnapshot_log = \"64KiB\"\n").start().await;
    let leader = cluster.wait_ready().await;
    let znode = format!("/v1/tree/{}", std::str::from_utf8(NAME).expect("a text"));
    cluster.node(leader).http.put_data(&znode, "x").await.assert_status(201);
    let load = Load { holders: 0, competing_clients: 16, hot_locks: 8 }
        .start(&cluster.endpoints(), &History::default());
    let different = cluster.others(leader).next().expect("a follower");
    let has_name = async || snapshot_has(different, NAME);
    until("a snapshot with the name", DEADLINE, has_name).await;
    load.finish().await;
    different.stop().await;
    assert!(replace_in_snapshot(different, NAME, b"name-on-the-minority") > 0);
    let leader = cluster.node(cluster.wait_ready().await);
    leader.http.delete(&znode).await.assert_status(204);

    for _ in 0..2 {
        different.start();
        until("the node to stop", DEADLINE, async || {
            let ended = different.ended().is_some();
            assert!(ended || !different.is_ready().await, "the node served clients");
            ended
        })
        .await;
        assert_eq!(different.exit_code().await, Some(70), "{}", different.log_tail());
        assert!(different.log_tail().contains("differs from the majority's"));
    }
    leader.http.put("/v1/locks/meanwhile?session=x&ttl=60s").await.assert_status(200);
}
