//! Why a held lock was lost.

use std::time::Duration;

/// Why a held lock was lost. In every case, stop the work under the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal was acknowledged in time: another client may hold the lock from now on. A process that was paused for
    /// too long gets this loss, too.
    NotRenewed {
        /// The error of the last renewal.
        reason: String,
    },
    /// The cluster ended the session.
    SessionEnded,
    /// The session is open but no longer holds the lock. Another call of the session released it, a client deleted its
    /// znode, or the cluster returned no cause.
    ReleasedElsewhere,
    /// An operator force-released the lock (`holdfast unlock --force`, `POST /v1/force-releases/NAME`).
    ForceReleased {
        /// The operator's reason, if a node still has it.
        reason: Option<String>,
    },
    /// The holder received a release request and did not release the lock by the deadline (`holdfast unlock --ask --revoke`).
    Revoked {
        /// The reason of the request.
        reason: Option<String>,
    },
    /// The guard or another call of the session transferred the lock to another session.
    Transferred,
    /// No [`report_progress`](crate::Hold::report_progress) call within the [progress
    /// timeout](crate::Lock::progress_timeout): the client released the lock.
    Stalled {
        /// The progress timeout.
        timeout: Duration,
    },
    /// `max_hold` has passed, so the client released the lock.
    MaxHoldExceeded {
        /// The value of `max_hold`.
        max: Duration,
    },
}

impl Loss {
    /// Whether the client ended the hold while the cluster would keep it.
    pub(crate) fn is_ended_by_client(&self) -> bool {
        matches!(self, Self::Stalled { .. } | Self::MaxHoldExceeded { .. } | Self::Revoked { .. })
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRenewed { reason } => {
                write!(f, "no renewal was acknowledged before the deadline: {reason}")
            }
            Self::SessionEnded => f.write_str("the session has ended"),
            Self::ReleasedElsewhere => f.write_str("the session no longer holds the lock"),
            Self::ForceReleased { reason } => {
                write!(f, "an operator force-released the lock{}", because(reason.as_deref()))
            }
            Self::Revoked { reason } => {
                let because = because(reason.as_deref());
                write!(f, "the lock was not released by the deadline of a release request{because}")
            }
            Self::Transferred => f.write_str("the lock was transferred to another session"),
            Self::Stalled { timeout } => {
                write!(f, "no progress for {timeout:?}, so the lock was released")
            }
            Self::MaxHoldExceeded { max } => {
                write!(f, "the lock was held for {max:?}, its max_hold, and was released")
            }
        }
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" (reason: {reason})")).unwrap_or_default()
}

impl std::error::Error for Loss {}
