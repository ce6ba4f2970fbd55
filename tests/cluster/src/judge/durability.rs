//! Acknowledged means durable: after a crash, every acknowledged grant of a session that must still live is there.

use super::holds::Sessions;
use crate::history::{Answer, Call, Operation};

/// Judges the reads invoked after `crashed_us` against the grants acknowledged before it, and demands such a read for
/// every hold that must have survived.
///
/// # Errors
/// The first violation found, in words.
pub fn acknowledged_grants_survive(
    operations: &[Operation],
    crashed_us: u64,
) -> Result<(), String> {
    let sessions = Sessions::of(operations);
    for hold in sessions.holds().into_iter().filter(|hold| hold.acknowledged_us < crashed_us) {
        let reads = operations.iter().filter_map(|operation| {
            let of_the_lock = matches!(&operation.call, Call::Read { lock } if *lock == hold.lock);
            let (at_us, Answer::Lock { holder, .. }) = operation.answered()? else { return None };
            (of_the_lock && operation.invoked_us > crashed_us).then_some((at_us, holder))
        });
        let must_live_until = sessions.certain_until(&hold.session, crashed_us);
        if hold.given_up_us < u64::MAX || must_live_until <= crashed_us {
            continue;
        }
        let mut looked = false;
        for (at_us, holder) in reads.filter(|(at_us, _)| *at_us < must_live_until) {
            looked = true;
            if *holder != Some((hold.session.clone(), hold.token)) {
                return Err(format!(
                    "after the crash a read at {at_us} shows {holder:?}, not {hold:?}"
                ));
            }
        }
        if !looked {
            return Err(format!("nobody looked in time after {hold:?}: the test proves nothing"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, granted, lost, op, read, release, shows};
    use super::*;

    const CRASH_US: u64 = 4_000;

    #[test]
    fn a_surviving_grant_and_a_lost_release_are_accepted() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(acquire("b", "s2"), 0, 2, granted(2)),
            lost(release("b", "s2"), 3),
            lost(acquire("c", "s3"), 3),
            op(read("a"), 5, 6, shows(Some(("s1", 1)), &[])),
            op(read("b"), 5, 6, shows(None, &[])),
        ];
        assert_eq!(acknowledged_grants_survive(&history, CRASH_US), Ok(()));
    }

    #[test]
    fn a_grant_that_is_gone_is_refused() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(1)), op(read("a"), 5, 6, shows(None, &[]))];
        assert!(acknowledged_grants_survive(&history, CRASH_US).is_err());
    }

    #[test]
    fn a_grant_with_another_token_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(read("a"), 5, 6, shows(Some(("s1", 2)), &[])),
        ];
        assert!(acknowledged_grants_survive(&history, CRASH_US).is_err());
    }

    #[test]
    fn a_test_that_does_not_look_is_refused() {
        let history = [op(acquire("a", "s1"), 0, 1, granted(1))];
        assert!(acknowledged_grants_survive(&history, CRASH_US).is_err());
    }
}
