//! The bootstrap of a cluster: once, never again by a majority without its disks, and only with members whose data
//! directories are registered.

#![expect(clippy::unwrap_used, reason = "a laboratory that cannot be set up is a failed test")]

use holdfast_lab::Flow;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_raft::{Role, StartError, Urgency, permit_new_cluster};
use holdfast_types::{FeatureLevel, NodeId, Revision};

use crate::lab::{Lab, eventually, has_session, open_session};

/// A time that is long enough for several elections.
const WHILE: Duration = Duration::from_secs(6);

fn wipe(lab: &mut Lab, id: u64) {
    lab.dirs.insert(id, tempfile::tempdir().unwrap());
}

/// Asserts that no running node leads, and that no node accepts a write.
async fn stays_leaderless(lab: &Lab) {
    for node in lab.nodes.values() {
        let refused =
            node.propose(open_session("forged"), Urgency::Immediate, Instant::now() + WHILE).await;
        assert!(refused.is_err(), "node {} wrote {refused:?}", node.node());
        assert_ne!(node.status().role, Role::Leader);
        assert_eq!(node.leadership().borrow().leader, None);
    }
}

async fn waiting_for(lab: &Lab, id: u64, words: &str) {
    eventually(&format!("node {id} to wait for {words:?}"), || {
        lab.node(id).status().waiting_for.filter(|why| why.contains(words))
    })
    .await;
}

/// A cluster that an operator bootstrapped with nodes 1 and 2, without node 3.
async fn bootstrapped_without_the_third() -> Lab {
    let mut lab = Lab::prepare(3, |config| config.bootstrap = config.node == NodeId(2)).await;
    lab.boot(1).await.unwrap();
    lab.boot(2).await.unwrap();
    lab.tune = |_| {};
    lab.leader().await;
    lab.open(1, "first").await.unwrap();
    lab.agree().await;
    lab
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_bootstrapped_when_all_members_are_present_and_not_before() {
    let mut lab = Lab::prepare(3, |_| {}).await;
    lab.boot(2).await.unwrap();
    lab.boot(1).await.unwrap();
    waiting_for(&lab, 1, "node 3").await;
    waiting_for(&lab, 2, "node 3").await;
    stays_leaderless(&lab).await;
    lab.boot(3).await.unwrap();
    lab.leader().await;
    lab.registered().await;
    eventually("no node to wait", || {
        lab.nodes.values().all(|node| node.status().waiting_for.is_none()).then_some(())
    })
    .await;
    let id = eventually("the first command", || lab.node(1).read(Machine::cluster_id)).await;
    lab.agree().await;
    for node in lab.nodes.values() {
        assert_eq!(node.read(Machine::cluster_id), Some(id));
        assert_eq!(node.read(Machine::level), FeatureLevel::NEWEST);
    }
    lab.kill_all().await;
    lab.boot(2).await.unwrap();
    let again = eventually("the log", || lab.node(2).read(Machine::cluster_id)).await;
    assert_eq!(again, id, "the id survives a restart");
}

/// A stopped cluster with an acknowledged write, in which nodes 1 and 2 have lost their disks.
async fn wiped_majority() -> Lab {
    let mut lab = Lab::start(3).await;
    let leader = lab.leader().await;
    lab.open(leader, "acknowledged").await.unwrap();
    lab.agree().await;
    lab.kill_all().await;
    wipe(&mut lab, 1);
    wipe(&mut lab, 2);
    lab
}

/// The disks of a majority are lost, and the survivor is down: its two blank peers do not bootstrap a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_majority_bootstraps_no_cluster_while_the_survivor_is_down() {
    let mut lab = wiped_majority().await;
    lab.boot(1).await.unwrap();
    lab.boot(2).await.unwrap();
    waiting_for(&lab, 1, "waiting for node 3").await;
    stays_leaderless(&lab).await;

    lab.boot(3).await.unwrap();
    waiting_for(&lab, 1, "restore that directory").await;
    stays_leaderless(&lab).await;
    assert_eq!(lab.node(1).read(Machine::revision), Revision(0));
    assert!(has_session(lab.node(3), "acknowledged"), "the survivor keeps its data");
}

/// All disks are lost: the configuration that once started the cluster does not create another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_all_disks_is_not_created_again_without_an_operator() {
    let mut lab = Lab::prepare(3, |config| config.may_create_cluster = false).await;
    for id in 1..=3 {
        lab.boot(id).await.unwrap();
    }
    waiting_for(&lab, 1, "holdfast init").await;
    waiting_for(&lab, 3, "holdfast init").await;
    permit_new_cluster(lab.dirs[&2].path()).unwrap();
    let leader = lab.leader().await;
    lab.open(leader, "acknowledged").await.unwrap();
    lab.agree().await;
    let refused = permit_new_cluster(lab.dirs[&3].path()).unwrap_err();
    assert!(matches!(refused, StartError::NotBlank(_)), "{refused}");

    lab.kill_all().await;
    for id in 1..=3 {
        wipe(&mut lab, id);
        lab.boot(id).await.unwrap();
    }
    waiting_for(&lab, 1, "holdfast init").await;
    waiting_for(&lab, 2, "holdfast init").await;
    stays_leaderless(&lab).await;
}

/// `--bootstrap` is for a new cluster: it has no effect beside a node that belongs to a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_cannot_bootstrap_a_cluster_beside_a_survivor() {
    let mut lab = wiped_majority().await;
    lab.boot(3).await.unwrap();
    lab.tune = |config| config.bootstrap = config.node == NodeId(1);
    lab.boot(1).await.unwrap();
    lab.boot(2).await.unwrap();
    waiting_for(&lab, 1, "node 3 belongs to a cluster").await;
    stays_leaderless(&lab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_omitted_by_an_operator_joins_after_its_registration() {
    let mut lab = bootstrapped_without_the_third().await;
    lab.boot(3).await.unwrap();
    lab.registered().await;
    lab.agree().await;
    assert!(has_session(lab.node(3), "first"));
    lab.kill(1).await;
    lab.leader().await;
    lab.open(3, "second").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_a_cluster_rejects_the_bootstrap_flag() {
    let mut lab = Lab::start(3).await;
    lab.leader().await;
    lab.kill(1).await;
    lab.tune = |config| config.bootstrap = true;
    let refused = lab.boot(1).await.unwrap_err();
    assert!(matches!(refused, StartError::AlreadyBootstrapped), "{refused}");
    lab.tune = |_| {};
    lab.boot(1).await.unwrap();
    lab.leader().await;
}

/// The survivor of another cluster is not a member of a cluster bootstrapped without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_is_rejected_by_the_cluster_that_was_bootstrapped_without_it() {
    let mut lab = wiped_majority().await;
    lab.tune = |config| config.bootstrap = config.node == NodeId(1);
    lab.boot(1).await.unwrap();
    lab.boot(2).await.unwrap();
    lab.leader().await;
    lab.tune = |_| {};
    lab.boot(3).await.unwrap();
    lab.open(1, "new").await.unwrap();
    let refused =
        lab.node(3).propose(open_session("x"), Urgency::Immediate, Instant::now() + WHILE).await;
    assert!(refused.is_err(), "{refused:?}");
    let (old, new) = (lab.node(3), lab.node(1));
    assert!(has_session(old, "acknowledged") && !has_session(new, "acknowledged"));
    assert_eq!(new.read(|machine| machine.incarnation(NodeId(3))), None);
    let ids = [old, new].map(|node| node.read(Machine::cluster_id).unwrap());
    assert_ne!(ids[0], ids[1], "two clusters of one name have two ids");
}

/// Node 3 joined late, and node 2 was partitioned before it applied the registration of its data directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_node_is_rejected_by_a_peer_that_never_applied_its_registration() {
    let mut lab = bootstrapped_without_the_third().await;
    lab.links.isolate(2, Flow::BlackHole);
    lab.boot(3).await.unwrap();
    let late =
        lab.node(1).propose(open_session("late"), Urgency::Immediate, Instant::now() + WHILE).await;
    lab.kill_all().await;
    wipe(&mut lab, 3);
    lab.links.isolate(2, Flow::Open);
    lab.boot(2).await.unwrap();
    lab.boot(3).await.unwrap();
    stays_leaderless(&lab).await;

    lab.boot(1).await.unwrap();
    eventually("the two nodes with data to serve", || {
        has_session(lab.node(2), "first").then_some(())
    })
    .await;
    lab.open(2, "last").await.unwrap();
    assert!(late.is_err() || has_session(lab.node(2), "late"));
}
