//! Errors of calls: the invalid parameter that the parser finds, and the problem document (RFC 9457) of a response.

use std::borrow::Cow;

use holdfast_types::{
    Attempt, FencingToken, LockName, NameError, Reason, RequestNumber, Revision, SessionName,
    SubjectName, ZnodePath,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{DurationError, ErrorCode, EscapeError, HolderBody, RecipeFacts, Rfc3339Time};

/// The cause of a failed call, for programs (`code`, `retryable`, facts) and for people (`title`, `detail`, `hint`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// The page that explains the code: `/errors/<code>` on every node.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The title of the code.
    pub title: Cow<'static, str>,
    /// The HTTP status of the response.
    pub status: u16,
    /// The stable error code.
    pub code: ErrorCode,
    /// Whether the same call may succeed later and is safe to send again.
    pub retryable: bool,
    /// The cause of this failure, in words.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub detail: Cow<'static, str>,
    /// The next step for the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Cow<'static, str>>,
    /// Facts of this problem.
    #[serde(flatten)]
    pub facts: Facts,
}

/// Facts of problems; each fact is present only where it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// The lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockName>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// The newest ended attempt of the session: a new attempt needs a larger number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_attempt: Option<Attempt>,
    /// The newest request number of the session: a new call needs a larger number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_request: Option<RequestNumber>,
    /// The holder of the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<HolderBody>>,
    /// The number of waiters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiters: Option<u32>,
    /// The znode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<ZnodePath>,
    /// The current version; for a counter, the revision of its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The missing permission: `lock acquire orders`, or for an access list letters of `cdrwa`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<String>,
    /// The caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectName>,
    /// The index of the rejected operation in a transaction, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u32>,
    /// The first revision from which a watch can start again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_from: Option<Revision>,
    /// How long the call waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The checked token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The token of the current holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<FencingToken>,
    /// The largest token minted for the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<FencingToken>,
    /// Facts of a latch, a barrier or a counter.
    #[serde(flatten)]
    pub recipe: RecipeFacts,
    /// The invalid parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The name of the reached limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Cow<'static, str>>,
    /// The value of the reached limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The time to wait before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The number of shards of the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// When the cluster was sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Rfc3339Time>,
    /// Why the cluster is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The nearest path that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Cow<'static, str>>,
}

impl Problem {
    /// A problem without facts. The status is 0 until the front-end sets it from the code.
    pub fn new(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: Cow::Borrowed(code.type_uri()),
            title: Cow::Borrowed(code.title()),
            status: 0,
            code,
            retryable: code.retryable(),
            detail: detail.into(),
            hint: None,
            facts: Facts::default(),
        }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same problem with facts.
    #[must_use]
    pub fn facts(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }
}

impl From<ParamError> for Box<Problem> {
    fn from(error: ParamError) -> Self {
        let mut problem = Problem::new(error.code, error.detail);
        problem.hint = error.hint.map(Cow::Owned);
        problem.facts.parameter = error.parameter;
        Self::new(problem)
    }
}

/// A call with an invalid parameter. The call has no effect, and the caller must change it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{detail}{}", .hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct ParamError {
    /// The error code.
    pub code: ErrorCode,
    /// What is wrong, in words.
    pub detail: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// The invalid parameter, if the error is about one.
    pub parameter: Option<String>,
}

impl ParamError {
    /// An error without a parameter.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: None, parameter: None }
    }

    /// An error of one parameter.
    pub fn of(parameter: &str, code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { parameter: Some(parameter.to_owned()), ..Self::new(code, detail) }
    }

    /// `invalid-argument` for one parameter.
    pub fn invalid(parameter: &str, detail: impl Into<String>) -> Self {
        Self::of(parameter, ErrorCode::InvalidArgument, detail)
    }

    /// The same error with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A parameter that a call with `other` cannot have.
    pub fn excluded(parameter: &str, other: &str) -> Self {
        Self::invalid(parameter, format!("'{parameter}' and '{other}' exclude each other"))
    }

    /// Rejects the first of `others` that is given, for a call with `parameter`.
    ///
    /// # Errors
    /// [`ParamError::excluded`] with the hint.
    pub fn check_alone(parameter: &str, others: &[(&str, bool)], hint: &str) -> Result<(), Self> {
        let given = others.iter().find(|(_, is_given)| *is_given);
        given.map_or(Ok(()), |(other, _)| Err(Self::excluded(other, parameter).hint(hint)))
    }

    /// A parameter with an invalid name.
    pub fn bad_name(parameter: &str, error: &NameError) -> Self {
        Self::of(parameter, ErrorCode::BadName, error.to_string())
    }

    /// A parameter that is not a duration, or is out of its bounds.
    pub fn bad_duration(parameter: &str, error: &DurationError) -> Self {
        Self::of(parameter, ErrorCode::BadDuration, format!("{parameter}: {}", error.problem()))
            .hint(error.hint())
    }

    /// Text with an invalid percent-encoding.
    pub fn bad_escape(what: &str, error: EscapeError, code: ErrorCode) -> Self {
        Self::new(code, format!("{what}: {error}"))
            .hint("percent-encode each byte of UTF-8 text, such as %C3%A9, and % itself as %25")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_lock_looks_as_specified() {
        let holder: HolderBody = serde_json::from_str(
            r#"{"session":"web3-77","token":9,"held_for_ms":252000,"hold_count":1,"labels":{"host":"web3"}}"#,
        )
        .unwrap();
        let facts = Facts {
            lock: LockName::new("job").ok(),
            holder: Some(Box::new(holder)),
            waiters: Some(2),
            ..Facts::default()
        };
        let problem =
            Problem::new(ErrorCode::LockBusy, "").hint("add the parameter wait=10s to queue");
        let problem = Problem { status: 423, ..problem.facts(facts) };
        let json = serde_json::to_string(&problem).unwrap();
        let expected = r#"{"type":"/errors/lock-busy","title":"The lock is held by another caller","status":423,"code":"lock-busy","retryable":true,"hint":"add the parameter wait=10s to queue","lock":"job","holder":{"session":"web3-77","token":9,"held_for_ms":252000,"hold_count":1,"labels":{"host":"web3"},"mode":"exclusive","permits":1},"waiters":2}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
    }

    #[test]
    fn an_invalid_parameter_becomes_a_problem_that_names_it() {
        let error = ParamError::invalid("permits", "unknown parameter 'permits'");
        let problem = Box::<Problem>::from(error.hint("leave it out"));
        assert_eq!(problem.facts.parameter.as_deref(), Some("permits"));
        assert_eq!((problem.hint.as_deref(), problem.retryable), (Some("leave it out"), false));
    }
}
