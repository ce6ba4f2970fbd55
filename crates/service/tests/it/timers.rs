//! The leader's timers end holds and waits without a request.

use holdfast_types::{Acquire, AcquireOptions};

use crate::nodes::*;

/// An acquire of `a` by a session that does not expire during a test.
fn acquire_a() -> Acquire {
    acquire("a", Some("me"), 3_600_000, NO_WAIT)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_with_max_hold_goes_to_the_next_waiter_while_its_session_lives() {
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
async fn a_lock_released_before_min_hold_is_granted_after_min_hold() {
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

/// A restarted node continues from the last stamp of its log, so a leader without other commands writes the time.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_timer_is_pending_the_leader_writes_the_time() {
    let nodes = Nodes::start(1).await;
    let node = &nodes.services[0];
    let acquired = Acquire {
        options: AcquireOptions { max_hold_ms: Some(3_600_000), ..AcquireOptions::PLAIN },
        ..acquire_a()
    };
    take(node, acquired).await.unwrap();
    // A new node also writes up to two records of its own: its identity and its clock.
    let granted = node.revision();
    until(node, "a", |_| node.revision().0 > granted.0 + 2).await;
    assert!(view(node, "a").await.holder().is_some(), "the hold continues");
}
