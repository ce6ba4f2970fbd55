//! FIFO check: grants follow the queue order where the history proves that order.
//!
//! Proof of order: a linearizable read showed one waiter ahead of another, or showed a waiter before the other session
//! sent its first acquire. The check skips sessions that released the lock before their grant, because a session that
//! leaves the queue and returns gets a new position.

use std::collections::{BTreeMap, BTreeSet};

use super::holds::{Hold, Sessions};
use crate::history::{CallReply, ClientCall, Operation};

/// Checks that no session got a grant before a session provably ahead of it.
///
/// # Errors
/// A description of the first violation.
pub fn queue_order(operations: &[Operation]) -> Result<(), String> {
    let mut by_lock: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        let Some(lock) = operation.call.lock() else { continue };
        by_lock.entry(lock).or_default().push(operation);
    }
    let holds = Sessions::of(operations).holds();
    by_lock.iter().try_for_each(|(lock, operations)| {
        let holds: Vec<&Hold> = holds.iter().filter(|hold| hold.lock == *lock).collect();
        judge(lock, operations, &holds)
    })
}

/// Token and first acquire time of every session that held this lock exactly once and sent no release before.
fn single_holds<'a>(
    operations: &[&Operation],
    holds: &[&'a Hold],
) -> BTreeMap<&'a str, (u64, u64)> {
    let first_asked = |session: &str| {
        let asked = operations.iter().filter(
            |operation| matches!(&operation.call, ClientCall::Acquire { session: by, .. } if by == session),
        );
        asked.map(|operation| operation.invoked_us).min().unwrap_or(0)
    };
    let left_before = |hold: &Hold| {
        operations.iter().any(|operation| {
            matches!(&operation.call, ClientCall::Release { session, .. } if *session == hold.session)
                && operation.invoked_us < hold.acknowledged_us
        })
    };
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&str> = holds
        .iter()
        .filter(|hold| !seen.insert(&hold.session))
        .map(|hold| hold.session.as_str())
        .collect();
    let single =
        holds.iter().filter(|hold| !twice.contains(hold.session.as_str()) && !left_before(hold));
    single.map(|hold| (hold.session.as_str(), (hold.token, first_asked(&hold.session)))).collect()
}

fn judge(lock: &str, operations: &[&Operation], holds: &[&Hold]) -> Result<(), String> {
    let single = single_holds(operations, holds);
    for operation in operations {
        let Some((at_us, CallReply::Lock { waiters, .. })) = operation.answered() else { continue };
        let order: Vec<(&str, u64)> = waiters
            .iter()
            .filter_map(|session| single.get_key_value(session.as_str()))
            .map(|(session, (token, _))| (*session, *token))
            .collect();
        if let Some(pair) = order.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            return Err(format!(
                "{lock}: the queue was {order:?}, so {pair:?} were granted out of order"
            ));
        }
        let later = single.iter().filter(|(_, (_, asked_us))| *asked_us > at_us);
        let Some((other, (token, _))) = later.min_by_key(|(_, (token, _))| *token) else {
            continue;
        };
        if let Some(passed) = order.iter().find(|(_, ahead)| ahead > token) {
            return Err(format!(
                "{lock}: {passed:?} waited before {other} asked, and {other} got {token}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, granted, op, read, release, shows};
    use super::*;
    use crate::history::CallReply::Done;

    #[test]
    fn grants_in_queue_order_are_accepted() {
        let history = [
            op(acquire("a", "s1"), 0, 9, granted(2)),
            op(acquire("a", "s2"), 0, 10, granted(3)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &["s1", "s2"])),
            op(acquire("a", "s3"), 3, 11, granted(4)),
        ];
        assert_eq!(queue_order(&history), Ok(()));
    }

    #[test]
    fn a_session_that_left_the_queue_and_returned_may_be_granted_later() {
        let history = [
            op(acquire("a", "s1"), 0, 12, granted(3)),
            op(acquire("a", "s2"), 0, 10, granted(2)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &["s1", "s2"])),
            op(release("a", "s1"), 3, 4, Done),
        ];
        assert_eq!(queue_order(&history), Ok(()));
    }

    #[test]
    fn a_grant_to_the_second_in_the_queue_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 10, granted(3)),
            op(acquire("a", "s2"), 0, 9, granted(2)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &["s1", "s2"])),
        ];
        assert!(queue_order(&history).expect_err("refused").contains("out of order"));
    }

    #[test]
    fn a_new_arrival_granted_before_a_waiter_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 10, granted(3)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &["s1"])),
            op(acquire("a", "s2"), 3, 9, granted(2)),
        ];
        assert!(queue_order(&history).expect_err("refused").contains("before s2 asked"));
    }

    #[test]
    fn a_swap_deep_in_the_queue_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 9, granted(2)),
            op(acquire("a", "s2"), 0, 11, granted(4)),
            op(acquire("a", "s3"), 0, 10, granted(3)),
            op(read("a"), 1, 2, shows(Some(("s0", 1)), &["s1", "s2", "s3"])),
        ];
        assert!(queue_order(&history).is_err());
    }
}
