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
    /// The session lives, but no longer holds the lock: it was released elsewhere, or taken away.
    TakenAway,
    /// The guard's own program handed it to another session.
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
        matches!(self, Self::Stalled { .. } | Self::HeldTooLong { .. })
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

impl std::error::Error for Loss {}
