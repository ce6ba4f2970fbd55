//! Linearizability check: a read shows every grant that was acknowledged before the read was sent.

use std::collections::BTreeMap;

use super::holds::{Hold, Sessions};
use crate::history::{CallReply, ClientCall, Operation};

/// Checks that no read returns stale lock state.
///
/// # Errors
/// A description of the first violation.
pub fn fresh_reads(operations: &[Operation]) -> Result<(), String> {
    let sessions = Sessions::of(operations);
    let mut by_lock: BTreeMap<String, Vec<Hold>> = BTreeMap::new();
    for hold in sessions.holds() {
        by_lock.entry(hold.lock.clone()).or_default().push(hold);
    }
    for operation in operations {
        let ClientCall::Read { lock } = &operation.call else { continue };
        let Some((at_us, CallReply::Lock { holder, .. })) = operation.answered() else { continue };
        let holds = by_lock.get(lock).map_or(&[][..], Vec::as_slice);
        let known = holds.iter().filter(|hold| hold.acknowledged_us < operation.invoked_us);
        let Some(newest) = known.max_by_key(|hold| hold.token) else { continue };
        let fresh = match holder {
            Some((session, token)) => {
                *token > newest.token || (*token == newest.token && *session == newest.session)
            }
            None => may_be_over(&sessions, newest, at_us),
        };
        if !fresh {
            return Err(format!(
                "a read of {lock} from {} to {at_us} showed {holder:?}, after {newest:?}",
                operation.invoked_us
            ));
        }
    }
    Ok(())
}

/// True if the hold may have ended before `at_us`, by a release or by expiry of the session.
fn may_be_over(sessions: &Sessions<'_>, hold: &Hold, at_us: u64) -> bool {
    let until_us = sessions.certain_until(&hold.session, at_us);
    hold.released_us < at_us || until_us <= at_us
}

#[cfg(test)]
mod tests {
    use super::super::script::{acquire, granted, op, read, release, shows};
    use super::*;
    use crate::history::CallReply::Done;

    #[test]
    fn reads_that_follow_the_grants_are_accepted() {
        let history = [
            op(read("a"), 0, 1, shows(None, &[])),
            op(acquire("a", "s1"), 0, 2, granted(1)),
            op(read("a"), 3, 4, shows(Some(("s1", 1)), &[])),
            op(release("a", "s1"), 4, 5, Done),
            op(read("a"), 5, 6, shows(None, &[])),
            op(read("a"), 15, 16, shows(Some(("s2", 2)), &[])),
        ];
        assert_eq!(fresh_reads(&history), Ok(()));
    }

    #[test]
    fn an_older_holder_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(acquire("a", "s2"), 12, 13, granted(2)),
            op(read("a"), 14, 15, shows(Some(("s1", 1)), &[])),
        ];
        assert!(fresh_reads(&history).is_err());
    }

    #[test]
    fn a_free_lock_while_the_holder_is_certainly_alive_is_refused() {
        let history =
            [op(acquire("a", "s1"), 0, 1, granted(1)), op(read("a"), 2, 3, shows(None, &[]))];
        assert!(fresh_reads(&history).is_err());
    }

    #[test]
    fn another_holder_with_the_same_token_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(read("a"), 2, 3, shows(Some(("s2", 1)), &[])),
        ];
        assert!(fresh_reads(&history).is_err());
    }
}
