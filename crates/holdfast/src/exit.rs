//! Why a command ended badly, and the exit code that tells a script the same.

use std::fmt;
use std::process::ExitCode;

/// The end of a command that did not do what was asked.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed; the message says what to change.
    Failed(String),
    /// The command line is wrong: a name, an address or a time breaks a rule. Nothing was asked of any node.
    Usage(String),
    /// The node stopped itself: it cannot trust its disk, or its log.
    Halted(String),
    /// The lock was not acquired in the time given.
    NotAcquired(String),
    /// The lock was held and is lost.
    Lost(String),
    /// This exit code, which is the command's own or was asked for, with a message if there is one.
    Code(u8, Option<String>),
}

impl Stop {
    /// An end with this message and code 1.
    pub(crate) fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }

    /// A wrong command line, with this message and code 2.
    pub(crate) fn usage(reason: impl fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    /// Whether there is nothing to say about it: a command that was run has said what there is.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Code(_, None))
    }

    /// The code for the shell. 75 is `EX_TEMPFAIL`, as `flock -E` users choose; 70 is `EX_SOFTWARE`.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Halted(_) => ExitCode::from(70),
            Self::NotAcquired(_) => ExitCode::from(75),
            Self::Lost(_) => ExitCode::from(76),
            Self::Code(code, _) => ExitCode::from(*code),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason)
            | Self::Usage(reason)
            | Self::Halted(reason)
            | Self::NotAcquired(reason)
            | Self::Lost(reason)
            | Self::Code(_, Some(reason)) => f.write_str(reason),
            Self::Code(code, None) => write!(f, "exit code {code}"),
        }
    }
}
