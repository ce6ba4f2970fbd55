//! Members that are replaced without an operator: by a standby, and by their own emptied node.

#![expect(clippy::unwrap_used, reason = "a failed command is a failed test")]

use std::time::{Duration, Instant};

use holdfast_lab::Flow;
use holdfast_machine::Machine;
use holdfast_raft::{
    JoinRequest, RaftConfig, StartError, StopReason, Urgency, readmitted_as, write_join_request,
};
use holdfast_types::{ClusterId, MembershipChange, NodeId, VotingRole};

use crate::lab::{Lab, eventually, has_session, open_session, soon};

async fn write(lab: &Lab, through: u64, name: &str) {
    let node = lab.node(through);
    node.propose(open_session(name), Urgency::Immediate, soon()).await.unwrap().outcome.unwrap();
}

fn replaced_early(config: &mut RaftConfig) {
    config.replace_after = Duration::from_secs(2);
}

/// Three voters and a standby. Returns the leader and the standby.
async fn with_standby() -> (Lab, u64, u64) {
    let mut lab = Lab::start_with(3, replaced_early).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let standby = lab.invite_standby(leader).await;
    lab.boot(standby).await.unwrap();
    lab.voters(&[1, 2, 3]).await;
    (lab, leader, standby)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_voter_is_replaced() {
    let mut lab = Lab::start(1).await;
    lab.registered().await;
    write(&lab, 1, "before").await;
    let joiner = lab.invite(1, Some(1)).await;
    lab.boot(joiner).await.unwrap();
    let reason = lab.node(1).wait_failed().await;
    assert!(matches!(reason, StopReason::Removed(_)), "{reason:?}");
    lab.kill(1).await;
    lab.voters(&[joiner]).await;
    write(&lab, joiner, "after").await;
    assert!(has_session(lab.node(joiner), "before"));
}

fn rejoining(config: &mut RaftConfig) {
    config.rejoin_when_emptied = true;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_replaces_a_dead_voter_and_the_dead_one_is_refused_when_it_returns() {
    let (mut lab, leader, standby) = with_standby().await;
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

/// The leader dies, and its successor replaces it. The successor measures the silence from the start of its own leadership.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_replaces_a_dead_leader() {
    let (mut lab, leader, _) = with_standby().await;
    lab.kill(leader).await;
    let voters: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
    lab.voters(&voters).await;
    lab.agree().await;
}

/// The replacement would wait for the link, and would block every other change meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_a_voter_does_not_reach_replaces_nothing() {
    let mut lab = Lab::start_with(4, replaced_early).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let mut others = (1..=4).filter(|id| *id != leader);
    let [standby, other, dead] = [(); 3].map(|()| others.next().unwrap());
    let (node, role) = (NodeId(standby), VotingRole::Standby);
    lab.change(leader, MembershipChange::SetRole { node, role }).await.unwrap();
    let voters = |without: u64| (1..=4).filter(|id| *id != without).collect::<Vec<_>>();
    lab.voters(&voters(standby)).await;
    lab.links.set(other, standby, Flow::Cut);
    lab.kill(dead).await;
    eventually("the reason", || {
        let reason = lab.node(leader).status().change_waits_for;
        reason.filter(|why| why.contains(&format!("node {other} does not reach node {standby}")))
    })
    .await;
    let member = lab.node(leader).read(|machine| machine.member(node).cloned());
    assert_eq!(member.map(|it| (it.role, it.pending)), Some((VotingRole::Standby, None)));
    lab.links.heal();
    lab.voters(&voters(dead)).await;
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
    let refused = readmitted_as(&used, NodeId(configured)).unwrap_err();
    assert!(matches!(refused, StartError::OtherNode { .. }), "{refused}");
    std::fs::write(used.join("join"), before).unwrap();
    // Nor does it give the directory to a node with another configured id.
    assert_eq!(readmitted_as(&used, NodeId(leader)).unwrap(), None);
    let dir = lab.dirs.remove(&current).unwrap();
    lab.dirs.insert(configured, dir);
    assert_eq!(lab.boot_as_of_directory(configured, leader).await, current);
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
    // The leader invites an emptied node after 5 s of silence.
    let began = Instant::now();
    let mut pause = tokio::time::interval(Duration::from_millis(100));
    while began.elapsed() < Duration::from_secs(8) {
        pause.tick().await;
        write(&lab, leader, "meanwhile").await;
    }
    assert_eq!(lab.node(leader).read(Machine::highest_member), NodeId(3));
    drop((node, dir));
}

/// The cluster has written nothing for a while, so its applied time stands still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_member_of_an_idle_cluster_returns_also_after_it_asked_twice() {
    let mut lab = Lab::start_with(3, rejoining).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let configured = lab.follower_of(leader);
    lab.kill(configured).await;
    lab.dirs.insert(configured, tempfile::tempdir().unwrap());
    // The node asks, and restarts before it gets the invitation.
    lab.boot_as_of_directory(configured, leader).await;
    eventually("the invitation", || {
        (lab.node(leader).read(Machine::highest_member) > NodeId(3)).then_some(())
    })
    .await;
    lab.kill(configured).await;
    let mut current = lab.boot_as_of_directory(configured, leader).await;
    if current == configured {
        let reason = lab.node(configured).wait_failed().await;
        assert!(matches!(reason, StopReason::Readmitted(_)), "{reason:?}");
        lab.kill(configured).await;
        current = lab.boot_as_of_directory(configured, leader).await;
    }
    assert_eq!(current, 4);
    let voters: Vec<u64> = (1..=4).filter(|id| *id != configured).collect();
    lab.voters(&voters).await;
    lab.agree().await;
}
