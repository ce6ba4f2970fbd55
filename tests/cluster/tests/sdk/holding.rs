//! Guards of a cluster that is well: who excludes whom, and how a lock goes on to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_client::{Client, Error, Loss};
use holdfast_tests_cluster::{Cluster, DEADLINE, until};

use crate::program::addresses;

/// Tasks of one client exclude each other as two programs do, although they share one session.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_client_exclude_each_other_and_tokens_grow() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let (inside, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, inside, last) = (client.clone(), inside.clone(), last.clone());
        tasks.spawn(async move {
            for _ in 0..5 {
                let work = async |hold: holdfast_client::Hold| {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    assert!(last.swap(hold.token().0, Ordering::SeqCst) < hold.token().0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                };
                client.with_lock("orders", work).await.expect("the lock");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no task panics");
    }
    let sessions = cluster.node(1).http.get("/v1/sessions").await.json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "{sessions}");
    client.close().await.expect("closed");
    let sessions = cluster.node(1).http.get("/v1/sessions").await.json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0), "{sessions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_lets_the_next_in_though_its_session_lives_on() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let other = Client::new(addresses(&cluster)).expect("a client");
    let kept = client.lock("kept").acquire().await.expect("the lock");
    let guard = client.lock("orders").acquire().await.expect("the lock");
    let busy = other.lock("orders").try_acquire().await.expect_err("it is held");
    assert_eq!(&busy.holder().expect("a holder").session, guard.session());
    let first = guard.token();
    drop(guard);
    let next = other.lock("orders").wait(DEADLINE).acquire().await.expect("the lock");
    assert!(next.token() > first);
    assert!(kept.is_held());
    next.release().await.expect("released");
    kept.release().await.expect("released");
}

/// A future that is dropped leaves the queue: the next in line is not kept waiting by a ghost.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_leaves_the_queue() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let guard = client.lock("orders").acquire().await.expect("the lock");
    let waiters = async || guard_waiters(&client, &guard).await;
    let waiting = tokio::spawn(client.lock("orders").acquire());
    until("a waiter", DEADLINE, || async { waiters().await == 1 }).await;
    waiting.abort();
    until("nobody waits", DEADLINE, || async { waiters().await == 0 }).await;
    guard.release().await.expect("released");
    drop(client.lock("orders").try_acquire().await.expect("it is free"));
}

async fn guard_waiters(client: &Client, guard: &holdfast_client::Guard) -> u32 {
    client.look(guard.lock()).await.expect("an answer").waiters
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_entered_twice_is_free_when_both_have_left() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let guard = client.lock("orders").acquire().await.expect("the lock");
    let again = guard.reenter().await.expect("once more");
    let same_owner = client.lock("owned").owner("importer").acquire().await.expect("the lock");
    let by_name = client.lock("owned").owner("importer").try_acquire().await.expect("once more");
    assert_eq!((again.token(), by_name.token()), (guard.token(), same_owner.token()));
    guard.release().await.expect("released");
    assert!(matches!(client.lock("orders").try_acquire().await, Err(Error::Busy(_))));
    again.release().await.expect("released");
    drop(client.lock("orders").try_acquire().await.expect("it is free"));
}

/// A renewal shows that the process lives; the beacon shows that the work does.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_stuck_loses_its_lock_to_the_next_while_its_process_lives() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let every = Duration::from_millis(700);
    let stuck = client.lock("orders").beacon(every).acquire().await.expect("the lock");
    let next = client.lock("orders").wait(DEADLINE).acquire().await.expect("the lock");
    assert!(!stuck.is_held(), "it knew before the next one could have it");
    assert_eq!(stuck.touch(), Err(Loss::Stalled { every }));
    assert!(next.token() > stuck.token());
}

/// Whoever takes a lock away by the session's name is believed, and the lock is not taken anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_taken_away_is_lost_at_the_next_renewal() {
    let cluster = Cluster::three().await;
    let client = Client::builder(addresses(&cluster)).ttl(Duration::from_secs(1)).build();
    let client = client.expect("a client");
    let guard = client.lock("orders").as_session().acquire().await.expect("the lock");
    client.release(guard.lock(), guard.session()).await.expect("released behind its back");
    let lost = tokio::time::timeout(DEADLINE, guard.lost()).await;
    assert_eq!(lost.expect("in time"), Loss::TakenAway);
    let seen = client.look(guard.lock()).await.expect("an answer");
    assert!(!seen.held, "{seen:?}");
}
