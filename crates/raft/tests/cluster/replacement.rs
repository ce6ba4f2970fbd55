//! Members that are replaced without an operator: by a standby, and by their own emptied node.

#![expect(clippy::unwrap_used, reason = "a failed command is a failed test")]

use std::time::Duration;

use holdfast_machine::Machine;
use holdfast_raft::{
    JoinRequest, RaftConfig, StartError, StopReason, Urgency, node_of_directory, write_join_request,
};
use holdfast_types::{ClusterId, NodeId};

use crate::lab::{Lab, eventually, has_session, open_session, soon};

async fn write(lab: &Lab, through: u64, name: &str) {
    let node = lab.node(through);
    node.propose(open_session(name), Urgency::Immediate, soon()).await.unwrap().outcome.unwrap();
}

fn replaced_early(config: &mut RaftConfig) {
    config.replace_after = Duration::from_secs(2);
}

fn rejoining(config: &mut RaftConfig) {
    config.rejoin_when_emptied = true;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_replaces_a_dead_voter_and_the_dead_one_is_refused_when_it_returns() {
    let mut lab = Lab::start_with(3, replaced_early).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let standby = lab.invite_standby(leader).await;
    lab.boot(standby).await.unwrap();
    lab.voters(&[1, 2, 3]).await;
    write(&lab, leader, "before").await;
    let dead = lab.follower_of(leader);
    lab.kill(dead).await;
    let voters: Vec<u64> = (1..=4).filter(|id| *id != dead).collect();
    lab.voters(&voters).await;
    write(&lab, standby, "after").await;
    lab.agree().await;

    let returned = lab.boot(dead).await.unwrap();
    let StopReason::Removed(why) = returned.wait_failed().await else { panic!() };
    assert!(why.contains(&format!("node {standby} replaced it")), "{why}");
}

/// The leader dies: its successor replaces it, because it counts the silence from the start of its own leadership.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_replaces_a_dead_leader() {
    let mut lab = Lab::start_with(3, replaced_early).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let standby = lab.invite_standby(leader).await;
    lab.boot(standby).await.unwrap();
    lab.voters(&[1, 2, 3]).await;
    lab.kill(leader).await;
    let voters: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
    lab.voters(&voters).await;
    lab.agree().await;
}

/// Twice, because the configuration still has the first id after the node got another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_member_returns_under_a_new_id() {
    let mut lab = Lab::start_with(3, rejoining).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let configured = lab.follower_of(leader);
    write(&lab, leader, "before").await;
    let (mut current, mut first_dir) = (configured, None);
    for round in 1..=2_u64 {
        lab.kill(current).await;
        let full = lab.dirs.remove(&current).unwrap();
        first_dir.get_or_insert(full);
        lab.dirs.insert(configured, tempfile::tempdir().unwrap());
        assert_eq!(lab.boot_as_of_directory(configured, leader).await, configured);
        let reason = lab.node(configured).wait_failed().await;
        assert!(matches!(reason, StopReason::Readmitted(_)), "{reason:?}");
        lab.kill(configured).await;
        current = lab.boot_as_of_directory(configured, leader).await;
        assert_eq!(current, 3 + round);
        let voters: Vec<u64> = (1..=3).filter(|id| *id != configured).chain([current]).collect();
        lab.voters(&voters).await;
        write(&lab, current, &format!("round{round}")).await;
        lab.agree().await;
        assert!(has_session(lab.node(current), "before"));
    }
    // An invitation does not make a directory with a log that of another node.
    let used = lab.dirs[&current].path().to_owned();
    lab.kill(current).await;
    let other = tempfile::tempdir().unwrap();
    let (cluster, cluster_id, node) = (lab.cluster.clone(), ClusterId(1), NodeId(9));
    write_join_request(other.path(), &JoinRequest { cluster, cluster_id, node, secret: [0; 32] })
        .unwrap();
    let before = std::fs::read(used.join("join")).unwrap();
    std::fs::copy(other.path().join("join"), used.join("join")).unwrap();
    let refused = node_of_directory(&used).unwrap_err();
    assert!(matches!(refused, StartError::OtherNode { .. }), "{refused}");
    std::fs::write(used.join("join"), before).unwrap();
    assert_eq!(lab.boot_as_of_directory(current, leader).await, current);
    // The directory with the old votes returns, and is refused.
    lab.kill(current).await;
    lab.dirs.insert(configured, first_dir.unwrap());
    assert_eq!(lab.boot_as_of_directory(configured, leader).await, configured);
    let reason = lab.node(configured).wait_failed().await;
    assert!(matches!(reason, StopReason::Removed(_)), "{reason:?}");
}

/// A node that works is not replaced by a stranger that claims its address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_answers_is_not_replaced_by_an_emptied_node() {
    let mut lab = Lab::start_with(3, rejoining).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let works = lab.follower_of(leader);
    let (node, dir) = (lab.nodes.remove(&works).unwrap(), lab.dirs.remove(&works).unwrap());
    lab.dirs.insert(works, tempfile::tempdir().unwrap());
    lab.boot_as_of_directory(works, leader).await;
    // Calls to the member still reach the node that works.
    lab.links.point(works, Some(node.peer_address()));
    eventually("a refusal", || {
        let waiting = lab.node(works).status().waiting_for;
        waiting.filter(|text| text.contains("another data directory")).map(drop)
    })
    .await;
    for name in 0..20 {
        write(&lab, leader, &format!("meanwhile{name}")).await;
    }
    assert_eq!(lab.node(leader).read(Machine::highest_member), NodeId(3));
    drop((node, dir));
}
