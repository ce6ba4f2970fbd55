//! A cluster elects, accepts writes on every node, survives a killed leader, restarts, and answers reads.

mod lab;

use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_machine::Machine;
use holdfast_raft::{ProposeError, ReadError, Role};
use holdfast_types::NodeId;

use self::lab::{Lab, eventually, has_session, open_session, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_accepts_writes_and_all_apply_them_alike() {
    let lab = Lab::start(3).await;
    let leader = lab.leader().await;
    for id in 1..=3 {
        let done = lab.open(id, &format!("s{id}")).await.unwrap();
        assert!(done.outcome.is_ok(), "{done:?}");
        assert!(has_session(lab.node(leader), &format!("s{id}")));
    }
    lab.agree().await;
    assert_eq!(lab.node(leader).status().role, Role::Leader);
    let follower = lab.follower_of(leader);
    assert_eq!(lab.node(follower).status().role, Role::Follower);
    assert!(lab.node(follower).status().leader_contact.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_is_a_cluster() {
    let lab = Lab::start(1).await;
    assert_eq!(lab.leader().await, 1);
    assert!(lab.open(1, "s").await.unwrap().outcome.is_ok());
    lab.node(1).read_barrier(soon()).await.unwrap();
    assert!(has_session(lab.node(1), "s"));
}
