//! The end of a leader's process, beside links that look like it.
//!
//! With the timeouts of these tests, an election after the lease takes half a minute. A link that refuses stands for a
//! machine on which no process listens.

#![expect(clippy::unwrap_used, reason = "what does not hold is a failed test, everywhere")]

use std::time::{Duration, Instant};

use holdfast_lab::Flow;
use holdfast_machine::Machine;
use holdfast_raft::{LeaderEpoch, Timing, Urgency};

use crate::lab::{Lab, eventually, has_session, open_session, soon};

/// The lease.
const LEASE: Duration = Duration::from_secs(30);

/// A cluster whose timeouts are long from the restart of its nodes on.
pub(crate) async fn patient(count: u64) -> Lab {
    let mut lab = Lab::start(count).await;
    lab.registered().await;
    lab.kill_all().await;
    lab.tune = |config| {
        config.timing = Timing {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_secs(2),
            election_max: LEASE,
        };
    };
    for id in 1..=count {
        lab.boot(id).await.unwrap();
    }
    lab
}

/// Ends the process of a node: its connections close, and its port refuses new ones.
async fn end(lab: &mut Lab, node: u64) {
    lab.links.isolate(node, Flow::Refused);
    lab.kill(node).await;
}

/// Waits for another leader, and writes through it.
async fn replaced(lab: &Lab, before: LeaderEpoch) -> LeaderEpoch {
    let after = eventually("another leader", || {
        let mut views = lab.nodes.values().map(|node| *node.leadership().borrow());
        views.find_map(|view| view.epoch.filter(|epoch| epoch.term > before.term))
    })
    .await;
    lab.open(after.node.0, "after").await.unwrap();
    after
}

/// Writes through the leader, and requires that it still leads.
async fn still_leads(lab: &Lab, epoch: LeaderEpoch) {
    for n in 0..20 {
        let name = format!("still{n}");
        let through = lab.node(epoch.node.0);
        through.propose(open_session(&name), Urgency::Immediate, soon()).await.unwrap();
    }
    let view = *lab.node(epoch.node.0).leadership().borrow();
    assert_eq!((view.term, view.epoch), (epoch.term, Some(epoch)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_leaders_process_is_no_wait_for_its_lease() {
    let mut lab = patient(3).await;
    for round in 0..3 {
        let before = lab.epoch().await;
        let name = format!("before{round}");
        lab.open(before.node.0, &name).await.unwrap();
        let began = Instant::now();
        end(&mut lab, before.node.0).await;
        let after = replaced(&lab, before).await;
        assert!(began.elapsed() < LEASE, "the lease had to expire");
        assert!(has_session(lab.node(after.node.0), &name), "nothing acknowledged is lost");
        lab.links.isolate(before.node.0, Flow::Open);
        lab.boot(before.node.0).await.unwrap();
        lab.agree().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_of_five_voters_replaces_the_leader_beside_another_lost_one() {
    let mut lab = patient(5).await;
    let before = lab.epoch().await;
    let other = lab.follower_of(before.node.0);
    let began = Instant::now();
    end(&mut lab, other).await;
    end(&mut lab, before.node.0).await;
    replaced(&lab, before).await;
    assert!(began.elapsed() < LEASE, "the lease had to expire");
}

/// A voter that has just started, and has had no message of the leader, also sees its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_has_just_started_confirms_the_end_of_a_leader_that_it_never_knew() {
    let mut lab = patient(3).await;
    let before = lab.epoch().await;
    let leader = before.node.0;
    let started = lab.follower_of(leader);
    end(&mut lab, started).await;
    lab.open(leader, "without-it").await.unwrap();
    lab.links.isolate(started, Flow::Open);
    for (from, to) in [(leader, started), (started, leader)] {
        lab.links.set(from, to, Flow::Refused);
    }
    lab.boot(started).await.unwrap();
    assert_eq!(lab.node(started).leadership().borrow().leader, None);
    let began = Instant::now();
    end(&mut lab, leader).await;
    let after = replaced(&lab, before).await;
    assert!(began.elapsed() < LEASE, "the lease had to expire");
    assert!(has_session(lab.node(after.node.0), "without-it"), "nothing acknowledged is lost");
}

/// One link refuses in both directions, or in either one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_one_follower_does_not_reach_keeps_its_leadership() {
    let lab = patient(3).await;
    let epoch = lab.epoch().await;
    let leader = epoch.node.0;
    let cut = lab.follower_of(leader);
    for directions in [vec![(leader, cut), (cut, leader)], vec![(leader, cut)], vec![(cut, leader)]]
    {
        for flow in [Flow::Refused, Flow::Cut] {
            for (from, to) in &directions {
                lab.links.set(*from, *to, flow);
            }
            still_leads(&lab, epoch).await;
            let behind = lab.node(cut).read(Machine::revision);
            lab.links.heal();
            lab.agree().await;
            assert!(lab.node(cut).read(Machine::revision) >= behind);
            still_leads(&lab, epoch).await;
        }
    }
}

/// The connections of a frozen leader stay open, and a new one gets no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_answers_nobody_for_less_than_its_lease_keeps_its_leadership() {
    let lab = patient(3).await;
    let epoch = lab.epoch().await;
    lab.links.isolate(epoch.node.0, Flow::BlackHole);
    // Longer than the silence after which a connection for heartbeats closes.
    let deadline = Instant::now() + Duration::from_secs(3);
    let through = lab.node(epoch.node.0);
    let written = through.propose(open_session("late"), Urgency::Immediate, deadline).await;
    assert!(written.is_err(), "{written:?}");
    lab.links.heal();
    lab.agree().await;
    still_leads(&lab, epoch).await;
}

/// Every voter but the leader sees its loss, although its process runs: another one leads, and the old leader, which has no
/// quorum, acknowledges nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_a_majority_takes_for_ended_acknowledges_nothing_more() {
    let lab = patient(3).await;
    let before = lab.epoch().await;
    let old = before.node.0;
    lab.links.isolate(old, Flow::Refused);
    let deadline = Instant::now() + Duration::from_secs(1);
    let written = lab.node(old).propose(open_session("lost"), Urgency::Immediate, deadline).await;
    assert!(written.is_err(), "{written:?}");
    let read = lab.node(old).read_barrier(Instant::now() + Duration::from_secs(1)).await;
    assert!(read.is_err(), "{read:?}");
    replaced(&lab, before).await;
    lab.links.heal();
    lab.agree().await;
    assert!(has_session(lab.node(old), "after"));
}
