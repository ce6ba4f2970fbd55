//! Why a call failed, grouped by the caller's next action, and why a held lock was lost.
//!
//! The texts omit the server's hint, because it names HTTP parameters: [`Error::hint`] returns it.

use std::fmt;
use std::time::Duration;

use holdfast_api::{ErrorCode, HolderBody, Problem};
use holdfast_types::{Attempt, LockName, RequestNumber};
use thiserror::Error;

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
    /// The call may have taken effect. Read the state before you repeat it: a repeated call has a new number. An acquire
    /// needs no repetition, because the client releases its possible hold in the background.
    #[error("the outcome is unknown, the call may have taken effect: {0}")]
    OutcomeUnknown(String),
    /// The cluster rejected the call. Change it.
    #[error("{}", rejection_text(.0))]
    Rejected(Box<Problem>),
    /// The answer is not from a holdfast node. Check the addresses. A call with [`Copies::Never`](crate::Copies::Never) is
    /// sent to one address only.
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

    /// Whether the call may succeed later, or may have taken effect.
    pub(crate) fn is_uncertain(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::OutcomeUnknown(_))
    }

    /// Whether a release that failed must be repeated, also because another server answered it.
    pub(crate) fn is_unclear(&self) -> bool {
        self.is_uncertain() || matches!(self, Self::UnexpectedResponse(_))
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

/// Names the lock, its holder and its queue, or the event that has not happened.
fn busy_text(problem: &Problem) -> String {
    let facts = &problem.facts;
    let text = match (&facts.lock, &facts.holder) {
        (Some(lock), Some(holder)) => held_text(lock, holder),
        _ => rejection_text(problem),
    };
    let waiters = match facts.waiters {
        None | Some(0) => String::new(),
        Some(1) => ", 1 waiter".to_owned(),
        Some(waiters) => format!(", {waiters} waiters"),
    };
    match (problem.code, facts.waited_ms.map(Duration::from_millis)) {
        (ErrorCode::WaitTimeout, Some(waited)) => {
            format!("timed out after {waited:?}: {text}{waiters}")
        }
        _ => format!("{text}{waiters}"),
    }
}

/// Names the lock, unless the detail does, and the cause.
fn rejection_text(problem: &Problem) -> String {
    let Problem { title, detail, facts, .. } = problem;
    let is_repetition = detail.is_empty() || detail.eq_ignore_ascii_case(title);
    let cause = if is_repetition { title.to_string() } else { format!("{title}: {detail}") };
    match &facts.lock {
        Some(lock) if !detail.contains(lock.as_str()) => format!("lock \"{lock}\": {cause}"),
        _ => cause,
    }
}

/// `lock "orders" is held by session "web3-77" (host=web3) for 2.1s`
fn held_text(lock: &LockName, holder: &HolderBody) -> String {
    let labels: Vec<String> =
        holder.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels =
        if labels.is_empty() { labels.join("") } else { format!(" ({})", labels.join(" ")) };
    let (session, held) = (&holder.session, Duration::from_millis(holder.held_for_ms));
    format!("lock \"{lock}\" is held by session \"{session}\"{labels} for {held:?}")
}

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

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(rest: &str) -> Problem {
        serde_json::from_str(&format!(r#"{{"type":"/errors/x",{rest}}}"#)).unwrap()
    }

    fn held(code: &str, labels: &str, rest: &str) -> String {
        let busy = problem(&format!(
            r#""title":"The lock is held by another caller","status":423,"code":"{code}","retryable":true,
            "hint":"add the parameter wait=10s to queue","lock":"orders","holder":{{"session":"s1","token":9,
            "held_for_ms":2100,"hold_count":1,"labels":{labels},"mode":"exclusive"}}{rest}"#
        ));
        busy_text(&busy)
    }

    #[test]
    fn a_busy_lock_is_named_with_its_holder_and_its_queue() {
        assert_eq!(
            held("lock-busy", r#"{"host":"web1","pid":"7"}"#, r#","waiters":3"#),
            r#"lock "orders" is held by session "s1" (host=web1 pid=7) for 2.1s, 3 waiters"#
        );
        assert_eq!(
            held("lock-busy", "{}", r#","waiters":0"#),
            r#"lock "orders" is held by session "s1" for 2.1s"#
        );
        assert_eq!(
            held("wait-timeout", "{}", r#","waiters":1,"waited_ms":5000"#),
            r#"timed out after 5s: lock "orders" is held by session "s1" for 2.1s, 1 waiter"#
        );
    }

    #[test]
    fn an_event_that_has_not_happened_is_described_without_the_hint_for_http() {
        let text = busy_text(&problem(
            r#""title":"The condition is not met","status":423,"code":"not-yet","retryable":true,
            "detail":"2 of 3 counts are left","hint":"add ?wait=30s to wait for the latch""#,
        ));
        assert_eq!(text, "The condition is not met: 2 of 3 counts are left");
    }

    #[test]
    fn a_detail_that_repeats_the_title_is_left_out() {
        let expired = r#""title":"The access token has expired","status":401,"code":"token-expired",
            "retryable":false,"detail":"the access token has expired""#;
        assert_eq!(rejection_text(&problem(expired)), "The access token has expired");
    }

    #[test]
    fn a_rejection_names_its_lock_once_and_has_no_hint_for_http() {
        let rejected = |detail: &str| {
            rejection_text(&problem(&format!(
                r#""title":"No","status":409,"code":"limit-mismatch","retryable":false,
                "detail":"{detail}","hint":"change it with PATCH /v1/policies/{{name}}","lock":"pool""#
            )))
        };
        assert_eq!(rejected("the limit is 3"), r#"lock "pool": No: the limit is 3"#);
        assert_eq!(rejected("'pool' is held by 'a'"), "No: 'pool' is held by 'a'");
    }
}
