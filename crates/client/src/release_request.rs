//! A request to a holder to release its lock.

use std::time::Duration;

use crate::clock::Moment;

/// A request to the holder to release the lock (`holdfast unlock --ask`, `POST /v1/release-requests/NAME`). The cluster does not store the
/// requester; the reason may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The requester's reason.
    pub reason: Option<String>,
    /// The moment by which the requester wants the lock.
    pub deadline: Moment,
    /// Whether the cluster revokes the hold at the deadline. The guard is lost shortly before.
    pub revoke: bool,
}

impl ReleaseRequest {
    pub(crate) fn new(reason: Option<String>, wanted_in: Duration, revoke: bool) -> Self {
        Self { reason, deadline: crate::lease::deadline(Moment::now(), wanted_in), revoke }
    }

    /// The time until the deadline; zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.left(Moment::now())
    }

    /// Whether both are the same request, received at different moments.
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
