//! `POST /v1/cluster/verify`: the states of real nodes are the same under load, and a node with another state is found.

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

/// Replaces the value in the snapshot of a stopped node, with correct checksums, and returns how often it was found.
fn replace_value(node: &Node) -> usize {
    let snapshots = Snapshots::open(&node.data_dir.join("snapshots")).expect("snapshots");
    let old = snapshots.latest().expect("readable").expect("a snapshot");
    let mut new = snapshots.begin("other").expect("a new snapshot");
    let mut replaced = 0;
    for part in old.parts() {
        let mut part = part.expect("a part").to_vec();
        for at in 0..=part.len().saturating_sub(VALUE.len()) {
            if part[at..].starts_with(VALUE) {
                part[at..at + VALUE.len()].copy_from_slice(OTHER);
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
    let snapshot_has_the_value = |node: &Node| {
        let files = std::fs::read_dir(node.data_dir.join("snapshots")).expect("a directory");
        files.flatten().any(|file| {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            bytes.windows(VALUE.len()).any(|window| window == VALUE)
        })
    };
    until("a snapshot with the value", DEADLINE, async || snapshot_has_the_value(different)).await;
    load.finish().await;
    different.stop().await;
    assert_eq!(replace_value(different), 1);

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
