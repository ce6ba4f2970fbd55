//! A healthy cluster: writes and reads on every node, batches, the leader's own proposals, calls between services.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_machine::Machine;
use holdfast_raft::{CallError, LeaderEpoch, ProposeError, ReadError, Role, Urgency};
use holdfast_types::{Command, Create, CreateKind, Multi, NodeId, Op, ZnodePath};

use crate::lab::{Lab, has_session, open_session, soon};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_few_entries_and_each_gets_its_own_outcome() {
    let lab = Lab::start(3).await;
    let leader = lab.leader().await;
    let metrics = lab.node(leader).metrics();
    let proposed = || (metrics.entries_proposed.get(), metrics.commands_proposed.get());
    let before = proposed();
    let names: Vec<_> = (0..600).map(|n| (n % 3 + 1, format!("s{n}"))).collect();
    let results = join_all(names.iter().map(|(id, name)| lab.open(*id, name))).await;
    let revisions: BTreeSet<_> =
        results.iter().map(|done| done.as_ref().unwrap().revision).collect();
    assert_eq!(revisions.len(), 600, "every command has a revision of its own");
    let after = proposed();
    // Under load, nodes register and record their clocks meanwhile.
    assert!((600..=610).contains(&(after.1 - before.1)), "{before:?} {after:?}");
    let entries = after.0 - before.0;
    assert!(entries <= 300, "{entries} entries for 600 commands of 600 callers");
    lab.agree().await;
    let follower = lab.node(lab.follower_of(leader)).metrics();
    assert!(follower.batches_forwarded.get() < follower.commands_forwarded.get(), "{follower:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrier_on_any_node_sees_every_write_acknowledged_before_it() {
    let lab = Lab::start(3).await;
    lab.leader().await;
    for round in 0..30_u64 {
        let (writer, reader) = (round % 3 + 1, (round / 3) % 3 + 1);
        let name = format!("s{round}");
        lab.open(writer, &name).await.unwrap();
        lab.node(reader).read_barrier(soon()).await.unwrap();
        assert!(
            has_session(lab.node(reader), &name),
            "{name} written on {writer}, read on {reader}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_readers_share_a_round() {
    let lab = Lab::start(3).await;
    let leader = lab.leader().await;
    let follower = lab.follower_of(leader);
    for id in [leader, follower] {
        let before = lab.node(id).metrics().read_rounds.get();
        let reads = (0..500).map(|_| lab.node(id).read_barrier(soon()));
        assert!(join_all(reads).await.iter().all(Result::is_ok));
        let rounds = lab.node(id).metrics().read_rounds.get() - before;
        assert!(rounds <= 50, "{rounds} rounds for 500 readers");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_leader_confirms_its_leadership() {
    let lab = Lab::start(3).await;
    let epoch = lab.epoch().await;
    let leader = epoch.node.0;
    assert_eq!(lab.node(leader).confirm_leadership(soon()).await.unwrap(), epoch);
    let follower = lab.follower_of(leader);
    let refused = lab.node(follower).confirm_leadership(soon()).await;
    assert_eq!(refused, Err(ReadError::NoLeader));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_of_an_ended_epoch_is_rejected() {
    let lab = Lab::start(3).await;
    let epoch = lab.epoch().await;
    let leader = lab.node(epoch.node.0);
    let good = leader.propose_as_leader(vec![open_session("a"), open_session("b")], epoch).await;
    assert_eq!(good.unwrap().len(), 2);
    let old = LeaderEpoch { term: epoch.term - 1, ..epoch };
    let refused = leader.propose_as_leader(vec![open_session("c")], old).await;
    assert_eq!(refused, Err(ProposeError::NoLeader));
    let follower = lab.node(lab.follower_of(epoch.node.0));
    let refused = follower.propose_as_leader(vec![open_session("d")], epoch).await;
    assert_eq!(refused, Err(ProposeError::NoLeader));
    lab.agree().await;
    assert!(has_session(leader, "b") && !has_session(leader, "c") && !has_session(leader, "d"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_observer_is_notified_of_each_entry_once_and_in_order() {
    let lab = Lab::start(3).await;
    lab.leader().await;
    let writes = (0..50).map(|n| (n % 3 + 1, format!("s{n}"))).collect::<Vec<_>>();
    join_all(writes.iter().map(|(id, name)| lab.open(*id, name))).await;
    lab.settle().await;
    for (id, notes) in &lab.notes {
        let applied = notes.applied.lock().clone();
        assert!(applied.windows(2).all(|pair| pair[0] < pair[1]), "{id}: {applied:?}");
        assert_eq!(applied.last(), Some(&lab.node(*id).read(Machine::revision)));
        assert_eq!(notes.restored.lock().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_call_each_other() {
    let lab = Lab::start(3).await;
    lab.leader().await;
    let answer = lab.node(1).call_peer(NodeId(2), Bytes::from("hello"), soon()).await.unwrap();
    assert_eq!(answer, "1 sent hello");
    let unknown = lab.node(1).call_peer(NodeId(9), Bytes::new(), soon()).await;
    assert!(matches!(unknown, Err(CallError::NotSent(_))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_is_registered_with_its_data_directory() {
    let lab = Lab::start(3).await;
    lab.registered().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_too_large_for_an_entry_is_rejected_before_any_append() {
    let lab = Lab::start(1).await;
    lab.leader().await;
    let create = |bytes| {
        let create = Op::Create(Create {
            directory: ZnodePath::root(),
            name: "big".to_owned(),
            data: vec![7; bytes].into(),
            kind: CreateKind::Persistent,
            sequential: false,
            acl: None,
            parents: false,
        });
        Command::Multi(Multi { then: vec![create], ..Multi::default() })
    };
    let refused = lab.node(1).propose(create(3 << 20), Urgency::Immediate, soon()).await;
    assert_eq!(refused, Err(ProposeError::TooLarge));
    let fits = lab.node(1).propose(create((1 << 20) - 1), Urgency::Immediate, soon()).await;
    assert!(fits.unwrap().outcome.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_no_write_and_no_read_succeeds() {
    let mut lab = Lab::prepare(3, |_| {}).await;
    lab.boot(1).await.unwrap();
    let deadline = Instant::now() + Duration::from_millis(300);
    let refused = lab.node(1).propose(open_session("s"), Urgency::Immediate, deadline).await;
    assert_eq!(refused, Err(ProposeError::NoLeader));
    let refused = lab.node(1).read_barrier(Instant::now() + Duration::from_millis(300)).await;
    assert_eq!(refused, Err(ReadError::NoLeader));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_voter_is_always_in_contact_with_its_quorum() {
    let lab = Lab::start(1).await;
    lab.leader().await;
    let status = lab.node(1).status();
    assert_eq!((status.leader_contact, status.has_quorum), (Some(Duration::ZERO), true));
}
