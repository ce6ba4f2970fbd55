//! Callers that go away, in the middle of a call or with the node that served them.

use std::time::Duration;

use holdfast_service::{Failure, Service, ServiceConfig};
use holdfast_types::Acquire;

use crate::nodes::*;

const NO_WAIT: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_mins(1);

/// The node that the caller is parked on is killed, and the session lives on elsewhere: the leader ends the wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_even_if_the_node_it_is_parked_on_is_gone() {
    let config =
        ServiceConfig { wait_grace: Duration::from_millis(300), ..ServiceConfig::default() };
    let nodes = Nodes::start_with(3, config).await;
    let leader = nodes.leader().await;
    take(&leader, acquire("a", Some("me"), 30_000, NO_WAIT)).await.unwrap();
    let node = nodes.services.iter().find(|s| s.node() != leader.node()).unwrap().clone();
    let parked = node.clone();
    let wait = Duration::from_secs(1);
    let waiting =
        tokio::spawn(async move { take(&parked, acquire("a", Some("you"), 30_000, wait)).await });
    until(&leader, "a", |view| view.waiters_total == 1).await;
    // It keeps the places of named callers, and is no more.
    node.shutdown().await;
    assert!(matches!(waiting.await.unwrap(), Err(Failure::ShuttingDown)));
    assert_eq!(view(&leader, "a").await.waiters_total, 1);
    until(&leader, "a", |view| view.waiters_total == 0).await;
    keep_alive(&leader, "you").await.unwrap();
}

/// Lets go of a call: a client that hangs up while its acquire is under way. False if it was answered before.
async fn hang_up(node: &Service, request: Acquire, after: Duration) -> bool {
    tokio::time::timeout(after, take(node, request)).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_caller_that_hangs_up_in_flight_leaves_nothing_behind() {
    let nodes = Nodes::start(3).await;
    for (index, node) in nodes.services.iter().enumerate() {
        let held = format!("held-{index}");
        take(node, acquire(&held, Some("me"), 30_000, NO_WAIT)).await.unwrap();
        let mut let_go = Vec::new();
        for micros in [0, 100, 300, 1_000, 3_000, 10_000] {
            let after = Duration::from_micros(micros);
            assert!(hang_up(node, acquire(&held, None, 30_000, LONG), after).await);
            let free = format!("free-{index}-{micros}");
            if hang_up(node, acquire(&free, None, 30_000, LONG), after).await {
                let_go.push(free);
            }
        }
        assert!(!let_go.is_empty(), "nobody is granted by the first poll");
        until(node, &held, |view| view.waiters_total == 0).await;
        for free in let_go {
            until(node, &free, |view| view.holder().is_none()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_caller_that_hangs_up_in_flight_keeps_its_place() {
    let nodes = Nodes::start(3).await;
    for (index, node) in nodes.services.iter().enumerate() {
        let lock = format!("held-{index}");
        take(node, acquire(&lock, Some("me"), 30_000, NO_WAIT)).await.unwrap();
        // Let go of early enough, a call leaves no command; one that came to the log is there to stay.
        for micros in [0, 100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000] {
            let asked = acquire(&lock, Some("you"), 30_000, LONG);
            assert!(hang_up(node, asked, Duration::from_micros(micros)).await);
            if view(node, &lock).await.waiters_total == 1 {
                break;
            }
        }
        let seen = until(node, &lock, |view| view.waiters_total == 1).await;
        let place = seen.waiters[0].ticket;
        release(node, &lock, "me").await.unwrap();
        let again = take(node, acquire(&lock, Some("you"), 30_000, LONG)).await.unwrap();
        assert_eq!(again.ticket, place);
    }
}
