//! Guards on a healthy cluster: exclusion, and hand-over to the next waiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_client::{Client, Error, Loss};
use holdfast_lab::{Cluster, DEADLINE, until};

use crate::program::addresses;

/// Tasks of one client exclude each other, although they share one session.
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

/// Whichever address is first, the client finds the leader within a few calls, also after the death of the leader.
#[tokio::test(flavor = "multi_thread")]
async fn calls_go_to_the_leader_so_that_no_other_node_forwards_them() {
    const FORWARDED: &str = "holdfast_raft_commands_forwarded_total";
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let cycle = async |lock: &str| {
        let guard = client.lock(lock).acquire().await.expect("the lock");
        guard.release().await.expect("released");
    };
    for _ in 0..2 {
        let leader = cluster.wait_ready().await;
        let forwarded = async || {
            let mut sum = 0;
            for node in cluster.others(leader).filter(|node| node.is_started()) {
                sum += node.http.metric_value(FORWARDED).await;
            }
            sum
        };
        for n in 0..10 {
            cycle(&format!("first/{n}")).await;
        }
        let none = forwarded().await;
        let follower = cluster.others(leader).find(|node| node.is_started()).expect("a follower");
        follower.http.take(&format!("forwarded/{leader}?session=x")).await;
        let before = forwarded().await;
        assert!(before > none, "the call to a follower was not counted");
        for n in 0..20 {
            cycle(&format!("then/{n}")).await;
        }
        assert_eq!(forwarded().await, before, "a call was forwarded");
        cluster.node(leader).kill();
    }
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
    let next = other.lock("orders").timeout(DEADLINE).acquire().await.expect("the lock");
    assert!(next.token() > first);
    assert!(kept.is_held());
    next.release().await.expect("released");
    kept.release().await.expect("released");
}

/// A dropped future leaves the queue, so it does not delay the next waiter.
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
    client.lock_state(guard.lock()).await.expect("an answer").waiters
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

/// A renewal shows that the process lives; a progress report shows that the work advances.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_stuck_loses_its_lock_to_the_next_while_its_process_lives() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let every = Duration::from_millis(700);
    let stuck = client.lock("orders").progress_timeout(every).acquire().await.expect("the lock");
    let next = client.lock("orders").timeout(DEADLINE).acquire().await.expect("the lock");
    assert!(!stuck.is_held(), "it knew before the next one could have it");
    assert_eq!(stuck.report_progress(), Err(Loss::Stalled { timeout: every }));
    assert!(next.token() > stuck.token());
}

/// A release by the session's name counts, and the guard does not acquire the lock again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_released_by_its_sessions_name_is_lost_and_not_taken_anew() {
    let cluster = Cluster::three().await;
    let client = Client::builder(addresses(&cluster)).ttl(Duration::from_secs(1)).build();
    let client = client.expect("a client");
    let guard = client.lock("orders").owned_by_session().acquire().await.expect("the lock");
    client.release(guard.lock(), guard.session()).await.expect("released behind its back");
    let lost = tokio::time::timeout(DEADLINE, guard.lost()).await;
    assert_eq!(lost.expect("in time"), Loss::ReleasedElsewhere);
    let seen = client.lock_state(guard.lock()).await.expect("an answer");
    assert!(!seen.held, "{seen:?}");
}

/// Renewals come every third of this time, so only an event can report a loss within [`AT_ONCE`].
const LONG_TTL: Duration = Duration::from_mins(1);
const AT_ONCE: Duration = Duration::from_secs(5);

/// Exclusive, shared, permit, multi-lock and blocking guards all get the event from one parked keepalive.
#[tokio::test(flavor = "multi_thread")]
async fn every_guard_learns_at_once_that_an_operator_took_its_lock() {
    let cluster = Cluster::three().await;
    let client = Client::builder(addresses(&cluster)).ttl(LONG_TTL).build().expect("a client");
    let alone = client.lock("alone").acquire().await.expect("the lock");
    let shared = client.lock("shared").shared().acquire().await.expect("the lock");
    let permit = client.semaphore("permit", 3).acquire().await.expect("a permit");
    let both = client.lock_many(["both/1", "both/2"]).acquire().await.expect("both");
    let endpoints = addresses(&cluster);
    let blocking = std::thread::spawn(move || {
        let builder = Client::builder(endpoints).ttl(LONG_TTL);
        let client = builder.build_blocking().expect("a client");
        let guard = client.lock("blocking").acquire().expect("the lock");
        guard.lost_within(DEADLINE).expect("it is lost")
    });
    let held =
        || async { client.lock_state(&lock_name("blocking")).await.expect("an answer").held };
    until("the thread holds its lock", DEADLINE, held).await;
    let before = std::time::Instant::now();
    for lock in ["alone", "shared", "permit", "both/2", "blocking"] {
        let target = format!("/v1/force-releases/{}?reason=stuck", lock.replace('/', "%2F"));
        let broken = cluster.node(1).http.post(&target).await;
        assert_eq!(broken.status, 200, "{lock}");
    }
    let lost = async {
        let (first, second, third) = tokio::join!(alone.lost(), shared.lost(), permit.lost());
        let fourth = both.lost().await;
        assert_eq!(fourth.0.as_str(), "both/2");
        [first, second, third, fourth.1]
    };
    let lost = tokio::time::timeout(AT_ONCE, lost).await.expect("long before a renewal is due");
    let blocked = tokio::task::spawn_blocking(|| blocking.join().expect("no panic")).await;
    assert!(before.elapsed() < AT_ONCE, "{:?}", before.elapsed());
    for loss in lost.into_iter().chain([blocked.expect("no panic")]) {
        assert_eq!(loss, Loss::ForceReleased { reason: Some("stuck".to_owned()) });
    }
}

/// The guard gets the release request with its reason; with revoke, the deadline ends the hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_learns_that_its_lock_is_asked_for_and_is_lost_before_it_is_revoked() {
    let cluster = Cluster::three().await;
    let client = Client::builder(addresses(&cluster)).ttl(LONG_TTL).build().expect("a client");
    let guard = client.lock("orders").acquire().await.expect("the lock");
    let ask = async |query: &str| {
        cluster
            .node(2)
            .http
            .post(&format!("/v1/release-requests/orders?{query}"))
            .await
            .assert_status(200);
    };
    ask("reason=patch+day&deadline=5m").await;
    let request = tokio::time::timeout(AT_ONCE, guard.release_requested()).await.expect("at once");
    assert_eq!((request.reason.as_deref(), request.revoke), (Some("patch day"), false));
    assert!(request.remaining() > Duration::from_mins(1) && guard.is_held());
    let next = client.lock("orders").acquire();
    ask("reason=now&deadline=1s&revoke").await;
    let again = guard.release_requested_after(Some(&request));
    let again = tokio::time::timeout(AT_ONCE, again).await.expect("at once");
    assert_eq!((again.reason.as_deref(), again.revoke), (Some("now"), true));
    let (loss, (held, next)) = tokio::join!(guard.lost(), async {
        let next = next.await.expect("the lock");
        (guard.is_held(), next)
    });
    assert_eq!(loss, Loss::Revoked { reason: Some("now".to_owned()) });
    assert!(!held, "it knew before the next one could have it");
    assert!(next.token() > guard.token());
}

fn lock_name(name: &str) -> holdfast_client::LockName {
    holdfast_client::LockName::new(name).expect("a name")
}

/// The caller must see the end of a session that it named, also if an operator ended it. The next calls open no other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_session_that_another_program_closed_is_lost_until_the_caller_closes_it() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    let client = Client::builder(addresses(&cluster)).named_session("nightly").build().unwrap();
    let session = holdfast_client::SessionName::new("nightly").unwrap();
    for closed in ["/v1/sessions/nightly", "/v1/sessions/nightly?force&reason=stuck"] {
        let guard = client.lock("orders").acquire().await.expect("the lock");
        guard.release().await.expect("released");
        assert_eq!(http.delete(closed).await.status, 204);
        let lost = [
            client.lock("orders").acquire().await.map(drop),
            client.lock("orders").try_acquire().await.map(drop),
            client.lock_many(["orders", "stock"]).acquire().await.map(drop),
            client.election("leader").campaign("me").await.map(drop),
            client.barrier("gate", 1).arrive(DEADLINE).await.map(drop),
            client.double_barrier("gate", 1).enter(DEADLINE).await.map(drop),
        ];
        for (number, lost) in lost.into_iter().enumerate() {
            let is_lost = matches!(lost, Err(Error::Lost(Loss::SessionEnded)));
            assert!(is_lost, "call {number} after {closed}: {lost:?}");
        }
        let sessions = http.get("/v1/sessions").await.json();
        assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0), "{sessions}");
        client.close_session(&session).await.expect("acknowledged");
    }
}
