//! Durable holds: a hold that ends only by a release with its token, or by an operator's force-release.
//!
//! Its queue entry belongs to a session of its own kind ([`SessionName::is_durable`]), which has no lease and closes with
//! its last entry. So the queue, the tree, the snapshot and ZooKeeper clients see an entry like every other. Only a durable
//! acquire and a release with a token may name such a session.

use holdfast_types::{
    Acquire, AcquireOptions, Command, Mode, NumberedCall, OutOfBounds, Rejection, Release,
    ReleaseTarget,
};

use crate::auth::needed::{CommandNeeds, Needed, needed_by};

/// Rejects a durable acquire with an option that it cannot have, and every other call that names a session of durable
/// holds.
pub(crate) fn check_durable(
    call: Option<&NumberedCall>,
    command: &Command,
    needs: &CommandNeeds<'_>,
) -> Result<(), Rejection> {
    let names_one = call.is_some_and(|call| call.session.is_durable());
    let is_allowed = if let Command::Acquire(acquire) = command
        && acquire.options.durable.is_some()
    {
        is_sound(acquire)
    } else {
        matches!(command, Command::Release(Release { target: ReleaseTarget::Hold(_), .. }))
            || names_no_durable_session(needs)
    };
    if is_allowed && !names_one {
        Ok(())
    } else {
        Err(Rejection::OutOfBounds { what: OutOfBounds::Durable })
    }
}

/// Whether a durable acquire has a durable session, an attempt, and only options that have a meaning for it. Without an
/// attempt, a late copy would acquire the lock after the release, and no client would know that hold.
fn is_sound(acquire: &Acquire) -> bool {
    let Acquire { locks, open, attempt, change, mode, shards, options, wait, wait_ms, .. } =
        acquire;
    let AcquireOptions { max_hold_ms, .. } = options;
    open.session.is_durable()
        && attempt.is_some()
        && open.ttl.is_none()
        && open.password.is_none()
        && locks.single().is_some()
        && change.is_none()
        && *mode != Some(Mode::Upgradable)
        && shards.is_none()
        && max_hold_ms.is_none()
        // No lease ends the wait of a caller that is gone.
        && (!wait || wait_ms.is_some())
}

fn names_no_durable_session(needs: &CommandNeeds<'_>) -> bool {
    let check = |needed: Needed<'_>| match needed {
        Needed::NewOrOwnSession(session)
        | Needed::OwnSession(session)
        | Needed::ClosableSession(session)
        | Needed::OwnSessionToClose(session)
            if session.is_durable() =>
        {
            Err(())
        }
        Needed::Receiver(hand_over) if hand_over.to.0.is_durable() => Err(()),
        Needed::NewOrOwnSession(_)
        | Needed::OwnSession(_)
        | Needed::ClosableSession(_)
        | Needed::OwnSessionToClose(_)
        | Needed::Receiver(..)
        | Needed::Permission(..)
        | Needed::Below(..)
        | Needed::OwnSessionId(_)
        | Needed::Caller
        | Needed::Node => Ok(()),
    };
    needed_by(needs, &mut { check }).is_ok()
}
