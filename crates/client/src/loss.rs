//! Why a lock that was held is held no more.

use std::time::Duration;

/// The reason; whatever it is, stop what the lock protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal was acknowledged in time: somebody else may have it from now on. Also what a process finds that
    /// was paused for too long.
    NotRenewed {
        /// What stood in the way the last time.
        reason: String,
    },
    /// The cluster says that the session has ended.
    SessionEnded,
    /// The session lives, but no longer holds the lock: another call in the session's name released it, somebody deleted
    /// its znode, or the cluster did not say how it ended.
    TakenAway,
    /// An operator took the lock away (`holdfast unlock --force`, `DELETE /v1/locks/NAME?force`).
    Broken {
        /// The reason that the operator gave, if a node still knew it.
        reason: Option<String>,
    },
    /// The holder was asked to release the lock and did not do so by the deadline (`holdfast ask --revoke`).
    Revoked {
        /// The reason of the request, if it had one.
        reason: Option<String>,
    },
    /// It was handed to another session, by the guard's own program or by another call in the session's name.
    HandedOver,
    /// Nobody touched the guard for as long as its beacon allows: the work is stuck, so the lock was given back.
    Stalled {
        /// What the beacon allowed.
        every: Duration,
    },
    /// It was held for as long as it may be, so it was given back.
    HeldTooLong {
        /// What was allowed.
        max: Duration,
    },
}

impl Loss {
    /// Whether this side gave the lock up while the cluster would have let it keep it.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Stalled { .. } | Self::HeldTooLong { .. } | Self::Revoked { .. })
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRenewed { reason } => {
                write!(f, "no renewal was acknowledged before the deadline: {reason}")
            }
            Self::SessionEnded => f.write_str("the session has ended"),
            Self::TakenAway => f.write_str("the session no longer holds the lock"),
            Self::Broken { reason } => {
                write!(f, "an operator took it away{}", because(reason.as_deref()))
            }
            Self::Revoked { reason } => {
                let because = because(reason.as_deref());
                write!(f, "it was not released by the deadline of a release request{because}")
            }
            Self::HandedOver => f.write_str("it was handed to another session"),
            Self::Stalled { every } => {
                write!(f, "no progress was shown for {every:?}, so it was given back")
            }
            Self::HeldTooLong { max } => {
                write!(f, "it was held for {max:?}, as long as it may be, and was given back")
            }
        }
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" (reason: {reason})")).unwrap_or_default()
}

impl std::error::Error for Loss {}
