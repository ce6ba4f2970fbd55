//! Mutual exclusion, checked through fencing tokens.
//!
//! Unique: a token belongs to one hold, of one lock by one session, for the lifetime of the cluster. Monotone per lock:
//! a grant acknowledged before the request for another grant has the smaller token, unless both are the same hold.
//! Monotone in the cluster: a hold first requested after the acknowledgement of another has the larger token, for any
//! locks, because one counter issues all tokens.

use std::collections::BTreeMap;

use super::holds::{Hold, Sessions};
use crate::history::{CallReply, ClientCall, Operation};

/// Checks that tokens are unique and grow in real time.
///
/// # Errors
/// A description of the first violation.
pub fn mutual_exclusion(operations: &[Operation]) -> Result<(), String> {
    let sessions = Sessions::of(operations);
    let holds = sessions.holds();
    unique(&holds)?;
    monotone_by_lock(operations)?;
    monotone_in_the_cluster(&sessions, &holds)
}

fn unique(holds: &[Hold]) -> Result<(), String> {
    let mut by_token: BTreeMap<u64, &Hold> = BTreeMap::new();
    for hold in holds {
        if let Some(other) = by_token.insert(hold.token, hold) {
            return Err(format!("one token for two holds: {other:?} and {hold:?}"));
        }
    }
    Ok(())
}

/// Grants of one lock: (acknowledged, invoked, token, session).
type Grants<'a> = Vec<(u64, u64, u64, &'a str)>;

fn monotone_by_lock(operations: &[Operation]) -> Result<(), String> {
    let mut by_lock: BTreeMap<&str, Grants<'_>> = BTreeMap::new();
    for operation in operations {
        let ClientCall::Acquire { lock, session, .. } = &operation.call else { continue };
        let Some((at_us, CallReply::Granted { token, .. })) = operation.answered() else {
            continue;
        };
        by_lock.entry(lock).or_default().push((at_us, operation.invoked_us, *token, session));
    }
    by_lock.into_iter().try_for_each(|(lock, grants)| monotone(lock, grants))
}

/// Sweeps invocations and acknowledgements in time order, with the largest token acknowledged so far.
fn monotone(lock: &str, mut grants: Grants<'_>) -> Result<(), String> {
    let mut by_invocation = grants.clone();
    by_invocation.sort_by_key(|(_, invoked_us, ..)| *invoked_us);
    grants.sort_unstable();
    let (mut acknowledged, mut largest) = (grants.into_iter().peekable(), (0, ""));
    for (_, invoked_us, token, session) in by_invocation {
        while let Some((_, _, earlier, by)) = acknowledged.next_if(|(at, ..)| *at < invoked_us) {
            largest = largest.max((earlier, by));
        }
        if token < largest.0 {
            return Err(format!(
                "{lock}: {session} was granted token {token} though {largest:?} was acknowledged before it asked"
            ));
        }
    }
    Ok(())
}

fn monotone_in_the_cluster(sessions: &Sessions<'_>, holds: &[Hold]) -> Result<(), String> {
    let mut starts: Vec<(u64, &Hold)> =
        holds.iter().map(|hold| (first_attempt(sessions, hold), hold)).collect();
    starts.sort_by_key(|(first_us, _)| *first_us);
    let mut by_acknowledgement: Vec<&Hold> = holds.iter().collect();
    by_acknowledgement.sort_by_key(|hold| hold.acknowledged_us);
    let mut acknowledged = by_acknowledgement.into_iter().peekable();
    let mut largest: Option<&Hold> = None;
    for (first_us, hold) in starts {
        while let Some(earlier) = acknowledged.next_if(|other| other.acknowledged_us < first_us) {
            largest = largest.into_iter().chain([earlier]).max_by_key(|hold| hold.token);
        }
        if let Some(earlier) = largest.filter(|earlier| earlier.token >= hold.token) {
            return Err(format!("tokens went back: {hold:?} was asked for after {earlier:?}"));
        }
    }
    Ok(())
}

/// Invocation of the session's earliest acquire that may have caused this hold: unanswered acquires before the
/// acknowledged one count.
fn first_attempt(sessions: &Sessions<'_>, hold: &Hold) -> u64 {
    let mine = sessions.operations(&hold.session).iter().rev();
    let attempts = mine.filter(|operation| {
        matches!(&operation.call, ClientCall::Acquire { lock, .. } if *lock == hold.lock)
            && operation.invoked_us < hold.invoked_us
    });
    let unanswered = attempts.take_while(|operation| {
        !matches!(operation.answered(), Some((_, CallReply::Granted { .. })))
    });
    unanswered.last().map_or(hold.invoked_us, |operation| operation.invoked_us)
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, granted, lost, op, release};
    use super::*;
    use crate::history::CallReply::Done;

    #[test]
    fn a_hand_over_with_growing_tokens_is_accepted() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(acquire("a", "s1"), 2, 3, granted(1)),
            op(acquire("a", "s2"), 1, 6, granted(2)),
            op(release("a", "s1"), 4, 5, Done),
            op(acquire("b", "s1"), 7, 8, granted(3)),
        ];
        assert_eq!(mutual_exclusion(&history), Ok(()));
    }

    #[test]
    fn a_retry_after_a_lost_answer_may_return_an_older_token() {
        let history = [
            lost(acquire("a", "s1"), 0),
            op(acquire("b", "s2"), 1, 2, granted(2)),
            op(acquire("a", "s1"), 3, 4, granted(1)),
        ];
        assert_eq!(mutual_exclusion(&history), Ok(()));
    }

    #[test]
    fn one_token_for_two_sessions_is_refused() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(1)), op(acquire("a", "s2"), 0, 2, granted(1))];
        assert!(mutual_exclusion(&history).expect_err("refused").contains("one token for two"));
    }

    #[test]
    fn one_token_for_two_locks_is_refused() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(1)), op(acquire("b", "s1"), 0, 2, granted(1))];
        assert!(mutual_exclusion(&history).is_err());
    }

    #[test]
    fn a_smaller_token_later_on_the_same_lock_is_refused() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(5)), op(acquire("a", "s2"), 2, 3, granted(4))];
        assert!(mutual_exclusion(&history).is_err());
    }

    #[test]
    fn a_renewal_after_the_lock_has_moved_on_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(acquire("a", "s2"), 2, 3, granted(2)),
            op(acquire("a", "s1"), 4, 5, granted(1)),
        ];
        assert!(mutual_exclusion(&history).expect_err("refused").contains("acknowledged before"));
    }

    #[test]
    fn a_counter_that_starts_again_is_refused_on_any_lock() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(9)), op(acquire("b", "s2"), 2, 3, granted(1))];
        assert!(mutual_exclusion(&history).expect_err("refused").contains("tokens went back"));
    }
}
