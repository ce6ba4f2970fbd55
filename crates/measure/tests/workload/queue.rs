//! The order of grants of simulated locks. One thread ensures that a waiter has enqueued before the next one starts,
//! even on a busy machine.

use std::time::Duration;

use holdfast_measure::fairness::{FairnessPlan, measure};
use holdfast_measure::statistics::pairs;

use crate::simulated::{Behaviour, Simulated};

const PLAN: FairnessPlan =
    FairnessPlan { waiters: 5, interval: Duration::from_millis(20), rounds: 2 };

#[tokio::test]
async fn first_come_first_served_has_no_inversions() {
    let row = measure(&Simulated::connector(Behaviour::FirstInFirstOut), PLAN).await;
    assert_eq!(row.orders, [[0, 1, 2, 3, 4]; 2]);
    assert_eq!((row.inversions, row.failure), (vec![0, 0], None));
    assert!(
        row.longest_wait_ms.iter().all(|wait| *wait >= 20.0),
        "the last waiter enqueued 20 ms before the release"
    );
}

#[tokio::test]
async fn last_come_first_served_has_them_all() {
    let row = measure(&Simulated::connector(Behaviour::LastInFirstOut), PLAN).await;
    assert_eq!(row.orders, [[4, 3, 2, 1, 0]; 2]);
    assert_eq!(row.inversions, [pairs(5); 2]);
}

#[tokio::test]
async fn a_lock_that_no_client_gets_is_a_failure() {
    let row = measure(&Simulated::connector(Behaviour::Busy), PLAN).await;
    assert!(row.failure.unwrap().contains("round 1: another client holds the lock"));
    assert!(row.orders.is_empty());
}
