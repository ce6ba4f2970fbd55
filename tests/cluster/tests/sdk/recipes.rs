//! Latches, barriers, double barriers and counters of the Rust client, on three nodes.

use std::time::Duration;

use holdfast_client::{Client, Error};
use holdfast_lab::{Cluster, DEADLINE, until};

use crate::program::addresses;

#[tokio::test(flavor = "multi_thread")]
async fn parties_of_one_client_and_another_pass_together_and_are_told_when_they_cannot() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let other = Client::new(addresses(&cluster)).expect("a client");
    let (start, there) = (client.barrier("start", 3), other.barrier("start", 3));
    let (a, b, c) =
        tokio::join!(start.arrive(DEADLINE), start.arrive(DEADLINE), there.arrive(DEADLINE));
    let mut indexes = [a, b, c].map(|passed| passed.expect("all pass").index);
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1, 2]);

    let waiting = tokio::spawn({
        let start = start.clone();
        async move { start.arrive(DEADLINE).await }
    });
    until("the arrival", DEADLINE, || async {
        there.state().await.is_ok_and(|body| body.arrived.len() == 1)
    })
    .await;
    let short = there.arrive(Duration::from_millis(50)).await.expect_err("one is missing");
    assert!(matches!(short, Error::Busy(_)), "{short}");
    let told = waiting.await.expect("a task").expect_err("it broke");
    assert!(told.is_barrier_broken(), "{told}");

    let dropped = tokio::time::timeout(Duration::from_millis(300), there.arrive(DEADLINE)).await;
    assert!(dropped.is_err());
    until("the place to be given up", DEADLINE, || async {
        start.state().await.is_ok_and(|body| body.arrived.is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_ends_has_counted_and_left() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let other = Client::new(addresses(&cluster)).expect("a client");
    let done = client.latch("done");
    assert_eq!(done.create(2).await.expect("made").left, 2);
    assert_eq!(done.count_down("a").await.expect("counted"), 1);
    assert_eq!(done.count_down("a").await.expect("counted"), 1);
    assert!(matches!(done.wait(Duration::ZERO).await, Err(Error::Busy(_))));
    let session = other.latch("done").count_down_on_session_end("b").await.expect("promised");
    let room = client.double_barrier("room", 2);
    let theirs = other.double_barrier("room", 2);
    let (mine, yours) = tokio::join!(room.enter(DEADLINE), theirs.enter(DEADLINE));
    let (mine, yours) = (mine.expect("inside"), yours.expect("inside"));
    assert_eq!(mine.tripped().generation, yours.tripped().generation);
    let leaving = tokio::spawn(mine.leave(DEADLINE));
    drop(session);
    other.close().await.expect("closed");
    leaving.await.expect("a task").expect("all are out");
    assert!(done.wait(DEADLINE).await.expect("open").open);
    drop(yours);
    done.delete().await.expect("gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_add_up_and_are_replaced_at_a_version() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let hits = client.counter("hits");
    let adding = (0..20).map(|_| {
        let hits = hits.clone();
        tokio::spawn(async move { hits.add(2).await.expect("added") })
    });
    for added in adding.collect::<Vec<_>>() {
        added.await.expect("a task");
    }
    let now = hits.get().await.expect("read");
    assert_eq!(now.value, 40);
    assert!(matches!(hits.set_if(1, now.version - 1).await, Err(Error::Rejected(_))));
    assert_eq!(hits.set_if(i64::MAX, now.version).await.expect("set").value, i64::MAX);
    assert!(matches!(hits.add(1).await, Err(Error::Rejected(_))));
    hits.delete().await.expect("gone");
    assert_eq!(hits.get().await.expect("read").value, 0);
}
