//! Killed, shut down and partitioned leaders.

use holdfast_lab::Flow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_raft::{ProposeError, ReadError, Timing, Urgency};
use holdfast_types::{Actor, ClockReading, Command, NodeId};

use crate::lab::{Lab, eventually, has_session, open_session, soon};

fn short() -> Instant {
    Instant::now() + Duration::from_secs(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost() {
    let mut lab = Lab::start(3).await;
    for n in 0..20 {
        lab.open(n % 3 + 1, &format!("before{n}")).await.unwrap();
    }
    let epoch = lab.epoch().await;
    let began = Instant::now();
    lab.kill(epoch.node.0).await;
    let survivor = *lab.nodes.keys().next().unwrap();
    let after = eventually("a new leader", || {
        let view = *lab.node(survivor).leadership().borrow();
        (view.term > epoch.term && view.leader.is_some_and(|leader| leader != epoch.node))
            .then_some(view)
    })
    .await;
    println!("new leader after {:?}", began.elapsed());
    lab.open(survivor, "after").await.unwrap();
    println!("first write after {:?}", began.elapsed());
    lab.agree().await;
    for n in 0..20 {
        assert!(has_session(lab.node(survivor), &format!("before{n}")));
    }
    lab.boot(epoch.node.0).await.unwrap();
    lab.agree().await;
    assert!(has_session(lab.node(epoch.node.0), "after"));
    assert!(lab.epoch().await.term >= after.term);
}

/// All errors except `Unknown` mean that the command was certainly not appended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reply_during_a_failover_is_correct() {
    let mut lab = Lab::start(3).await;
    let leader = lab.leader().await;
    let done = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writers = lab.nodes.iter().filter(|(id, _)| **id != leader).flat_map(|(id, node)| {
        (0..8).map(|writer| {
            let (id, node, done) = (*id, node.clone(), done.clone());
            let acknowledged = acknowledged.clone();
            tokio::spawn(async move {
                let mut results = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let name = format!("n{id}w{writer}s{}", results.len());
                    let deadline = Instant::now() + Duration::from_millis(700);
                    let result =
                        node.propose(open_session(&name), Urgency::Immediate, deadline).await;
                    acknowledged.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
                    results.push((name, result.map(drop)));
                }
                results
            })
        })
    });
    let writers: Vec<_> = writers.collect();
    eventually("writers at work", || (acknowledged.load(Ordering::Relaxed) > 100).then_some(()))
        .await;
    lab.kill(leader).await;
    let new = lab.leader().await;
    assert_ne!(new, leader);
    lab.open(new, "marker").await.unwrap();
    done.store(true, Ordering::Relaxed);
    let mut results = Vec::new();
    for writer in writers {
        results.extend(writer.await.unwrap());
    }
    lab.agree().await;
    let mut counts = [0; 3];
    for (name, result) in results {
        let present = has_session(lab.node(new), &name);
        let kind = match result {
            Ok(()) => {
                assert!(present, "{name} was acknowledged and is lost");
                0
            }
            Err(ProposeError::Unknown) => 1,
            Err(error) => {
                assert!(!present, "{name} was rejected ({error}) and exists");
                2
            }
        };
        counts[kind] += 1;
    }
    println!("acknowledged {}, unknown {}, refused {}", counts[0], counts[1], counts[2]);
    assert!(counts[0] > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partitioned_follower_returns_without_an_election() {
    let lab = Lab::start(3).await;
    let before = lab.epoch().await;
    let follower = lab.follower_of(before.node.0);
    lab.links.isolate(follower, Flow::BlackHole);
    let lost = eventually("the follower loses its leader", || {
        let age = lab.node(follower).status().leader_contact?;
        (age > Duration::from_secs(4)).then_some(())
    });
    lost.await;
    lab.open(before.node.0, "meanwhile").await.unwrap();
    assert!(!has_session(lab.node(follower), "meanwhile"));
    lab.links.isolate(follower, Flow::Open);
    eventually("the follower catches up", || {
        has_session(lab.node(follower), "meanwhile").then_some(())
    })
    .await;
    lab.agree().await;
    assert_eq!(lab.epoch().await, before, "one election too many");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partitioned_leader_acknowledges_nothing_and_is_replaced() {
    let lab = Lab::start(3).await;
    let before = lab.epoch().await;
    let old = before.node.0;
    lab.links.isolate(old, Flow::BlackHole);
    let survivor = lab.follower_of(old);
    let new = eventually("a new leader", || {
        let view = *lab.node(survivor).leadership().borrow();
        view.leader.filter(|leader| view.term > before.term && leader.0 != old)
    })
    .await;
    lab.open(new.0, "new").await.unwrap();
    let confirmed = lab.node(old).confirm_leadership(short()).await;
    assert_eq!(confirmed, Err(ReadError::NoLeader));
    let read = lab.node(old).read_barrier(short()).await;
    assert_eq!(read, Err(ReadError::NoLeader));
    let written = lab.node(old).propose(open_session("old"), Urgency::Immediate, short()).await;
    assert!(written.is_err(), "{written:?}");
    lab.links.isolate(old, Flow::Open);
    lab.agree().await;
    assert!(has_session(lab.node(old), "new"));
    let refused = lab.node(old).propose_as_leader(vec![open_session("late")], before).await;
    assert_eq!(refused, Err(ProposeError::NoLeader));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_shuts_down_transfers_leadership_without_waiting_for_a_lease() {
    // With these timeouts an election after the lease would take a minute.
    let mut lab = Lab::start_with(3, |_| {}).await;
    lab.kill_all().await;
    lab.tune = |config| {
        config.timing = Timing {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_secs(2),
            election_max: Duration::from_secs(30),
        };
    };
    for id in 1..=3 {
        lab.boot(id).await.unwrap();
    }
    let before = lab.epoch().await;
    lab.open(before.node.0, "before").await.unwrap();
    let began = Instant::now();
    let node = lab.nodes.remove(&before.node.0).unwrap();
    node.shutdown().await;
    let after = lab.epoch().await;
    println!("transferred after {:?}", began.elapsed());
    assert!(after.term > before.term);
    assert!(began.elapsed() < Duration::from_secs(30), "the lease had to expire");
    assert_eq!(
        node.propose(open_session("x"), Urgency::Immediate, soon()).await,
        Err(ProposeError::ShuttingDown)
    );
    lab.open(after.node.0, "after").await.unwrap();
}

/// A leader whose clock is in no record may have to wait for the clocks of a majority (ADR 0025).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_shuts_down_prefers_a_voter_whose_clock_is_recorded() {
    for _ in 0..4 {
        let lab = Lab::start(3).await;
        lab.registered().await;
        let before = lab.epoch().await;
        let recorded = (1..=3).rfind(|id| *id != before.node.0).unwrap();
        let readings = [before.node, NodeId(recorded)].map(|node| {
            let reading = ClockReading { wall: lab.node(recorded).wall_clock(), run: node.0 };
            (node, reading)
        });
        let record = Command::RecordClocks { readings: readings.into(), jump: None };
        let leader = lab.node(before.node.0);
        leader.propose_as_leader(vec![record.by(Actor::Node)], before).await.unwrap();
        leader.shutdown().await;
        let successor = eventually("another leader", || {
            lab.node(recorded).status().leader.filter(|leader| *leader != before.node)
        });
        assert_eq!(successor.await, NodeId(recorded));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_waits_until_the_time_of_the_new_leader_is_settled() {
    let lab = Lab::start(1).await;
    let epoch = lab.epoch().await;
    let node = lab.node(1);
    node.settle_time(None);
    let mut waiting = std::pin::pin!(lab.open(1, "waiting"));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("executed before the time was settled"),
        other = node.propose_as_leader(vec![open_session("other")], epoch) => drop(other.unwrap()),
    }
    assert!(!has_session(node, "waiting"));
    node.settle_time(Some(epoch));
    waiting.await.unwrap();
    assert_eq!(lab.epoch().await, epoch);
}
