//! Restarted nodes: with their disk, far behind, or with the disk of another node.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use holdfast_codec::Kind;
use holdfast_machine::Machine;
use holdfast_raft::{RaftStatus, ReadError, StartError};
use holdfast_storage::{Log, LogOptions, Record};
use holdfast_types::{NodeId, Revision};

use crate::lab::{Lab, eventually, has_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_restarts_with_all_data_after_a_kill_of_all_nodes() {
    let mut lab = Lab::start(3).await;
    for n in 0..30 {
        lab.open(n % 3 + 1, &format!("s{n}")).await.unwrap();
    }
    lab.agree().await;
    let before = lab.epoch().await;
    let revision = lab.node(1).read(Machine::revision);
    lab.kill_all().await;
    for id in 1..=3 {
        lab.boot(id).await.unwrap();
    }
    let after = lab.epoch().await;
    assert!(after.term > before.term, "a restarted leader must not resume its term");
    lab.agree().await;
    for n in 0..30 {
        assert!(has_session(lab.node(2), &format!("s{n}")));
    }
    assert!(lab.node(1).read(Machine::revision) >= revision);
    for notes in lab.notes.values() {
        let applied = notes.applied.lock().clone();
        let restored = notes.restored.lock()[0];
        assert!(applied.iter().all(|applied| *applied > restored), "{applied:?} after {restored}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_catches_up_from_the_log() {
    let mut lab = Lab::start(3).await;
    let leader = lab.leader().await;
    let away = lab.follower_of(leader);
    lab.open(away, "before").await.unwrap();
    lab.kill(away).await;
    for n in 0..30 {
        lab.open(leader, &format!("s{n}")).await.unwrap();
    }
    lab.boot(away).await.unwrap();
    lab.agree().await;
    assert!(has_session(lab.node(away), "before") && has_session(lab.node(away), "s29"));
    assert_eq!(lab.node(away).metrics().snapshots_installed.get(), 0);
}

/// A cluster, its leader, and a stopped node that misses entries which the leader has purged.
pub(crate) async fn away_for_too_long() -> (Lab, u64, u64) {
    let mut lab = Lab::start_with(3, |config| {
        config.snapshot_log_bytes = 8 << 10;
        config.log_keep_entries = 1;
        config.log_cache_bytes = 1 << 10;
    })
    .await;
    let leader = lab.leader().await;
    let away = lab.follower_of(leader);
    lab.open(away, "before").await.expect("an open session");
    let missed = lab.node(away).status().last_log_index;
    lab.kill(away).await;
    for n in 0..600 {
        lab.open(leader, &format!("s{n}")).await.expect("an open session");
    }
    eventually("the leader purges what the node misses", || {
        (lab.node(leader).status().purged_index > missed).then_some(())
    })
    .await;
    (lab, leader, away)
}

/// Few large entries would fill the disk otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_purged_by_its_bytes_too() {
    let lab = Lab::start_with(1, |config| config.snapshot_log_bytes = 8 << 10).await;
    let leader = lab.leader().await;
    for n in 0..600 {
        lab.open(leader, &format!("s{n}")).await.unwrap();
    }
    let status = || lab.node(leader).status();
    assert!(status().last_log_index < Some(lab.config(leader).log_keep_entries));
    let most =
        |status: RaftStatus| status.purged_index > status.last_log_index.map(|last| last / 2);
    eventually("a purge of most entries", || most(status()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_too_long_catches_up_by_snapshot() {
    let (mut lab, _, away) = away_for_too_long().await;
    lab.boot(away).await.unwrap();
    lab.agree().await;
    assert!(has_session(lab.node(away), "before") && has_session(lab.node(away), "s599"));
    assert!(lab.node(away).metrics().snapshots_installed.get() >= 1);
    let restored = lab.notes[&away].restored.lock().clone();
    assert!(restored.last() > Some(&Revision(1)), "the observer gets the machine: {restored:?}");

    // After another restart the node loads its own snapshot.
    lab.kill(away).await;
    lab.boot(away).await.unwrap();
    lab.agree().await;
    assert!(has_session(lab.node(away), "s0"));
}

/// The snapshot files of a node.
fn snapshots(lab: &Lab, id: u64) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(lab.dirs[&id].path().join("snapshots")).expect("snapshots");
    listed.map(|entry| entry.expect("a file").path()).collect()
}

/// A snapshot damaged in transit, or by the peer's disk, does not damage the receiver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_of_a_peer_is_rejected_and_a_whole_one_is_installed() {
    let (mut lab, leader, away) = away_for_too_long().await;
    for path in snapshots(&lab, leader) {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
    lab.boot(away).await.unwrap();
    let refused = || lab.node(away).metrics().snapshots_refused.get();
    eventually("the node refuses the snapshot", || (refused() > 0).then_some(())).await;
    assert_eq!(lab.node(away).failed(), None, "the node continues");
    // The next snapshot is whole.
    for n in 600..900 {
        lab.open(leader, &format!("s{n}")).await.unwrap();
    }
    lab.agree().await;
    assert!(has_session(lab.node(away), "s0") && has_session(lab.node(away), "s899"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_node_is_rejected_under_its_old_id() {
    let mut lab = Lab::start(3).await;
    let leader = lab.leader().await;
    lab.registered().await;
    lab.agree().await;
    let wiped = lab.follower_of(leader);
    lab.kill(wiped).await;
    lab.dirs.insert(wiped, tempfile::tempdir().unwrap());
    lab.boot(wiped).await.unwrap();
    lab.open(leader, "after").await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(4);
    let read = lab.node(wiped).read_barrier(deadline).await;
    assert_eq!(read, Err(ReadError::NoLeader));
    assert_eq!(lab.node(wiped).read(Machine::revision), Revision(0));
    assert!(!lab.node(leader).status().peers[&NodeId(wiped)].connected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_of_another_cluster_or_node_is_rejected() {
    let mut lab = Lab::start(3).await;
    lab.leader().await;
    let error = lab.boot(2).await.unwrap_err();
    assert!(matches!(error, StartError::InUse(_)), "{error}");
    lab.kill_all().await;
    lab.cluster = "other".into();
    let error = lab.boot(1).await.unwrap_err();
    assert!(matches!(error, StartError::OtherCluster { .. }), "{error}");
    lab.cluster = "lab".into();
    let mut config = lab.config(1);
    config.data_dir = lab.dirs[&2].path().to_owned();
    let notes = lab.notes[&1].clone();
    let error = holdfast_raft::RaftNode::start(config, |_| notes).await.err().unwrap();
    assert!(matches!(error, StartError::OtherNode { .. }), "{error}");
    lab.boot(1).await.unwrap();
}

/// A record with a correct checksum, and a payload that only a later holdfast knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_a_newer_holdfast_is_not_damage() {
    let mut lab = Lab::start(3).await;
    lab.leader().await;
    lab.kill_all().await;
    let log = Log::open(&lab.dirs[&1].path().join("log"), LogOptions::default()).unwrap();
    let index = log.bounds().1.unwrap() + 1;
    let (position, unknown_payload) = ((1_u64, 1_u64, index), 99_u32);
    let bytes = holdfast_codec::encode(Kind::Record, &(position, unknown_payload)).unwrap();
    let (done, stored) = mpsc::channel();
    let record = Record { index, bytes: bytes.into() };
    log.append(vec![record], Box::new(move |result| done.send(result).unwrap())).unwrap();
    stored.recv().unwrap().unwrap();
    log.shutdown();
    let error = lab.boot(1).await.unwrap_err();
    assert!(matches!(error, StartError::OldProgram(_)), "{error}");
    let reason = error.to_string();
    assert!(reason.contains(&format!("entry {index} of the log")), "{reason}");
    assert!(reason.contains("start this node with the newer version that wrote it"), "{reason}");
}
