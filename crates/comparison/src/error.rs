//! Why a lock was not taken or not given back: one type for all systems, so that a report can count.
//!
//! Owns the classes. Refuses to keep a driver's error: its words are enough for a report.

use thiserror::Error;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// Somebody else has it, and patience ran out. Nothing is left behind in a queue.
    #[error("somebody else has the lock")]
    Busy,
    /// Found out at the release: it was not held any more, for instance because its time had passed.
    #[error("the lock was lost before its release: {0}")]
    Lost(String),
    /// The server does not answer, or not in time: it may or may not have done it.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// The server answered that it does not do this.
    #[error("refused: {0}")]
    Refused(String),
}

impl LockError {
    /// One word for a table of errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Lost(_) => "lost",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
        }
    }
}
