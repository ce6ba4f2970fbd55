//! A node whose disk fails stops voting and serving.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_raft::{ProposeError, ReadError, Role, StopReason, Urgency};
use holdfast_storage::{FaultyDisk, StoreError};

use crate::lab::{Lab, eventually, has_session, open_session, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_fails_stops_and_the_others_continue() {
    let disk = FaultyDisk::default();
    let mut lab = Lab::prepare(3, |_| {}).await;
    lab.disks.insert(1, disk.clone());
    for id in 1..=3 {
        lab.boot(id).await.unwrap();
    }
    lab.leader().await;
    lab.open(1, "before").await.unwrap();
    disk.fail_at(0, StoreError::Full { action: "a test".into() });
    // Any write reaches the disk of the node, whichever node leads. Any result is allowed except a false success.
    let provoked = lab.node(1).propose(open_session("provoked"), Urgency::Immediate, soon());
    let failed = lab.node(1).wait_failed();
    let (provoked, reason) = futures_util::future::join(provoked, failed).await;
    assert!(reason.to_string().contains("disk is full"), "{reason}");
    assert_eq!(lab.node(1).failed(), Some(reason));
    eventually("the failed node reports its failure", || {
        (lab.node(1).status().role == Role::Stopped).then_some(())
    })
    .await;
    assert_eq!(
        lab.node(1).propose(open_session("x"), Urgency::Immediate, soon()).await,
        Err(ProposeError::Failed)
    );
    assert_eq!(lab.node(1).read_barrier(soon()).await, Err(ReadError::Failed));

    lab.kill(1).await;
    let leader = lab.leader().await;
    lab.open(leader, "after").await.unwrap();
    lab.agree().await;
    assert!(has_session(lab.node(leader), "before"));
    if provoked.is_ok() {
        assert!(has_session(lab.node(leader), "provoked"), "acknowledged and lost");
    }
}

/// A running node rarely reads its old files, so only a scrub finds damage in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_finds_a_damaged_byte_and_the_node_stops() {
    for damaged in ["snapshots", "log"] {
        let mut lab = Lab::start_with(3, |config| {
            config.snapshot_log_bytes = 8 << 10;
            config.scrub_every = Duration::from_millis(50);
        })
        .await;
        for n in 0..200 {
            lab.open(lab.leader().await, &format!("s{n}")).await.unwrap();
        }
        lab.agree().await;
        let node = lab.follower_of(lab.leader().await);
        eventually("a scrub without damage", || {
            (lab.node(node).metrics().last_scrub.get() > 0).then_some(())
        })
        .await;
        // The newest entries of the log are in no snapshot yet, so no purge removes the damaged one.
        for n in 100..108 {
            lab.open(lab.leader().await, &format!("new-s{n}")).await.unwrap();
        }
        lab.agree().await;
        let file = eventually("a file", || {
            let listed = std::fs::read_dir(lab.dirs[&node].path().join(damaged)).unwrap();
            let paths = listed.map(|entry| entry.unwrap().path());
            let whole = |path: &PathBuf| {
                path.extension().is_some_and(|kind| kind == "snap" || kind == "log")
            };
            paths.filter(whole).min()
        })
        .await;
        flip_a_byte(&file);
        let stopped = lab.node(node).wait_failed().await;
        let StopReason::Failed(why) = stopped else { panic!("{stopped:?}") };
        assert!(why.contains("fails its checksum"), "{damaged}: {why}");
        let others: Vec<u64> = (1..=3).filter(|id| *id != node).collect();
        assert!(others.iter().all(|id| lab.node(*id).failed().is_none()));
        lab.kill(node).await;
        lab.open(others[0], "after").await.unwrap();
    }
}

/// Flips one bit in the name of a session.
fn flip_a_byte(file: &Path) {
    use std::os::unix::fs::FileExt as _;
    let bytes = std::fs::read(file).expect("a file");
    let at = bytes.windows(2).rposition(|name| name == b"s1").expect("the name of a session");
    let open = std::fs::OpenOptions::new().write(true).open(file).expect("a file");
    open.write_all_at(&[bytes[at] ^ 0x10], at as u64).expect("a write");
    open.sync_all().expect("a sync");
}
