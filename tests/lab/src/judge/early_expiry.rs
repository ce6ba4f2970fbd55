//! Early-expiry check: another session gets a lock only after its holder released it or the holder's TTL passed.
//!
//! A session is certainly alive until the sending time of its last acknowledged renewal plus its TTL, on one monotonic
//! clock. A grant is acknowledged after it happens, so an acknowledgement before that time proves an early grant.

use super::holds::{Hold, Sessions};
use crate::history::{ClientCall, Completion, Operation};

/// Checks that no session expired or lost a lock before its TTL passed.
///
/// # Errors
/// A description of the first violation.
pub fn no_early_expiry(operations: &[Operation]) -> Result<(), String> {
    let sessions = Sessions::of(operations);
    for pair in sessions.holds().windows(2).filter(|pair| pair[0].lock == pair[1].lock) {
        not_taken_early(&sessions, &pair[0], &pair[1])?;
    }
    operations.iter().try_for_each(|operation| not_declared_dead_early(&sessions, operation))
}

/// Holds are sorted by token, so the grant of `next` is later than that of `hold`.
fn not_taken_early(sessions: &Sessions<'_>, hold: &Hold, next: &Hold) -> Result<(), String> {
    let taken_us = next.acknowledged_us;
    if hold.session == next.session || hold.released_us < taken_us {
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

/// A `session-expired` reply is a violation while the session is certainly alive.
fn not_declared_dead_early(sessions: &Sessions<'_>, dead: &Operation) -> Result<(), String> {
    let Completion::Fail { at_us, code } = &dead.completion else { return Ok(()) };
    let (ClientCall::Acquire { session, .. }
    | ClientCall::Release { session, .. }
    | ClientCall::KeepAlive { session, .. }) = &dead.call
    else {
        return Ok(());
    };
    let closed = |other: &&Operation| {
        matches!(other.call, ClientCall::Close { .. }) && other.invoked_us < *at_us
    };
    let until_us = sessions.certain_until(session, dead.invoked_us);
    let early = code == "session-expired" && *at_us < until_us;
    if early && !sessions.operations(session).iter().any(closed) {
        return Err(format!(
            "{session} was certain until {until_us} and got session-expired at {at_us}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, close, granted, keep_alive, op, release};
    use super::*;
    use crate::history::CallReply::Done;

    fn expired(call: ClientCall, from: u64, to: u64) -> Operation {
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
    fn a_grant_that_ignores_a_keepalive_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(keep_alive("s1"), 5, 6, Done),
            op(acquire("a", "s2"), 1, 14, granted(2)),
        ];
        assert!(no_early_expiry(&history).expect_err("refused").contains("certain until 15000"));
    }

    #[test]
    fn a_grant_that_ignores_a_renewal_by_acquire_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(acquire("a", "s1"), 8, 9, granted(1)),
            op(acquire("a", "s2"), 1, 12, granted(2)),
        ];
        assert!(no_early_expiry(&history).is_err());
    }

    #[test]
    fn a_session_that_expires_before_its_ttl_is_refused() {
        let history = [op(acquire("a", "s1"), 0, 1, granted(1)), expired(acquire("a", "s1"), 4, 5)];
        let violation = no_early_expiry(&history).expect_err("refused");
        assert!(violation.contains("session-expired at 5000"));
    }
}
