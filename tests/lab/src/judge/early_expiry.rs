//! Never early: a lock goes to another only after its holder gave it up or its session's time was certainly over.
//!
//! Certain is: sending time of the last acknowledged renewal plus the time-to-live, on one monotonic clock. The other's
//! acknowledgement comes after its grant, so an acknowledgement before that moment is a grant before it.

use super::holds::{Hold, Sessions};
use crate::history::{Call, Completion, Operation};

/// Judges that no session lost a lock, or its life, before its time.
///
/// # Errors
/// The first violation found, in words.
pub fn no_early_expiry(operations: &[Operation]) -> Result<(), String> {
    let sessions = Sessions::of(operations);
    for pair in sessions.holds().windows(2).filter(|pair| pair[0].lock == pair[1].lock) {
        not_taken_early(&sessions, &pair[0], &pair[1])?;
    }
    operations.iter().try_for_each(|operation| not_declared_dead_early(&sessions, operation))
}

/// Holds are in order of their tokens, so `next` took the lock after `hold`.
fn not_taken_early(sessions: &Sessions<'_>, hold: &Hold, next: &Hold) -> Result<(), String> {
    let taken_us = next.acknowledged_us;
    if hold.session == next.session || hold.given_up_us < taken_us {
        return Ok(());
    }
    let until_us = sessions.certain_until(&hold.session, taken_us);
    if taken_us < until_us {
        return Err(format!(
            "{hold:?} was certain until {until_us}, and {next:?} had it at {taken_us}"
        ));
    }
    Ok(())
}

/// A 410 says the session is over: refused while it is certain to live.
fn not_declared_dead_early(sessions: &Sessions<'_>, dead: &Operation) -> Result<(), String> {
    let Completion::Fail { at_us, code } = &dead.completion else { return Ok(()) };
    let (Call::Acquire { session, .. }
    | Call::Release { session, .. }
    | Call::KeepAlive { session, .. }) = &dead.call
    else {
        return Ok(());
    };
    let closed =
        |other: &&Operation| matches!(other.call, Call::Close { .. }) && other.invoked_us < *at_us;
    let until_us = sessions.certain_until(session, dead.invoked_us);
    let early = code == "session-expired" && *at_us < until_us;
    if early && !sessions.operations(session).iter().any(closed) {
        return Err(format!(
            "{session} was certain until {until_us} and told at {at_us} that it expired"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, close, granted, keep_alive, op, release};
    use super::*;
    use crate::history::Answer::Done;

    fn expired(call: Call, from: u64, to: u64) -> Operation {
        let completion = Completion::Fail { at_us: to * 1_000, code: "session-expired".into() };
        Operation { call, invoked_us: from * 1_000, completion }
    }

    #[test]
    fn a_grant_after_the_time_to_live_is_accepted() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(keep_alive("s1"), 5, 6, Done),
            op(acquire("a", "s2"), 1, 15, granted(2)),
            expired(keep_alive("s1"), 16, 17),
        ];
        assert_eq!(no_early_expiry(&history), Ok(()));
    }

    #[test]
    fn a_grant_after_a_release_or_a_close_is_accepted() {
        for end in [op(release("a", "s1"), 2, 3, Done), op(close("s1"), 2, 3, Done)] {
            let history = [
                op(acquire("a", "s1"), 0, 1, granted(1)),
                end,
                op(acquire("a", "s2"), 1, 4, granted(2)),
            ];
            assert_eq!(no_early_expiry(&history), Ok(()));
        }
    }

    #[test]
    fn a_grant_within_the_first_time_to_live_is_refused() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(1)), op(acquire("a", "s2"), 1, 9, granted(2))];
        assert!(no_early_expiry(&history).is_err());
    }

    #[test]
    fn a_grant_that_overlooks_a_keepalive_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(keep_alive("s1"), 5, 6, Done),
            op(acquire("a", "s2"), 1, 14, granted(2)),
        ];
        assert!(no_early_expiry(&history).expect_err("refused").contains("certain until 15000"));
    }

    #[test]
    fn a_grant_that_overlooks_a_renewal_by_acquire_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(acquire("a", "s1"), 8, 9, granted(1)),
            op(acquire("a", "s2"), 1, 12, granted(2)),
        ];
        assert!(no_early_expiry(&history).is_err());
    }

    #[test]
    fn a_session_declared_dead_within_its_time_is_refused() {
        let history = [op(acquire("a", "s1"), 0, 1, granted(1)), expired(acquire("a", "s1"), 4, 5)];
        assert!(no_early_expiry(&history).expect_err("refused").contains("told at 5000"));
    }
}
