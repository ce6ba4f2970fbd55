//! A node whose disk fails stops voting and serving.

use holdfast_raft::{ProposeError, ReadError, Role, Urgency};
use holdfast_storage::{FaultyDisk, Log, StoreError};

use crate::lab::{Lab, eventually, has_session, open_session, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_fails_stops_and_the_others_continue() {
    let disk = FaultyDisk::default();
    let mut lab = Lab::prepare(3, |_| {}).await;
    lab.log = Some((1, Log::with_disk(disk.open()).unwrap()));
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
