//! A request of somebody else that a holder release its lock, as its guards learn of it.

use std::time::Duration;

use crate::clock::Moment;

/// Somebody asks the holder to release the lock (`holdfast ask`, `POST /v1/locks/NAME`). The cluster does not know who: the
/// reason says so if the caller wrote it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// Why, if the caller gave a reason.
    pub reason: Option<String>,
    /// By when the caller wants the lock.
    pub deadline: Moment,
    /// Whether the cluster ends the hold at the deadline. The guard is lost a moment before.
    pub revoke: bool,
}

impl ReleaseRequest {
    /// A request that arrives now.
    pub(crate) fn new(reason: Option<String>, wanted_in: Duration, revoke: bool) -> Self {
        Self { reason, deadline: crate::lease::deadline(Moment::now(), wanted_in), revoke }
    }

    /// What is left until the deadline; zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.left(Moment::now())
    }

    /// Whether this is the same request, learned of at another moment.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.reason == other.reason && self.revoke == other.revoke
    }
}

impl std::fmt::Display for ReleaseRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.remaining().as_millis().div_ceil(1_000);
        write!(f, "release wanted within {seconds}s")?;
        if self.revoke {
            f.write_str(", then it is revoked")?;
        }
        match &self.reason {
            Some(reason) => write!(f, " (reason: {reason})"),
            None => f.write_str(" (no reason given)"),
        }
    }
}
