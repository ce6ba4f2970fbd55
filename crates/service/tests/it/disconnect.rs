//! Callers that disconnect during a call, or whose node stops.

use std::time::Duration;

use holdfast_service::{Failure, Service, ServiceConfig};
use holdfast_types::Acquire;

use crate::nodes::*;

/// The caller's node stops while the session stays alive: the leader ends the wait.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_ends_a_wait_whose_node_has_stopped() {
    let config =
        ServiceConfig { wait_grace: Duration::from_millis(300), ..ServiceConfig::default() };
    let nodes = Nodes::start_with(3, config).await;
    let leader = nodes.leader().await;
    hold(&leader, "a", "me").await;
    let node = nodes.services.iter().find(|s| s.node() != leader.node()).unwrap().clone();
    let wait = Duration::from_secs(2);
    let waiting = spawn_take(&node, acquire("a", Some("you"), 30_000, wait));
    until_waiting(&leader, "a", 1).await;
    // A shutdown keeps the queue entries of named callers.
    node.shutdown().await;
    assert!(matches!(waiting.await.unwrap(), Err(Failure::ShuttingDown)));
    assert_eq!(view(&leader, "a").await.waiters_total, 1);
    until_waiting(&leader, "a", 0).await;
    keep_alive(&leader, "you").await.unwrap();
}

/// Drops an acquire after a time, like a client that disconnects. Returns false if the call returned before.
async fn disconnect_after(node: &Service, request: Acquire, after: Duration) -> bool {
    tokio::time::timeout(after, take(node, request)).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_caller_that_disconnects_in_flight_leaves_no_entry_and_no_hold() {
    let nodes = Nodes::start(3).await;
    for (index, node) in nodes.services.iter().enumerate() {
        let held = format!("held-{index}");
        take(node, acquire(&held, Some("me"), 30_000, NO_WAIT)).await.unwrap();
        let mut disconnected = Vec::new();
        for micros in [0, 100, 300, 1_000, 3_000, 10_000] {
            let after = Duration::from_micros(micros);
            assert!(disconnect_after(node, acquire(&held, None, 30_000, LONG), after).await);
            let free = format!("free-{index}-{micros}");
            if disconnect_after(node, acquire(&free, None, 30_000, LONG), after).await {
                disconnected.push(free);
            }
        }
        assert!(!disconnected.is_empty(), "no call disconnected before its grant");
        until(node, &held, |view| view.waiters_total == 0).await;
        for free in disconnected {
            until(node, &free, |view| view.holder().is_none()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_caller_that_disconnects_in_flight_keeps_its_queue_entry() {
    let nodes = Nodes::start(3).await;
    for (index, node) in nodes.services.iter().enumerate() {
        let lock = format!("held-{index}");
        take(node, acquire(&lock, Some("me"), 30_000, NO_WAIT)).await.unwrap();
        // A call that is dropped early enough proposes no command; a committed command keeps its entry.
        for micros in [0, 100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000] {
            let request = acquire(&lock, Some("you"), 30_000, LONG);
            assert!(disconnect_after(node, request, Duration::from_micros(micros)).await);
            if view(node, &lock).await.waiters_total == 1 {
                break;
            }
        }
        let seen = until(node, &lock, |view| view.waiters_total == 1).await;
        let ticket = seen.waiters[0].ticket;
        release(node, &lock, "me").await.unwrap();
        let again = take(node, acquire(&lock, Some("you"), 30_000, LONG)).await.unwrap();
        assert_eq!(again.ticket, ticket);
    }
}
