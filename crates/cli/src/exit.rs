//! The failures of commands, and the exit codes that report them to scripts.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use holdfast_api::ErrorCode;
use holdfast_client::Error;
use nix::sys::signal::Signal;

use crate::hints::{common_hint, tree_hint, tree_quota_hint};

/// Shells report a command ended by signal *n* as 128 + *n*.
const SIGNALLED: i32 = 128;
/// The exit codes of shells for a command that cannot run, and for a command that does not exist.
pub(crate) const NOT_STARTED: [u8; 2] = [126, 127];

/// The failure of a command.
#[derive(Debug)]
pub enum CommandFailure {
    /// A failure; the message names the fix.
    Failed(String),
    /// The input is wrong: a name, an address, a number or a time breaks a rule, of this program or of the node. Nothing was
    /// done.
    Usage(String),
    /// The node stopped itself because it cannot trust its disk or its log.
    Halted(String),
    /// The cluster has removed the node.
    Removed(String),
    /// The node's program is older than the feature level of the cluster, or than its own data.
    OldProgram(String),
    /// The cluster has invited the emptied node under a new id: it joins at its next start.
    Readmitted(String),
    /// No node answered the call in time.
    NoAnswer {
        /// The time that passed, for a command that waits for an answer.
        lead: Option<String>,
        /// Why there is no answer.
        reason: String,
        effect: NoAnswerEffect,
    },
    /// The lock was not acquired in time.
    NotAcquired(String),
    /// The acquire would have closed a deadlock cycle.
    Deadlock(String),
    /// The lock was held and is now lost.
    Lost(String),
    /// A signal ended the program, or the user's command (SIGINT only), with an optional message.
    Signalled(Signal, Option<String>),
    /// The cluster rejected the credential.
    Unauthenticated(String),
    /// An exit code of the user's command or of an option, with an optional message.
    Code(u8, Option<String>),
}

/// What a command without an answer may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswerEffect {
    Nothing,
    /// The command cleaned up: it holds nothing and ran nothing.
    DidNotRun,
    Unknown,
}

impl NoAnswerEffect {
    /// The effect, and the next step.
    const fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing was done. Repeat the command, or see holdfast doctor",
            Self::DidNotRun => "the command did not run. Repeat it, or see holdfast doctor",
            Self::Unknown => {
                "the outcome is unknown. Read the current state before you repeat the command, or see holdfast doctor"
            }
        }
    }
}

impl CommandFailure {
    /// Creates a failure with exit code 1.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }

    /// Creates a usage error with exit code 2.
    pub fn usage(reason: impl fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    /// Converts the error of a call about znodes. `creates` is for a call that creates or changes a znode.
    pub(crate) fn of_tree_call(error: Error, creates: bool) -> Self {
        if let Error::Rejected(_) = &error {
            return Self::rejected(&error, tree_hint(&error, creates));
        }
        Self::from(error)
    }

    /// Converts the error of a call about the quota of a subtree.
    pub(crate) fn of_tree_quota_call(error: Error) -> Self {
        if let Error::Rejected(_) = &error {
            return Self::rejected(&error, tree_quota_hint(&error));
        }
        Self::from(error)
    }

    fn no_answer(reason: String, effect: NoAnswerEffect) -> Self {
        Self::NoAnswer { lead: None, reason, effect }
    }

    fn rejected(error: &Error, hint: Option<Cow<'_, str>>) -> Self {
        let text = with_hint(error, hint);
        if is_wrong_input(error) { Self::Usage(text) } else { Self::Failed(text) }
    }

    /// Whether a restart of the node repairs nothing.
    pub const fn forbids_restart(&self) -> bool {
        matches!(self, Self::Halted(_) | Self::Removed(_) | Self::OldProgram(_))
    }

    /// Returns `true` if the failure has no message.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Code(_, None) | Self::Signalled(_, None))
    }

    /// 75 is `EX_TEMPFAIL`, the usual choice of `flock -E` users; 70 is `EX_SOFTWARE`.
    pub fn code(&self) -> ExitCode {
        match self {
            Self::Failed(_) | Self::NoAnswer { .. } | Self::Unauthenticated(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Halted(_) => ExitCode::from(70),
            Self::Removed(_) => ExitCode::from(71),
            Self::OldProgram(_) => ExitCode::from(72),
            Self::Readmitted(_) => ExitCode::from(73),
            Self::NotAcquired(_) => ExitCode::from(75),
            Self::Lost(_) => ExitCode::from(76),
            // Shells report signal n as 128 + n; the greatest signal is 64.
            Self::Signalled(signal, _) => {
                ExitCode::from(u8::try_from(128 + *signal as i32).unwrap_or(1))
            }
            Self::Deadlock(_) => ExitCode::from(77),
            Self::Code(code, _) => ExitCode::from(*code),
        }
    }
}

/// The failure of a command that did not start.
pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> CommandFailure {
    let [cannot_run, not_found] = NOT_STARTED;
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let code = if is_missing { not_found } else { cannot_run };
    CommandFailure::Code(code, Some(format!("cannot run {}: {error}", program.to_string_lossy())))
}

/// Maps the exit code of the command to the exit code of this program.
pub(crate) fn exit_code(status: ExitStatus) -> Result<(), CommandFailure> {
    // A shell ends its loop only if SIGINT ended the command.
    if status.signal() == Some(Signal::SIGINT as i32) {
        return Err(CommandFailure::Signalled(Signal::SIGINT, None));
    }
    let signalled = status.signal().map(|signal| SIGNALLED + signal);
    match status.code().or(signalled).unwrap_or(1) {
        0 => Ok(()),
        code => Err(CommandFailure::Code(u8::try_from(code).unwrap_or(1), None)),
    }
}

/// The error and the next step, on one line.
pub(crate) fn with_hint(error: &Error, hint: Option<Cow<'_, str>>) -> String {
    hint.map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"))
}

/// Whether the node rejected the input itself, regardless of any lock or session.
pub(crate) fn is_wrong_input(error: &Error) -> bool {
    use ErrorCode::{BadDuration, BadName, InvalidArgument};
    error
        .problem()
        .is_some_and(|problem| matches!(problem.code, InvalidArgument | BadDuration | BadName))
}

/// Converts the error of a call, and adds the options to change on the command line.
impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Busy(_) => Self::NotAcquired(format!("{error} (wait longer with --wait)")),
            Error::InvalidArgument(_) => Self::usage(error),
            Error::Unavailable(reason) => {
                Self::no_answer(format!("no node answered: {reason}"), NoAnswerEffect::Nothing)
            }
            Error::OutcomeUnknown(reason) => {
                Self::no_answer(format!("no node answered: {reason}"), NoAnswerEffect::Unknown)
            }
            Error::Rejected(_) if error.is_unauthenticated() => {
                Self::Unauthenticated(with_hint(&error, common_hint(&error)))
            }
            Error::Rejected(problem) if problem.code == ErrorCode::Deadlock => {
                Self::Deadlock(with_hint(&error, common_hint(&error)))
            }
            Error::Rejected(_) => Self::rejected(&error, common_hint(&error)),
            // The session is not open. A command that holds a lock makes `Self::Lost` of the loss of its guard.
            Error::Lost(_) | Error::UnexpectedResponse(_) => Self::failed(error),
        }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason)
            | Self::Usage(reason)
            | Self::Halted(reason)
            | Self::Removed(reason)
            | Self::OldProgram(reason)
            | Self::Readmitted(reason)
            | Self::NotAcquired(reason)
            | Self::Deadlock(reason)
            | Self::Lost(reason)
            | Self::Signalled(_, Some(reason))
            | Self::Unauthenticated(reason)
            | Self::Code(_, Some(reason)) => f.write_str(reason),
            Self::Signalled(signal, None) => write!(f, "{signal}"),
            Self::NoAnswer { lead: Some(lead), reason, effect } => {
                write!(f, "{lead} ({reason}); {}", effect.text())
            }
            Self::NoAnswer { lead: None, reason, effect } => {
                write!(f, "{reason}; {}", effect.text())
            }
            Self::Code(code, None) => write!(f, "exit code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::Problem;

    use super::*;

    #[test]
    fn a_rejection_has_a_hint_of_the_command_line_or_of_the_server() {
        let rejected =
            |code| Error::Rejected(Box::new(Problem::new(code, "why").hint("create it with PUT")));
        let tree = CommandFailure::of_tree_call(rejected(ErrorCode::ZnodeExists), true).to_string();
        assert!(tree.contains("why (holdfast tree set"), "{tree}");
        let other = CommandFailure::from(rejected(ErrorCode::NotFound)).to_string();
        assert!(other.ends_with("why (create it with PUT)"), "{other}");
    }
}
