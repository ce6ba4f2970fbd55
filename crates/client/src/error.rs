//! Why a call failed, sorted by what the caller may do about it.

use holdfast_api::{ErrorCode, HolderBody, Problem};
use thiserror::Error;

use crate::Loss;

/// Each variant is one thing to do next.
#[derive(Debug, Error)]
pub enum Error {
    /// Somebody else has the lock, or what was waited for has not happened yet. Wait for it, or come back later.
    #[error("{}", describe(.0))]
    Busy(Box<Problem>),
    /// What was held may belong to somebody else. Stop what the lock protected.
    #[error("{0}")]
    Lost(Loss),
    /// Nothing was done, by any node, in the time given. The same call is safe later.
    #[error("no node could do it in time: {0}")]
    Retry(String),
    /// It may have been done. Ask again with the same session: the answer is then the first one. Locks need no such
    /// care: what an acquire that failed so may have left behind is given back in the background.
    #[error("it may or may not have been done, ask again with the same session: {0}")]
    Unknown(String),
    /// The call cannot succeed as it stands. Change it.
    #[error("{}", describe(.0))]
    Refused(Box<Problem>),
    /// Something answered that is not a holdfast node. Check the address.
    #[error("the answer is not holdfast's, is the address right? {0}")]
    Foreign(String),
    /// A name or a duration breaks a rule, found out before anything was sent. Change it.
    #[error("{0}")]
    Argument(String),
}

impl Error {
    /// The problem as a node described it, if one did.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Busy(problem) | Self::Refused(problem) => Some(problem),
            Self::Lost(_)
            | Self::Retry(_)
            | Self::Unknown(_)
            | Self::Foreign(_)
            | Self::Argument(_) => None,
        }
    }

    /// Who holds the lock, if that is why.
    pub fn holder(&self) -> Option<&HolderBody> {
        self.problem()?.facts.holder.as_deref()
    }

    /// Whether a barrier broke before it opened: nobody passed, and everybody who waited is told so.
    pub fn is_broken(&self) -> bool {
        self.problem().is_some_and(|problem| problem.code == ErrorCode::BarrierBroken)
    }

    /// Whether the very same call may succeed later, and may be made again without harm.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Retry(_) | Self::Unknown(_))
    }
}

impl From<Loss> for Error {
    fn from(loss: Loss) -> Self {
        Self::Lost(loss)
    }
}

/// A value of the caller's that breaks a rule.
pub(crate) fn argument(error: impl std::fmt::Display) -> Error {
    Error::Argument(error.to_string())
}

/// Title, what happened this time, and what to do.
fn describe(problem: &Problem) -> String {
    let mut text = problem.title.to_string();
    if !problem.detail.is_empty() {
        text = format!("{text}: {}", problem.detail);
    }
    match &problem.hint {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}
