//! Runs: commands of one caller in order, in one entry or not in the log.

#![expect(clippy::unwrap_used, reason = "a path that cannot be is a mistake of the test")]

use futures_util::future::join_all;
use holdfast_raft::{Committed, ProposeError, RaftConfig, Urgency};
use holdfast_types::{
    Acquire, Command, Create, CreateKind, EntryState, LockName, Multi, MultiReply, Op, OpReply,
    Owner, Reply, ZnodePath,
};

use crate::lab::{Lab, has_session, open_session, soon};

/// Creates the next sequential znode of `directory`.
fn sequential(directory: &str) -> Command {
    let (directory, name) = (ZnodePath::new(directory).unwrap(), "n".to_owned());
    let (data, kind, acl) = (Vec::new(), CreateKind::Persistent, None);
    let create =
        Create { directory, name, data: data.into(), kind, sequential: true, acl, parents: true };
    Command::Multi(Multi { then: vec![Op::Create(create)], ..Multi::default() })
}

fn name(done: &Committed) -> String {
    match &done.outcome {
        Ok(Reply::Multi(MultiReply { results, .. })) => match results.as_slice() {
            [OpReply::Created { path, .. }] => path.file_name().to_owned(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn few(config: &mut RaftConfig) {
    config.batch_commands_max = 10;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_keeps_its_order_through_every_node_and_shares_entries() {
    let lab = Lab::start_with(3, few).await;
    let leader = lab.leader().await;
    for id in 1..=3 {
        let directory = format!("/run-{id}");
        let before = lab.node(leader).metrics().entries_proposed.get();
        let run = (0..25).map(|_| sequential(&directory)).collect();
        let (done, error) = lab.node(id).propose_in_order(run, soon()).await;
        assert_eq!(error, None);
        let names: Vec<_> = done.iter().map(name).collect();
        let expected: Vec<_> = (0..25).map(|number| format!("n{number:010}")).collect();
        assert_eq!(names, expected);
        assert!(done.is_sorted_by_key(|done| done.revision));
        let entries = lab.node(leader).metrics().entries_proposed.get() - before;
        assert!((3..10).contains(&entries), "{entries} entries for three runs");
    }
    lab.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_many_callers_are_not_split() {
    let lab = Lab::start_with(3, few).await;
    let runs = (0..60_u64).map(|number| {
        let node = lab.node(number % 3 + 1).clone();
        let run = (0..7).map(|_| sequential("/shared")).collect();
        async move { node.propose_in_order(run, soon()).await }
    });
    for (done, error) in join_all(runs).await {
        assert_eq!(error, None);
        let first = done[0].revision.0;
        let revisions: Vec<_> = done.iter().map(|done| done.revision.0).collect();
        assert_eq!(revisions, (first..first + 7).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_a_command_that_is_too_large_is_rejected_as_a_whole() {
    let lab = Lab::start(1).await;
    let data = vec![0; 3 << 20];
    let op = Op::SetData { path: ZnodePath::root(), data: data.into(), version: None };
    let large = Command::Multi(Multi { then: vec![op], ..Multi::default() });
    let run = vec![sequential("/run"), large];
    let (done, error) = lab.node(1).propose_in_order(run, soon()).await;
    assert_eq!((done, error), (Vec::new(), Some(ProposeError::TooLarge)));
}

/// A command that may wait is applied on any node without other proposals, and the queue keeps its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_may_wait_is_applied_even_if_nothing_else_is_proposed() {
    let lab = Lab::start(3).await;
    lab.leader().await;
    let lock = LockName::new("a").unwrap();
    let acquire = |name: &str| {
        let Command::OpenSession { open, .. } = open_session(name) else { panic!() };
        Command::Acquire(Acquire::new(lock.clone(), open, Owner::unnamed()))
    };
    let mut places = Vec::new();
    for number in 0..12_u64 {
        let node = lab.node(number % 3 + 1);
        let done =
            node.propose(acquire(&format!("s{number}")), Urgency::MayWait, soon()).await.unwrap();
        match done.outcome {
            Ok(Reply::Acquired(EntryState::Holding(_))) => places.push(None),
            Ok(Reply::Acquired(EntryState::Waiting(queued))) => {
                places.push(Some(u64::from(queued[0].ahead)));
            }
            other => panic!("{other:?}"),
        }
    }
    let expected: Vec<_> = (0..12_u64).map(|number| number.checked_sub(1)).collect();
    assert_eq!(places, expected);
}

/// The leader does not serve clients yet, because it compares its state first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_refuses_forwarded_commands_appends_its_own() {
    let lab = Lab::start(3).await;
    let leader = lab.leader().await;
    let follower = lab.follower_of(leader);
    lab.registered().await;
    lab.node(leader).refuse_forwarded(true);
    let forwarded = lab.open(follower, "forwarded").await;
    assert_eq!(forwarded, Err(ProposeError::NoLeader));
    lab.open(leader, "own").await.unwrap();
    assert!(!has_session(lab.node(leader), "forwarded"));
    lab.node(leader).refuse_forwarded(false);
    lab.open(follower, "forwarded").await.unwrap();
}
