//! The order of grants of planted locks. On one thread: a contender has asked before the next one comes, however busy the machine.

use std::time::Duration;

use holdfast_comparison::fairness::{Rounds, measure};
use holdfast_comparison::statistics::pairs;

use crate::simulated::{Manner, Simulated};

const ROUNDS: Rounds = Rounds { contenders: 5, apart: Duration::from_millis(20), rounds: 2 };

#[tokio::test]
async fn first_come_first_served_has_no_inversions() {
    let row = measure(&Simulated::system(Manner::FirstIn), ROUNDS).await;
    assert_eq!(row.orders, [[0, 1, 2, 3, 4]; 2]);
    assert_eq!((row.inversions, row.trouble), (vec![0, 0], None));
    assert!(
        row.longest_wait_ms.iter().all(|wait| *wait >= 20.0),
        "the last came 20 ms before the release"
    );
}

#[tokio::test]
async fn last_come_first_served_has_them_all() {
    let row = measure(&Simulated::system(Manner::LastIn), ROUNDS).await;
    assert_eq!(row.orders, [[4, 3, 2, 1, 0]; 2]);
    assert_eq!(row.inversions, [pairs(5); 2]);
}

#[tokio::test]
async fn a_lock_that_nobody_gets_is_trouble() {
    let row = measure(&Simulated::system(Manner::Busy), ROUNDS).await;
    assert!(row.trouble.unwrap().contains("round 1: somebody else has the lock"));
    assert!(row.orders.is_empty());
}
