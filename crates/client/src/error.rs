//! Why a call failed, sorted by what the caller may do about it.

use holdfast_api::{ErrorCode, HolderBody, Problem};
use thiserror::Error;

use crate::Loss;

/// Each variant is one thing to do next.
#[derive(Debug, Error)]
pub enum Error {
    /// Somebody else has the lock, or what was waited for has not happened yet. Wait for it, or come back later.
    #[error("{}", describe_busy(.0))]
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

/// Which lock is held by whom, or what else has not happened. Without the hint, which speaks of a query.
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

#[cfg(test)]
mod tests {
    use holdfast_api::Problem;

    use super::*;

    #[test]
    fn a_busy_lock_is_named_with_its_holder_and_without_a_query() {
        let json = r#"{"type":"/errors/lock-busy","title":"Lock is held by someone else","status":423,"code":"lock-busy","retryable":true,"hint":"add &wait=10s to queue","lock":"shop/orders","holder":{"session":"web3-77","token":9,"since_ms":2000,"entries":1,"labels":{},"mode":"exclusive"},"waiters":2}"#;
        let problem: Problem = serde_json::from_str(json).unwrap();
        assert_eq!(Error::Busy(Box::new(problem)).to_string(), "shop/orders is held by web3-77");
        let json = r#"{"type":"/errors/not-yet","title":"What you wait for has not happened yet","status":423,"code":"not-yet","retryable":true,"detail":"2 of 3 are left to be counted down","hint":"add ?wait=30s to wait for it"}"#;
        let text = Error::Busy(Box::new(serde_json::from_str(json).unwrap())).to_string();
        assert!(text.ends_with("2 of 3 are left to be counted down"), "{text}");
    }
}
