//! The leader's timers end holds and waits without a request.

use std::time::Duration;

use holdfast_types::{Acquire, AcquireOptions};

use crate::nodes::*;

const NO_WAIT: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_mins(1);

/// An acquire of `a` by a session that does not expire during a test.
fn acquire_a() -> Acquire {
    acquire("a", Some("me"), 3_600_000, NO_WAIT)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_with_an_end_goes_to_the_next_although_its_session_lives() {
    let nodes = Nodes::start(3).await;
    let acquired = Acquire {
        options: AcquireOptions { max_hold_ms: Some(2_000), ..AcquireOptions::PLAIN },
        ..acquire_a()
    };
    let first = take(&nodes.services[0], acquired).await.unwrap();
    let next = take(&nodes.services[1], acquire("a", Some("you"), 30_000, LONG)).await.unwrap();
    assert!(next.token > first.token);
    assert!(next.granted_at.0 >= first.granted_at.0 + 2_000, "{first:?} {next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_given_back_before_its_shortest_hold_opens_when_that_is_over() {
    let nodes = Nodes::start(3).await;
    let acquired = Acquire {
        options: AcquireOptions { min_hold_ms: Some(300), ..AcquireOptions::PLAIN },
        ..acquire_a()
    };
    let first = take(&nodes.services[0], acquired).await.unwrap();
    release(&nodes.services[0], "a", "me").await.unwrap();
    let next = take(&nodes.services[1], acquire("a", Some("you"), 30_000, LONG)).await.unwrap();
    assert!(next.granted_at.0 >= first.granted_at.0 + 300, "{first:?} {next:?}");
}

/// A node that restarts continues from the last stamp of its log: so a leader with nothing else to write writes the time.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_timed_rule_is_pending_the_log_is_told_the_time() {
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    let acquired = Acquire {
        options: AcquireOptions { max_hold_ms: Some(3_600_000), ..AcquireOptions::PLAIN },
        ..acquire_a()
    };
    take(node, acquired).await.unwrap();
    let granted = node.revision();
    until(node, "a", |_| node.revision() > granted).await;
    assert!(view(node, "a").await.holder().is_some(), "the hold goes on");
}
