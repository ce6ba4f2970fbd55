//! FIFO check: grants follow the queue order where the history proves that order.
//!
//! Proof of order: a linearizable read showed one waiter ahead of another, or showed a waiter before the other one sent its
//! first acquire. A ticket names a waiter: a session that leaves the queue and returns has another one.

use std::collections::BTreeMap;

use crate::history::{CallReply, ClientCall, Operation};

/// A wait that was granted.
struct GrantedWait {
    token: u64,
    /// Invocation of its first acquire.
    asked_us: u64,
}

/// Checks that no wait got a grant before one provably ahead of it.
///
/// # Errors
/// A description of the first violation.
pub fn queue_order(operations: &[Operation]) -> Result<(), String> {
    let mut by_lock: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        let Some(lock) = operation.call.lock() else { continue };
        by_lock.entry(lock).or_default().push(operation);
    }
    by_lock.iter().try_for_each(|(lock, operations)| judge(lock, operations))
}

/// The number of reads that showed two or more waiters. Without one, [`queue_order`] proves nothing.
pub fn queues_seen(operations: &[Operation]) -> usize {
    let waiters = |operation: &Operation| match operation.answered() {
        Some((_, CallReply::Lock { waiters, .. })) => waiters.len(),
        Some(_) | None => 0,
    };
    operations.iter().filter(|operation| waiters(operation) >= 2).count()
}

/// The granted waits of one lock by their tickets.
fn granted_waits(operations: &[&Operation]) -> BTreeMap<u64, GrantedWait> {
    let mut first_asked: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut waits = BTreeMap::new();
    for operation in operations {
        let ClientCall::Acquire { session, attempt, .. } = &operation.call else { continue };
        let asked_us = *first_asked.entry((session, *attempt)).or_insert(operation.invoked_us);
        if let Some((_, CallReply::Granted { token, ticket })) = operation.answered() {
            waits.entry(*ticket).or_insert(GrantedWait { token: *token, asked_us });
        }
    }
    waits
}

fn judge(lock: &str, operations: &[&Operation]) -> Result<(), String> {
    let waits = granted_waits(operations);
    for operation in operations {
        let Some((at_us, CallReply::Lock { waiters, .. })) = operation.answered() else { continue };
        let token_of = |ticket: &u64| Some((*ticket, waits.get(ticket)?.token));
        let order: Vec<(u64, u64)> = waiters.iter().filter_map(token_of).collect();
        if let Some(pair) = order.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            return Err(format!(
                "{lock}: the queue was {order:?}, so {pair:?} were granted out of order"
            ));
        }
        let later = waits.values().filter(|wait| wait.asked_us > at_us);
        let Some(token) = later.map(|wait| wait.token).min() else { continue };
        if let Some(passed) = order.iter().find(|(_, ahead)| *ahead > token) {
            return Err(format!(
                "{lock}: {passed:?} waited before another one asked, which got {token}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, acquire_again, granted_to, op, read, shows};
    use super::*;

    #[test]
    fn grants_in_queue_order_are_accepted() {
        let history = [
            op(acquire("a", "s1"), 0, 9, granted_to(11, 2)),
            op(acquire("a", "s2"), 0, 10, granted_to(12, 3)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &[11, 12])),
            op(acquire("a", "s3"), 3, 11, granted_to(13, 4)),
        ];
        assert_eq!(queue_order(&history), Ok(()));
        assert_eq!(queues_seen(&history), 1);
    }

    #[test]
    fn a_session_that_left_the_queue_and_returned_may_be_granted_later() {
        let history = [
            op(acquire("a", "s2"), 0, 10, granted_to(12, 2)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &[11, 12])),
            op(acquire_again("a", "s1", 2), 3, 12, granted_to(14, 3)),
        ];
        assert_eq!(queue_order(&history), Ok(()));
    }

    #[test]
    fn a_grant_to_the_second_in_the_queue_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 10, granted_to(11, 3)),
            op(acquire("a", "s2"), 0, 9, granted_to(12, 2)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &[11, 12])),
        ];
        assert!(queue_order(&history).expect_err("refused").contains("out of order"));
    }

    #[test]
    fn a_new_arrival_granted_before_a_waiter_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 10, granted_to(11, 3)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &[11])),
            op(acquire("a", "s2"), 3, 9, granted_to(12, 2)),
        ];
        assert!(queue_order(&history).expect_err("refused").contains("another one asked"));
    }

    /// The sessions of a load wait again and again.
    #[test]
    fn a_later_wait_of_a_session_that_passes_another_one_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted_to(10, 1)),
            op(acquire("a", "s2"), 2, 12, granted_to(11, 3)),
            op(read("a"), 3, 4, shows(Some(("s1", 1)), &[11])),
            op(acquire_again("a", "s1", 2), 5, 6, granted_to(12, 2)),
        ];
        assert!(queue_order(&history).expect_err("refused").contains("another one asked"));
    }

    #[test]
    fn a_swap_deep_in_the_queue_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 9, granted_to(11, 2)),
            op(acquire("a", "s2"), 0, 11, granted_to(12, 4)),
            op(acquire("a", "s3"), 0, 10, granted_to(13, 3)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &[11, 12, 13])),
        ];
        assert!(queue_order(&history).is_err());
    }
}
