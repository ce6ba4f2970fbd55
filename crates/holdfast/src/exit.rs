//! Why a command ended badly, and the exit code that tells a script the same.

use std::fmt;
use std::process::ExitCode;

/// The end of a command that did not do what was asked.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed; the message says what to change.
    Failed(String),
    /// The node stopped itself: it cannot trust its disk, or its log.
    Halted(String),
    /// The lock was not acquired in the time given.
    NotAcquired(String),
    /// The lock was held and is lost.
    Lost(String),
}

impl Stop {
    /// An end with this message and code 1.
    pub(crate) fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }

    /// The code for the shell. 75 is `EX_TEMPFAIL`, as `flock -E` users choose; 70 is `EX_SOFTWARE`.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Halted(_) => ExitCode::from(70),
            Self::NotAcquired(_) => ExitCode::from(75),
            Self::Lost(_) => ExitCode::from(76),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason)
            | Self::Halted(reason)
            | Self::NotAcquired(reason)
            | Self::Lost(reason) => f.write_str(reason),
        }
    }
}
