//! A session lives at least its TTL after its last renewal, and not much longer.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_service::{Failure, ReadMode, SessionRenewal};
use holdfast_types::{Rejection, SessionRejection};

use crate::nodes::*;

async fn renew(node: &holdfast_service::Service, who: &str) -> Result<Duration, Rejection> {
    let renewed = keep_alive(node, who).await;
    match renewed {
        Ok(response) => Ok(response.value.expires_in),
        renewed @ Err(_) => Err(rejection(renewed)),
    }
}

/// A session expires no sooner than its TTL after its last acknowledged renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_holder_is_expired_after_its_ttl_and_not_before() {
    let nodes = Nodes::start(3).await;
    let sent = Instant::now();
    take(&nodes.services[0], acquire("a", Some("me"), 1_000, NO_WAIT)).await.unwrap();
    let granted = take(&nodes.services[1], acquire("a", Some("you"), 30_000, LONG)).await.unwrap();
    assert!(sent.elapsed() >= Duration::from_secs(1), "after {:?}", sent.elapsed());
    assert_eq!(granted.session.as_str(), "you");
    let lost = rejection(take(&nodes.services[0], acquire("a", Some("me"), 1_000, NO_WAIT)).await);
    assert!(matches!(lost, Rejection::Session(SessionRejection::Expired { .. })), "{lost:?}");
    assert!(matches!(
        renew(&nodes.services[2], "me").await,
        Err(Rejection::Session(SessionRejection::Expired { .. }))
    ));
}

/// Renewals by any node reach the leader's lease.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_on_any_node_keep_a_session_alive() {
    let nodes = Nodes::start(3).await;
    let held = take(&nodes.services[0], acquire("a", Some("me"), 3_000, NO_WAIT)).await.unwrap();
    let began = Instant::now();
    let mut turn = 0;
    while began.elapsed() < Duration::from_secs(7) {
        let left = renew(&nodes.services[turn % 3], "me").await.unwrap();
        assert!(left <= Duration::from_secs(3));
        turn += 1;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(view(&nodes.services[0], "a").await.holder().unwrap().token, held.token);
}

/// A keepalive lists what the session holds: each node first catches up with the revision of its response.
#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_lists_the_holds_of_its_revision() {
    let nodes = Nodes::start(3).await;
    let (leader, follower) = (nodes.leader().await, nodes.follower().await);
    for turn in 0..100 {
        let lock = format!("a-{turn}");
        take(&leader, acquire(&lock, Some("me"), 30_000, NO_WAIT)).await.unwrap();
        let renewed = keep_alive(&follower, "me").await.unwrap();
        let held = renewed.value.view.holds.iter().map(|hold| hold.lock.as_str());
        assert_eq!(held.collect::<Vec<_>>(), [lock.as_str()], "at {:?}", renewed.revision);
        release(&leader, &lock, "me").await.unwrap();
        let renewed = keep_alive(&follower, "me").await.unwrap();
        assert!(renewed.value.view.holds.is_empty(), "{:?}", renewed.value.view);
    }
}

/// A full disk refuses each write at once, and so the record of a silent session: its renewals need no log. Between half of the TTL
/// and the expiry, which is refused, too, the leader has tried to write a record: it tries once a second of the lease's time.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_record_was_refused_is_renewed_in_memory() {
    /// Of four seconds: a record is due after two, and then tried within a second and a tick.
    const LEFT: Duration = Duration::from_millis(700);
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    take(node, acquire("a", Some("me"), 4_000, NO_WAIT)).await.unwrap();
    hold(node, "b", "other").await;
    nodes.free[0].store(0, Ordering::Relaxed);
    let began = Instant::now();
    while !matches!(release(node, "b", "other").await, Err(Failure::DiskFull(_))) {
        assert!(began.elapsed() < DEADLINE, "the node writes on a full disk");
    }
    let left = async || node.session(&session("me"), ReadMode::Linearizable).await.unwrap();
    while left().await.value.expires_in > LEFT {
        assert!(began.elapsed() < DEADLINE, "the lease does not run");
    }
    // A call of which one renewal succeeds does not wait for the others.
    let kept = node.keep_many_alive(vec![session("me"), session("other")]).await.unwrap();
    assert!(kept.value.iter().all(|one| one.renewed.is_ok()), "{:?}", kept.value);
}

/// After a change of the leader, many sessions of one call are renewed through the log.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_renews_many_sessions_after_a_change_of_the_leader() {
    let nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let sessions: Vec<String> = (0..200).map(|number| format!("s{number}")).collect();
    for who in &sessions {
        take(&leader, acquire(who, Some(who), 30_000, NO_WAIT)).await.unwrap();
    }
    leader.shutdown().await;
    let left = nodes.services.iter().find(|node| node.node() != leader.node()).unwrap();
    let renew = || left.keep_many_alive(sessions.iter().map(|who| session(who)).collect());
    let began = Instant::now();
    // The first record of a new leader comes after a second: from then on renewals enter the log.
    let mut renewals = 0;
    while began.elapsed() < Duration::from_secs(4) || renewals < 2 {
        let Ok(kept) = renew().await else { continue };
        assert_eq!(kept.value.len(), sessions.len());
        for SessionRenewal { session, renewed } in kept.value {
            assert!(renewed.is_ok(), "{session}: {renewed:?}");
        }
        renewals += 1;
    }
}

/// While a call waits, its node renews the caller's session.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_caller_does_not_expire() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let node = nodes.follower().await;
    let waiting = spawn_take(&node, acquire("a", Some("you"), 3_000, LONG));
    until_waiting(&nodes.services[0], "a", 1).await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    release(&nodes.services[0], "a", "me").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().session.as_str(), "you");
}

/// A client whose session expired gets a rejection until it closes the session. Then the name is free again.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_name_is_free_again_once_the_loss_is_acknowledged() {
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    take(node, acquire("a", Some("me"), 1_000, NO_WAIT)).await.unwrap();
    until(node, "a", |view| view.holder().is_none()).await;
    let lost = rejection(release(node, "a", "me").await);
    assert!(matches!(lost, Rejection::Session(SessionRejection::Expired { .. })), "{lost:?}");
    close_session(node, "me").await.unwrap();
    take(node, acquire("a", Some("me"), 1_000, NO_WAIT)).await.unwrap();
}

/// A new leader gives every session its full TTL, so no session expires early across a failover.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_gives_every_session_its_full_ttl() {
    let nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let others: Vec<_> =
        nodes.services.iter().filter(|s| s.node() != leader.node()).cloned().collect();
    take(&leader, acquire("a", Some("me"), 3_000, NO_WAIT)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let left_at = Instant::now();
    leader.shutdown().await;
    nodes.leader_among(&others).await;
    let granted = take(&others[0], acquire("a", Some("you"), 30_000, LONG)).await.unwrap();
    assert_eq!(granted.session.as_str(), "you");
    assert!(left_at.elapsed() >= Duration::from_millis(2_900), "after {:?}", left_at.elapsed());
}

/// An expiry or a record that is in the log, and cannot be committed, may still take effect. Until the log has decided, no
/// renewal is acknowledged. Both followers' disks are full: they reject entries and continue to confirm the leader. The first
/// entry that they reject is the expiry of the session with the short TTL, and the record of the one with the longer TTL. A
/// record of the clocks must not be the first: the leader would refuse the others at once, and renew the leases.
#[tokio::test(flavor = "multi_thread")]
async fn no_renewal_is_acknowledged_while_an_expiry_is_undecided() {
    let refuses_renewals = async |ttl_ms| {
        let nodes = Nodes::start(3).await;
        let leader = nodes.leader().await;
        until_quiet(&leader).await;
        take(&leader, acquire("a", Some("me"), ttl_ms, NO_WAIT)).await.unwrap();
        let full = |bytes: u64| {
            for (service, free) in nodes.services.iter().zip(&nodes.free) {
                if service.node() != leader.node() {
                    free.store(bytes, Ordering::Relaxed);
                }
            }
        };
        full(0);
        // The lease runs out, and the proposal of the entry times out after ten seconds without an outcome.
        tokio::time::sleep(Duration::from_millis(14_500)).await;
        let renewed = keep_alive(&leader, "me").await;
        assert!(matches!(renewed, Err(Failure::NoLeader)), "{ttl_ms} ms: {renewed:?}");
        assert_eq!(leader.leader(), Some(leader.node()), "it still leads");
        full(1 << 40);
        until(&leader, "a", |view| view.holder().is_none()).await;
        assert!(matches!(
            renew(&leader, "me").await,
            Err(Rejection::Session(SessionRejection::Expired { .. }))
        ));
    };
    tokio::join!(refuses_renewals(1_500), refuses_renewals(3_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_session_grants_its_locks_to_waiters_at_once() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let waiting = spawn_take(&nodes.services[1], acquire("a", Some("you"), 30_000, LONG));
    until_waiting(&nodes.services[0], "a", 1).await;
    close_session(&nodes.services[2], "me").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().session.as_str(), "you");
}
