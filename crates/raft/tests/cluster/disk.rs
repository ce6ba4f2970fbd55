//! Full disks: below the reserve a node rejects appends, everything else continues, and the node recovers
//! automatically.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_lab::Flow;
use holdfast_raft::{ProposeError, RaftConfig, Urgency};
use holdfast_types::NodeId;

use crate::fast_election::patient;
use crate::lab::{Lab, eventually, has_session, open_session, soon};
use crate::restart::away_for_too_long;

/// The free bytes above the reserve of a node with [`little_space`].
const LITTLE: u64 = 16 << 10;

/// A disk that the node checks at its start only, so that later only what it writes counts.
fn little_space(config: &mut RaftConfig) {
    let free = config.disk_reserve_bytes + LITTLE;
    config.free_bytes = Arc::new(move |_| Ok(free));
    config.disk_check = Duration::from_hours(1);
}

fn set_free(lab: &Lab, id: u64, bytes: u64) {
    lab.free_bytes[&id].store(bytes, Ordering::Relaxed);
}

async fn low(lab: &Lab, id: u64, low: bool) {
    eventually("the node to check its disk", || {
        (lab.node(id).status().disk_low == low).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_with_a_full_disk_waits_and_catches_up_without_a_restart() {
    let lab = Lab::start(3).await;
    let before = lab.epoch().await;
    let follower = lab.follower_of(before.node.0);
    lab.open(before.node.0, "before").await.unwrap();
    lab.agree().await;
    set_free(&lab, follower, 0);
    low(&lab, follower, true).await;
    for n in 0..10 {
        lab.open(before.node.0, &format!("s{n}")).await.unwrap();
    }
    assert!(!has_session(lab.node(follower), "s9"));
    // The node still receives heartbeats.
    assert_eq!(lab.leader().await, before.node.0);
    set_free(&lab, follower, 1 << 40);
    lab.agree().await;
    assert!(has_session(lab.node(follower), "s9"));
    assert_eq!(lab.epoch().await, before, "no election was needed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_full_disk_transfers_leadership_to_a_node_with_free_space() {
    let lab = Lab::start(3).await;
    let before = lab.epoch().await;
    let old = before.node.0;
    lab.open(old, "before").await.unwrap();
    set_free(&lab, old, 0);
    eventually("another leader", || {
        let view = *lab.node(lab.follower_of(old)).leadership().borrow();
        view.leader.filter(|leader| leader.0 != old)
    })
    .await;
    assert_ne!(lab.leader().await, old);
    lab.open(old, "forwarded").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_full_disks_everywhere_writes_are_rejected_and_reads_continue() {
    let lab = Lab::start(3).await;
    lab.open(1, "before").await.unwrap();
    lab.registered().await;
    let before = lab.epoch().await;
    // The disk of the leader fills last, so the leader finds no successor.
    let others = (1..=3).filter(|id| *id != before.node.0);
    for id in others.chain([before.node.0]) {
        set_free(&lab, id, 0);
        low(&lab, id, true).await;
    }
    for id in 1..=3 {
        let refused = lab.open(id, "refused").await;
        assert!(is_refused_by(&refused, before.node), "through {id}: {refused:?}");
        lab.node(id).read_barrier(soon()).await.unwrap();
    }
    let own = lab.node(before.node.0).propose_as_leader(vec![open_session("own")], before).await;
    assert!(is_refused_by(&own, before.node), "{own:?}");
    lab.node(before.node.0).confirm_leadership(soon()).await.unwrap();
    for id in 1..=3 {
        set_free(&lab, id, 1 << 40);
    }
    for id in 1..=3 {
        low(&lab, id, false).await;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    lab.node(2).propose(open_session("after"), Urgency::Immediate, deadline).await.unwrap();
    assert!(!has_session(lab.node(before.node.0), "refused"));
}

/// A write that both followers reject stays undecided. From then on the leader rejects writes before they are in a log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_full_disks_of_most_voters_the_leader_rejects_writes_at_once_and_names_them() {
    let lab = Lab::start(3).await;
    lab.registered().await;
    let leader = lab.epoch().await;
    let members: BTreeSet<_> = (1..=3).map(NodeId).filter(|id| *id != leader.node).collect();
    for id in &members {
        set_free(&lab, id.0, 0);
        low(&lab, id.0, true).await;
    }
    let deadline = Instant::now() + Duration::from_millis(500);
    let node = lab.node(leader.node.0);
    let undecided = node.propose(open_session("undecided"), Urgency::Immediate, deadline).await;
    assert_eq!(undecided, Err(ProposeError::Unknown));
    let full = ProposeError::DiskFull { members: members.clone() };
    for id in 1..=3 {
        let sent = Instant::now();
        assert_eq!(lab.open(id, "refused").await, Err(full.clone()), "through {id}");
        assert!(sent.elapsed() < Duration::from_secs(2), "through {id}: {:?}", sent.elapsed());
        lab.node(id).read_barrier(soon()).await.unwrap();
    }
    let own = node.propose_as_leader(vec![open_session("own")], leader).await;
    assert_eq!(own, Err(full));
    // One follower with space is a majority with the leader.
    set_free(&lab, members.first().unwrap().0, 1 << 40);
    eventually("the undecided write", || has_session(node, "undecided").then_some(())).await;
    for id in 1..=3 {
        lab.node(id).propose(open_session("after"), Urgency::Immediate, soon()).await.unwrap();
    }
    assert!(!has_session(node, "refused") && lab.epoch().await == leader);
}

/// Batches that are in flight when the voters begin to reject do not return before one of them has space. As many as may be in
/// flight keep no other write waiting, small or large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_behind_undecided_batches_are_rejected_with_full_disks_of_most_voters() {
    let lab = patient(3).await;
    let leader = lab.epoch().await;
    let members: BTreeSet<_> = (1..=3).map(NodeId).filter(|id| *id != leader.node).collect();
    let node = lab.node(leader.node.0);
    for id in &members {
        lab.links.set(leader.node.0, id.0, Flow::BlackHole);
    }
    let propose = |session: String| {
        let (node, command) = (node.clone(), open_session(&session));
        tokio::spawn(async move { node.propose(command, Urgency::Immediate, soon()).await })
    };
    let mut undecided = Vec::new();
    for n in 0..3 {
        let last = node.status().last_log_index;
        undecided.push(propose(format!("undecided{n}")));
        let is_appended = || (node.status().last_log_index > last).then_some(());
        eventually("a batch in flight", is_appended).await;
    }
    let waiting = propose("waiting".to_owned());
    for id in &members {
        set_free(&lab, id.0, 0);
        low(&lab, id.0, true).await;
    }
    lab.links.heal();
    let full = ProposeError::DiskFull { members: members.clone() };
    assert_eq!(waiting.await.unwrap(), Err(full.clone()));
    assert_eq!(propose("behind".to_owned()).await.unwrap(), Err(full));
    for id in &members {
        set_free(&lab, id.0, 1 << 40);
    }
    for written in undecided {
        written.await.unwrap().unwrap();
    }
    assert_eq!(lab.epoch().await, leader, "no election was needed");
}

fn is_refused_by<T>(result: &Result<T, ProposeError>, node: NodeId) -> bool {
    matches!(result, Err(ProposeError::DiskFull { members }) if members.contains(&node))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_written_between_two_checks_of_the_disk_count() {
    let lab = Lab::start_with(1, little_space).await;
    for n in 0..2_000 {
        if is_refused_by(&lab.open(1, &format!("s{n}")).await, NodeId(1)) {
            return;
        }
    }
    panic!("the log grew beyond the free space");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_the_leader_count_against_the_reserve_of_a_follower() {
    let mut lab = Lab::start(3).await;
    let leader = lab.leader().await;
    let follower = lab.follower_of(leader);
    lab.kill(follower).await;
    lab.tune = little_space;
    lab.boot(follower).await.unwrap();
    lab.agree().await;
    assert!(!lab.node(follower).status().disk_low);
    for n in 0..500 {
        lab.open(leader, &format!("s{n}")).await.unwrap();
    }
    low(&lab, follower, true).await;
    assert!(!has_session(lab.node(follower), "s499"), "no entry was refused");
    assert_eq!(lab.leader().await, leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_received_snapshot_counts_against_the_reserve() {
    let (mut lab, leader, away) = away_for_too_long().await;
    let bytes = lab.node(leader).metrics().snapshot_bytes.get().cast_unsigned();
    assert!(bytes > LITTLE, "{bytes} bytes fit above the reserve");
    lab.tune = little_space;
    lab.boot(away).await.unwrap();
    eventually("the snapshot", || {
        (lab.node(away).metrics().snapshots_installed.get() > 0).then_some(())
    })
    .await;
    assert!(lab.node(away).status().disk_low);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_on_a_full_volume_of_its_own_is_a_full_disk() {
    let mut lab = Lab::prepare(1, |config| {
        let free = |dir: &Path| Ok(if dir.ends_with("log") { 0 } else { 1 << 40 });
        config.free_bytes = Arc::new(free);
    })
    .await;
    lab.boot(1).await.unwrap();
    low(&lab, 1, true).await;
}
