//! Waiting on any node: by push, in order, and with cleanup when the wait ends.

use std::time::{Duration, Instant};

use holdfast_service::{Failure, Principal, RequestContext, Service, ServiceConfig};
use holdfast_types::{
    Actor, AuthChange, AuthMode, AuthRejection, CertificateName, LockRejection, Reason, Rejection,
    RoleName, SessionRejection, SubjectName,
};

use crate::nodes::*;

/// A waiting call is parked on the node that received it, and that node's `apply` wakes the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_on_any_node_is_granted_when_the_holder_releases_on_another() {
    let nodes = Nodes::start(3).await;
    for (holder, waiter) in [(0, 1), (1, 2), (2, 0), (0, 0)] {
        let name = format!("lock-{holder}-{waiter}");
        let held = take(&nodes.services[holder], acquire(&name, Some("me"), 30_000, NO_WAIT));
        let held = held.await.unwrap();
        let request = acquire(&name, Some("you"), 30_000, LONG);
        let waiting = spawn_take(&nodes.services[waiter], request);
        until_waiting(&nodes.services[holder], &name, 1).await;
        release(&nodes.services[holder], &name, "me").await.unwrap();
        let granted = waiting.await.unwrap().unwrap();
        assert!(granted.token > held.token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_granted_in_the_order_of_the_log() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let mut waiting = Vec::new();
    for number in 0..6_u32 {
        let request = acquire("a", Some(&format!("w{number}")), 30_000, LONG);
        waiting.push(spawn_take(&nodes.services[number as usize % 3], request));
        until_waiting(&nodes.services[0], "a", number + 1).await;
    }
    let mut holder = "me".to_owned();
    for (number, call) in waiting.into_iter().enumerate() {
        release(&nodes.services[0], "a", &holder).await.unwrap();
        let granted = call.await.unwrap().unwrap();
        holder = format!("w{number}");
        assert_eq!(granted.session.as_str(), holder);
    }
}

/// A no-wait acquire of the same session does not change the queue entry of the waiting call.
#[tokio::test(flavor = "multi_thread")]
async fn a_no_wait_acquire_does_not_change_a_waiting_call() {
    let nodes = Nodes::start(1).await;
    let node = nodes.services[0].clone();
    hold(&node, "a", "me").await;
    let wait = Duration::from_secs(2);
    let waiting = spawn_take(&node, acquire("a", Some("you"), 30_000, wait));
    until_waiting(&node, "a", 1).await;
    let busy = rejection(take(&node, acquire("a", Some("you"), 30_000, NO_WAIT)).await);
    assert!(matches!(busy, Rejection::Lock(LockRejection::Busy { .. })), "{busy:?}");
    assert!(matches!(waiting.await.unwrap(), Err(Failure::WaitTimeout { .. })));
    assert_eq!(view(&node, "a").await.waiters_total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_times_out_leaves_no_queue_entry() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let began = Instant::now();
    let wait = Duration::from_millis(200);
    let outcome = take(&nodes.services[1], acquire("a", Some("you"), 30_000, wait)).await;
    let Err(Failure::WaitTimeout { lock, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(began.elapsed() >= wait);
    assert_eq!(lock.holder().unwrap().session.as_str(), "me");
    assert_eq!(view(&nodes.services[0], "a").await.waiters_total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_caller_that_disconnects_leaves_the_queue() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let waiting = spawn_take(&nodes.services[1], acquire("a", None, 30_000, LONG));
    until_waiting(&nodes.services[0], "a", 1).await;
    waiting.abort();
    until_waiting(&nodes.services[0], "a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_caller_that_disconnects_keeps_its_queue_entry_and_may_retry_elsewhere() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let short = Duration::from_secs(2);
    let waiting = spawn_take(&nodes.services[1], acquire("a", Some("you"), 30_000, short));
    let ticket = until_waiting(&nodes.services[0], "a", 1).await.waiters[0].ticket;
    waiting.abort();
    let waiting = spawn_take(&nodes.services[2], acquire("a", Some("you"), 30_000, LONG));
    // The wait of the first call ends meanwhile; its cancel must not remove the entry of the repeated call.
    tokio::time::sleep(short + Duration::from_millis(300)).await;
    assert_eq!(view(&nodes.services[0], "a").await.waiters[0].ticket, ticket);
    release(&nodes.services[0], "a", "me").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().ticket, ticket);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_caller_that_does_not_retry_loses_its_queue_entry_when_its_wait_ends() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    let wait = Duration::from_secs(2);
    let waiting = spawn_take(&nodes.services[1], acquire("a", Some("you"), 30_000, wait));
    until_waiting(&nodes.services[0], "a", 1).await;
    waiting.abort();
    until_waiting(&nodes.services[0], "a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_above_the_bound_is_rejected_and_not_queued() {
    let config = ServiceConfig { waiters_max: 1, ..ServiceConfig::default() };
    let nodes = Nodes::start_with(1, config).await;
    let node = nodes.services[0].clone();
    hold(&node, "a", "me").await;
    let waiting = spawn_take(&node, acquire("a", Some("w1"), 30_000, LONG));
    until_waiting(&node, "a", 1).await;
    let refused = take(&node, acquire("a", Some("w2"), 30_000, LONG)).await;
    assert!(matches!(refused, Err(Failure::TooManyWaiters { limit: 1 })), "{refused:?}");
    assert_eq!(view(&node, "a").await.waiters_total, 1);
    release(&node, "a", "me").await.unwrap();
    waiting.await.unwrap().unwrap();
    let permit_is_free = take(&node, acquire("b", Some("w2"), 30_000, LONG)).await;
    assert!(permit_is_free.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_waiting_calls_and_a_named_caller_keeps_its_queue_entry() {
    let nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let others: Vec<_> =
        nodes.services.iter().filter(|s| s.node() != leader.node()).cloned().collect();
    hold(&others[0], "a", "me").await;
    let waiting = spawn_take(&leader, acquire("a", Some("you"), 30_000, LONG));
    until_waiting(&leader, "a", 1).await;
    leader.shutdown().await;
    assert!(matches!(waiting.await.unwrap(), Err(Failure::ShuttingDown)));
    let successor = nodes.leader_among(&others).await;
    assert_eq!(view(&successor, "a").await.waiters_total, 1);
    let held = view(&successor, "a").await.holder().unwrap().clone();
    assert_eq!(held.session.as_str(), "me");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_session_ends_its_waiting_call() {
    let nodes = Nodes::start(1).await;
    let node = nodes.services[0].clone();
    hold(&node, "a", "me").await;
    let waiting = spawn_take(&node, acquire("a", Some("you"), 30_000, LONG));
    until_waiting(&node, "a", 1).await;
    close_session(&node, "you").await.unwrap();
    assert!(matches!(
        rejection(waiting.await.unwrap()),
        Rejection::Session(SessionRejection::Unknown { .. })
    ));
}

/// A subject that only a certificate proves: its wait ends when the certificate is removed from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_certificate_of_its_caller() {
    let nodes = Nodes::start(3).await;
    let node = nodes.services[0].clone();
    let subject = |name| SubjectName::new(name).unwrap();
    let added = node.add_first_administrator(subject("root"), Some(AuthMode::On)).await.unwrap();
    let of = |node: &Service, principal| {
        node.for_call(RequestContext { principal, ..RequestContext::anonymous() })
    };
    let admin = of(&node, Principal::of(Actor::Token(added.value.issued.token.id)));
    let certificate = CertificateName::new("CN=ci,O=prod").unwrap();
    let set = |certificates| AuthChange::SetSubject {
        subject: subject("ci"),
        roles: vec![RoleName::admin()],
        certificates,
    };
    admin.change_auth(set(vec![certificate.clone()])).await.unwrap();
    hold(&admin, "a", "me").await;
    for (at, service) in nodes.services.iter().enumerate() {
        service.catch_up(admin.revision()).await.unwrap();
        let principal = service.principal_of_certificate(std::slice::from_ref(&certificate));
        assert_eq!(principal.actor, Actor::Subject(subject("ci")), "node {at}");
        let ci = of(service, principal);
        let request = acquire("a", Some(&format!("ci-{at}")), 30_000, LONG);
        let waiting = spawn_take(&ci, request);
        until_waiting(&admin, "a", 1).await;
        admin.change_auth(set(Vec::new())).await.unwrap();
        let denied = rejection(waiting.await.unwrap());
        assert_eq!(denied, Rejection::Auth(AuthRejection::NoCredential), "node {at}");
        until_waiting(&admin, "a", 0).await;
        admin.change_auth(set(vec![certificate.clone()])).await.unwrap();
    }
}

/// A sealed cluster cancels nothing, so the entry is cancelled after the seal.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_under_the_seal_leaves_the_queue_after_it() {
    let nodes = Nodes::start(1).await;
    let node = nodes.services[0].clone();
    hold(&node, "a", "me").await;
    let wait = Duration::from_secs(2);
    let waiting = spawn_take(&node, acquire("a", Some("you"), 30_000, wait));
    until_waiting(&node, "a", 1).await;
    let seal = node.seal(Reason::new("a test").unwrap()).await.unwrap().value;
    let refused = rejection(waiting.await.unwrap());
    assert!(matches!(refused, Rejection::Sealed(_)), "{refused:?}");
    node.unseal(seal.revision).await.unwrap();
    // Ten seconds after the deadline of the wait, the leader would cancel it as well.
    let left = until(&node, "a", |view| view.waiters_total == 0);
    tokio::time::timeout(Duration::from_secs(8), left).await.expect("the entry is cancelled");
}

/// A caller that may not renew its session leaves the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_authorization_refuses_leaves_the_queue() {
    let nodes = Nodes::start(1).await;
    let node = nodes.services[0].clone();
    let root = SubjectName::new("root").unwrap();
    let added = node.add_first_administrator(root, Some(AuthMode::Off)).await.unwrap();
    let principal = Principal::of(Actor::Token(added.value.issued.token.id));
    let admin = node.for_call(RequestContext { principal, ..RequestContext::anonymous() });
    hold(&admin, "a", "me").await;
    let waiting = spawn_take(&node, acquire("a", Some("you"), 15_000, LONG));
    until_waiting(&admin, "a", 1).await;
    admin.change_auth(AuthChange::SetMode(AuthMode::On)).await.unwrap();
    let denied = rejection(waiting.await.unwrap());
    assert!(matches!(denied, Rejection::Auth(_)), "{denied:?}");
    // Its session lasts for another 10 s.
    let left = until(&admin, "a", |view| view.waiters_total == 0);
    tokio::time::timeout(Duration::from_secs(5), left).await.expect("the entry is cancelled");
}
