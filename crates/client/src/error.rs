//! Call errors, grouped by the caller's next action.

use std::fmt;

use holdfast_api::{ErrorCode, HolderBody, Problem};
use holdfast_types::{Attempt, RequestNumber};
use thiserror::Error;

use crate::Loss;
use crate::error_text::{busy_text, rejection_text};

/// A call error. Each variant needs a different reaction. `Debug` prints the name of the variant and the text of `Display`,
/// on one line: a `main` that returns the error prints it.
#[derive(Error)]
pub enum Error {
    /// Another client holds the lock, or the awaited event has not happened. Wait longer, or try again later.
    #[error("{}", busy_text(.0))]
    Busy(Box<Problem>),
    /// Another client may hold the lock. Stop the work under it.
    #[error("{0}")]
    Lost(Loss),
    /// No node executed the call within the timeout. The same call is safe later.
    #[error("no node answered the call in time: {0}")]
    Unavailable(String),
    /// The call may have taken effect. Repeat it with the same session: it returns the first answer. An acquire needs
    /// no repetition, because the client releases its possible hold in the background.
    #[error("the outcome is unknown, repeat the call with the same session: {0}")]
    OutcomeUnknown(String),
    /// The cluster rejected the call. Change it.
    #[error("{}", rejection_text(.0))]
    Rejected(Box<Problem>),
    /// The answer is not from a holdfast node. Check the address.
    #[error("the answer is not from a holdfast node, check the address: {0}")]
    UnexpectedResponse(String),
    /// A name or a duration is invalid; nothing was sent. Change it.
    #[error("{0}")]
    InvalidArgument(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Self::Busy(_) => "Busy",
            Self::Lost(_) => "Lost",
            Self::Unavailable(_) => "Unavailable",
            Self::OutcomeUnknown(_) => "OutcomeUnknown",
            Self::Rejected(_) => "Rejected",
            Self::UnexpectedResponse(_) => "UnexpectedResponse",
            Self::InvalidArgument(_) => "InvalidArgument",
        };
        write!(f, "{variant}({self})")
    }
}

impl Error {
    /// The problem document, if a node returned one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Busy(problem) | Self::Rejected(problem) => Some(problem),
            Self::Lost(_)
            | Self::Unavailable(_)
            | Self::OutcomeUnknown(_)
            | Self::UnexpectedResponse(_)
            | Self::InvalidArgument(_) => None,
        }
    }

    /// The server's advice, if it gave one. It names HTTP parameters, so `Display` omits it.
    pub fn hint(&self) -> Option<&str> {
        self.problem()?.hint.as_deref()
    }

    /// The holder of a busy lock.
    pub fn holder(&self) -> Option<&HolderBody> {
        self.problem()?.facts.holder.as_deref()
    }

    /// Whether the cluster rejected the access token, or the lack of a credential.
    pub fn is_unauthenticated(&self) -> bool {
        self.problem().is_some_and(is_unauthenticated)
    }

    /// Whether a barrier broke before it tripped. No party passed it.
    pub fn is_barrier_broken(&self) -> bool {
        self.problem().is_some_and(|problem| problem.code == ErrorCode::BarrierBroken)
    }

    /// Whether the same call may succeed later, and is safe to repeat.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unavailable(_) | Self::OutcomeUnknown(_))
    }

    /// Whether a release that failed must be repeated.
    pub(crate) fn is_uncertain(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::OutcomeUnknown(_))
    }
}

pub(crate) fn is_unauthenticated(problem: &Problem) -> bool {
    matches!(problem.code, ErrorCode::TokenExpired | ErrorCode::Unauthenticated)
}

impl From<Loss> for Error {
    fn from(loss: Loss) -> Self {
        Self::Lost(loss)
    }
}

pub(crate) fn argument(error: impl fmt::Display) -> Error {
    Error::InvalidArgument(error.to_string())
}

/// Whether a change was rejected because the cluster no longer has the hold.
pub(crate) fn is_hold_gone(error: &Error) -> bool {
    let Error::Rejected(problem) = error else { return false };
    matches!(problem.code, ErrorCode::NotHolder | ErrorCode::AttemptOver)
}

/// Returns the newest request number of the session, if the call was rejected because its own number is over.
pub(crate) fn newest_request(error: &Error) -> Option<RequestNumber> {
    let Error::Rejected(problem) = error else { return None };
    problem.facts.newest_request.filter(|_| problem.code == ErrorCode::RequestOver)
}

/// The error of a call. If the call is `in_doubt`, an earlier copy may have been executed, although this copy was
/// rejected because its request number is over.
pub(crate) fn settled(error: Error, in_doubt: bool) -> Error {
    if in_doubt && newest_request(&error).is_some() {
        let reason = "the session no longer remembers the first answer, so read the state";
        return Error::OutcomeUnknown(reason.to_owned());
    }
    error
}

/// Returns the newest attempt of the session, if the call was rejected because its own attempt is over.
pub(crate) fn newest_attempt(problem: &Problem) -> Option<Attempt> {
    problem.facts.newest_attempt.filter(|_| problem.code == ErrorCode::AttemptOver)
}
