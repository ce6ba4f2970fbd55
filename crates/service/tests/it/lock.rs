//! Acquiring, renewing and releasing locks on any node.

use std::time::Duration;

use holdfast_service::{Failure, FenceMode, ReadMode, ServiceConfig};
use holdfast_types::{LockRejection, Rejection, SessionRejection};

use crate::nodes::*;

/// An acquire by the same session and owner is a renewal with the same token, on every node.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_renews_on_every_node() {
    let nodes = Nodes::start(3).await;
    let first = hold(&nodes.services[0], "a", "me").await;
    assert!(!first.renewed);
    for service in &nodes.services {
        let again = hold(service, "a", "me").await;
        assert_eq!((again.token, again.renewed), (first.token, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_rejection_names_the_holder() {
    let nodes = Nodes::start(3).await;
    hold(&nodes.services[0], "a", "me").await;
    for service in &nodes.services {
        let busy = rejection(take(service, acquire("a", Some("you"), 30_000, NO_WAIT)).await);
        let Rejection::Lock(LockRejection::Busy { holder, waiters }) = busy else {
            panic!("{busy:?}")
        };
        assert_eq!((holder.session.as_str(), waiters), ("me", 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_another_session_is_rejected_with_the_holder() {
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    let held = hold(node, "a", "me").await;
    hold(node, "b", "you").await;
    let refused = rejection(release(node, "a", "you").await);
    let Rejection::Lock(LockRejection::NotHolder { holder }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(holder.session.as_str(), "me");
    assert_eq!(view(node, "a").await.holder().unwrap().token, held.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_release_succeeds_and_does_not_release_the_next_holder() {
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    hold(node, "a", "me").await;
    release(node, "a", "me").await.unwrap();
    hold(node, "a", "you").await;
    release(node, "a", "me").await.unwrap();
    assert_eq!(view(node, "a").await.holder().unwrap().session.as_str(), "you");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_from_holder_to_holder() {
    let nodes = Nodes::start(3).await;
    let mut last = None;
    for round in 0..12 {
        let (node, who) = (&nodes.services[round % 3], format!("s{}", round % 4));
        let grant = take(node, acquire("a", Some(&who), 30_000, NO_WAIT)).await.unwrap();
        assert!(Some(grant.token) > last, "round {round}");
        last = Some(grant.token);
        release(node, "a", &who).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_check_accepts_only_the_current_token() {
    let nodes = Nodes::start(3).await;
    let old = hold(&nodes.services[0], "a", "me").await;
    release(&nodes.services[0], "a", "me").await.unwrap();
    let new = hold(&nodes.services[1], "a", "you").await;
    for (token, valid) in [(old.token, false), (new.token, true)] {
        let (mode, read) = (FenceMode::Current, ReadMode::Linearizable);
        let check = nodes.services[2].check_token(&lock("a"), token, mode, read).await.unwrap();
        assert_eq!((check.value.valid, check.value.view.current), (valid, Some(new.token)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_session_ends_with_its_lock() {
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    let grant = take(node, acquire("a", None, 30_000, NO_WAIT)).await.unwrap();
    release(node, "a", grant.session.as_str()).await.unwrap();
    release(node, "a", grant.session.as_str()).await.unwrap();
    let gone = rejection(node.session(&grant.session, ReadMode::Linearizable).await);
    assert!(matches!(gone, Rejection::Session(SessionRejection::Unknown { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_longer_than_the_bound_is_rejected_without_effect() {
    let config = ServiceConfig { wait_max: Duration::from_secs(1), ..ServiceConfig::default() };
    let nodes = Nodes::start_with(1, config).await;
    let node = &nodes.services[0];
    let long = acquire("a", Some("me"), 30_000, Duration::from_secs(2));
    assert!(matches!(take(node, long).await, Err(Failure::WaitTooLong { .. })));
    assert_eq!(view(node, "a").await.holder(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_read_is_labelled_with_its_age() {
    let nodes = Nodes::start(3).await;
    let (node, lock) = (nodes.follower().await, lock("a"));
    let response = node.lock(&lock, ReadMode::Stale).await.unwrap();
    assert!(response.leader_contact.is_some());
    let response = node.lock(&lock, ReadMode::Linearizable).await.unwrap();
    assert!(response.leader_contact.is_none());
}
