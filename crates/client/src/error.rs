//! Call errors, grouped by the caller's next action.

use holdfast_api::{ErrorCode, HolderBody, Problem};
use thiserror::Error;

use crate::Loss;

/// A call error. Each variant needs a different reaction.
#[derive(Debug, Error)]
pub enum Error {
    /// Another client holds the lock, or the awaited event has not happened. Wait longer, or try again later.
    #[error("{}", describe_busy(.0))]
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
    #[error("{}", describe(.0))]
    Rejected(Box<Problem>),
    /// The answer is not from a holdfast node. Check the address.
    #[error("the answer is not from a holdfast node, check the address: {0}")]
    UnexpectedResponse(String),
    /// A name or a duration is invalid; nothing was sent. Change it.
    #[error("{0}")]
    InvalidArgument(String),
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

    /// The holder of a busy lock.
    pub fn holder(&self) -> Option<&HolderBody> {
        self.problem()?.facts.holder.as_deref()
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

impl From<Loss> for Error {
    fn from(loss: Loss) -> Self {
        Self::Lost(loss)
    }
}

pub(crate) fn argument(error: impl std::fmt::Display) -> Error {
    Error::InvalidArgument(error.to_string())
}

/// Describes the lock and its holder, or the missing event. Omits the hint, which is about HTTP queries.
fn describe_busy(problem: &Problem) -> String {
    let mut text = match (&problem.facts.lock, &problem.facts.holder) {
        (Some(lock), Some(holder)) => format!("{lock} is held by {}", holder.session),
        (Some(lock), None) => format!("{lock}: {}", problem.title),
        (None, _) => problem.title.to_string(),
    };
    if !problem.detail.is_empty() {
        text = format!("{text}: {}", problem.detail);
    }
    text
}

/// Joins title, detail and hint.
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

#[cfg(test)]
mod tests {
    use holdfast_api::Problem;

    use super::*;

    #[test]
    fn a_busy_lock_is_described_with_its_holder_and_without_an_http_hint() {
        let json = r#"{"type":"/errors/lock-busy","title":"The lock is held by another caller","status":423,"code":"lock-busy","retryable":true,"hint":"add &wait=10s to queue","lock":"shop/orders","holder":{"session":"web3-77","token":9,"held_for_ms":2000,"hold_count":1,"labels":{},"mode":"exclusive"},"waiters":2}"#;
        let problem: Problem = serde_json::from_str(json).unwrap();
        assert_eq!(Error::Busy(Box::new(problem)).to_string(), "shop/orders is held by web3-77");
        let json = r#"{"type":"/errors/not-yet","title":"The awaited event has not happened yet","status":423,"code":"not-yet","retryable":true,"detail":"2 of 3 counts are left","hint":"add ?wait=30s to wait for the latch"}"#;
        let text = Error::Busy(Box::new(serde_json::from_str(json).unwrap())).to_string();
        assert!(text.ends_with("2 of 3 counts are left"), "{text}");
    }
}
