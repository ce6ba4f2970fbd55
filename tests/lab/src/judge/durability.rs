//! Durability check: after a crash, every acknowledged grant of a session that has not expired still exists, and
//! every acknowledged release is still in effect.

use std::collections::BTreeMap;

use super::holds::{Hold, Sessions};
use crate::history::{CallReply, ClientCall, Operation};

/// Compares the reads invoked after `crashed_us` with the holds acknowledged before it. Requires such a read for every
/// hold that must survive the crash.
///
/// # Errors
/// A description of the first violation.
pub fn acknowledged_grants_survive(
    operations: &[Operation],
    crashed_us: u64,
) -> Result<(), String> {
    let (sessions, reads) = (Sessions::of(operations), reads_after(operations, crashed_us));
    for hold in sessions.holds().into_iter().filter(|hold| hold.acknowledged_us < crashed_us) {
        let reads = reads.get(hold.lock.as_str()).map_or(&[][..], Vec::as_slice);
        if hold.released_us == u64::MAX {
            survives(&sessions, &hold, reads, crashed_us)?;
        } else if release_acknowledged(&sessions, &hold, crashed_us) {
            stays_released(&hold, reads)?;
        }
    }
    Ok(())
}

/// Time of a read's reply, and the holder that it showed: session and token.
type Read<'a> = (u64, &'a Option<(String, u64)>);

fn reads_after(operations: &[Operation], crashed_us: u64) -> BTreeMap<&str, Vec<Read<'_>>> {
    let mut reads: BTreeMap<&str, Vec<Read<'_>>> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| operation.invoked_us > crashed_us) {
        let ClientCall::Read { lock } = &operation.call else { continue };
        let Some((at_us, CallReply::Lock { holder, .. })) = operation.answered() else { continue };
        reads.entry(lock).or_default().push((at_us, holder));
    }
    reads
}

fn survives(
    sessions: &Sessions<'_>,
    hold: &Hold,
    reads: &[Read<'_>],
    crashed_us: u64,
) -> Result<(), String> {
    let must_live_until = sessions.certain_until(&hold.session, crashed_us);
    if must_live_until <= crashed_us {
        return Ok(());
    }
    let in_time: Vec<_> = reads.iter().filter(|(at_us, _)| *at_us < must_live_until).collect();
    if in_time.is_empty() {
        return Err(format!("no read before the expiry of {hold:?}: the test proves nothing"));
    }
    let expected = Some((hold.session.clone(), hold.token));
    match in_time.into_iter().find(|(_, holder)| **holder != expected) {
        Some((at_us, holder)) => {
            Err(format!("after the crash a read at {at_us} shows {holder:?}, not {hold:?}"))
        }
        None => Ok(()),
    }
}

fn release_acknowledged(sessions: &Sessions<'_>, hold: &Hold, crashed_us: u64) -> bool {
    sessions.operations(&hold.session).iter().any(|operation| {
        matches!(&operation.call, ClientCall::Release { lock, .. } if *lock == hold.lock)
            && operation.invoked_us >= hold.acknowledged_us
            && operation.answered().is_some_and(|(at_us, _)| at_us < crashed_us)
    })
}

fn stays_released(hold: &Hold, reads: &[Read<'_>]) -> Result<(), String> {
    if reads.is_empty() {
        return Err(format!("no read of {hold:?} after the crash: the test proves nothing"));
    }
    let undone =
        |(_, holder): &&Read<'_>| holder.as_ref().is_some_and(|(_, token)| *token == hold.token);
    match reads.iter().find(undone) {
        Some((at_us, _)) => Err(format!("{hold:?} was released, and a read at {at_us} shows it")),
        None => Ok(()),
    }
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
    fn an_acknowledged_release_that_is_undone_is_refused() {
        let history = [
            op(acquire("a", "s1"), 0, 1, granted(1)),
            op(release("a", "s1"), 2, 3, CallReply::Done),
            op(read("a"), 5, 6, shows(Some(("s1", 1)), &[])),
        ];
        assert!(acknowledged_grants_survive(&history, CRASH_US).is_err());
    }

    #[test]
    fn a_history_without_a_read_after_the_crash_is_refused() {
        let history = [op(acquire("a", "s1"), 0, 1, granted(1))];
        assert!(acknowledged_grants_survive(&history, CRASH_US).is_err());
    }
}
