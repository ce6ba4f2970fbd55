//! Why a call of the service has no answer, and the one place that maps the errors of `holdfast-raft` to it.

use std::fmt;
use std::time::Duration;

use holdfast_types::{LatchView, LockView, Rejection, Revision, TreeRejection};

/// Why there is no answer. Each says what the caller may do.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The machine refused: the same on every node, asking again gives the same until something changes.
    Rejected(Rejection),
    /// The wait ended without a grant; the caller is no longer in the queue.
    WaitTimeout {
        /// The lock as it was then.
        lock: Box<LockView>,
        /// From the request's arrival.
        waited: Duration,
    },
    /// What the caller waited for at a latch or a barrier has not happened.
    NotYet {
        /// What.
        what: NotYet,
        /// From the request's arrival.
        waited: Duration,
    },
    /// The wait is longer than allowed. Nothing was done.
    WaitTooLong {
        /// The longest allowed.
        max: Duration,
    },
    /// No leader is known. Nothing was done; ask again soon.
    NoLeader,
    /// No answer came: it may or may not have been done. Ask again with the same session.
    OutcomeUnknown,
    /// The state machine answered a command with the reply of another one: a bug of this program.
    UnexpectedReply,
    /// Too much is queued. Nothing was done; ask again after a while.
    Overloaded {
        /// How long a while.
        retry_after: Duration,
    },
    /// Too many callers are parked on this node. Nothing was done.
    TooManyWaiters {
        /// The bound.
        limit: usize,
    },
    /// Too little disk is left. Nothing was done; reads and renewals go on.
    DiskFull,
    /// The command is larger than an entry may be. Nothing was done.
    TooLarge,
    /// This node lags behind the leader, so the read would be stale. Ask another node.
    Behind {
        /// Whether it cannot catch up because its disk is full.
        disk_full: bool,
    },
    /// This node has not applied what the caller has seen elsewhere. Nothing was done; ask another one.
    Lagging,
    /// Too many streams are open on this node, or too many watch it. Nothing was done; ask another one.
    TooManyStreams {
        /// The bound.
        limit: usize,
    },
    /// The stream has too many watches, or all streams of the node together. Not all that was asked for is armed.
    TooManyWatches {
        /// The stream's bound.
        limit: usize,
    },
    /// Changes that were asked for are forgotten. Look at the state anew, then watch from there.
    Compacted {
        /// From where on.
        restart_from: Revision,
    },
    /// The node is about to stop. Ask another one.
    ShuttingDown,
    /// The node has no log yet, and waits for what is said here. Nothing was done.
    Starting(String),
    /// The node cannot trust its disk and serves nothing any more.
    Failed(String),
}

/// What a caller waited for and has not happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// The latch is not at zero.
    Latch(LatchView),
    /// Others are missing. The caller's arrival, if there was one, is taken back.
    Arrivals {
        arrived: u32,
        /// How many pass together.
        parties: u32,
    },
    /// Others are still inside. The caller has left.
    Inside { round: Revision, inside: u32 },
}

impl Failure {
    /// The failure of a call that made one operation: what that was refused for, without its place.
    #[must_use]
    pub fn of_one_op(self) -> Self {
        if let Self::Rejected(Rejection::Tree(TreeRejection::OfOperation { why, .. })) = self {
            return Self::Rejected(*why);
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rejected(_) => "the state machine rejected the command",
            Self::WaitTimeout { .. } => "the lock was not granted in time",
            Self::NotYet { .. } => "the condition was not met in time",
            Self::WaitTooLong { .. } => "the wait is longer than allowed",
            Self::NoLeader => "no leader is known",
            Self::OutcomeUnknown => "the outcome is unknown",
            Self::UnexpectedReply => "the reply does not belong to the command",
            Self::Overloaded { .. } => "too much is queued",
            Self::TooManyWaiters { .. } => "too many callers wait on this node",
            Self::DiskFull => "too little disk is left",
            Self::TooLarge => "the command is too large",
            Self::Behind { .. } | Self::Lagging => "this node is behind the leader",
            Self::TooManyStreams { .. } => "too many streams are open on this node",
            Self::TooManyWatches { .. } => "too many watches are open on this node",
            Self::Compacted { .. } => "the changes asked for were compacted",
            Self::ShuttingDown => "this node is shutting down",
            Self::Starting(why) | Self::Failed(why) => return f.write_str(why),
        })
    }
}
