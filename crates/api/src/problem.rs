//! The body of every error: RFC 9457 (problem details), with a code, whether to retry, and the facts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use holdfast_types::{Attempt, FencingToken, LockName, Revision, SessionName, ZnodePath};

use crate::{ErrorCode, HolderBody, ParamError, RecipeFacts};

/// Why a call failed, for programs (`code`, `retryable`, the facts) and for people (`title`, `detail`, `hint`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Where this kind of problem is explained: `/errors/<code>` on every node.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The same for every problem of this code.
    pub title: Cow<'static, str>,
    /// The status of the answer.
    pub status: u16,
    /// The kind of problem; stable.
    pub code: ErrorCode,
    /// True if the very same call may succeed later and may be sent again without harm.
    pub retryable: bool,
    /// What happened this time.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub detail: Cow<'static, str>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Cow<'static, str>>,
    /// What is known about the case.
    #[serde(flatten)]
    pub facts: Facts,
}

/// Facts that problems carry; each only where it says something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// The lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockName>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// The newest attempt of the session that is over: a new one needs a larger number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_attempt: Option<Attempt>,
    /// Who holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<HolderBody>>,
    /// How many wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiters: Option<u32>,
    /// The node of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<ZnodePath>,
    /// The version it has; of a counter the revision of its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The permission that was needed, as one letter or more of `cdrwa`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<String>,
    /// Of a transaction: which operation was refused, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u32>,
    /// Where a watch can begin again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_from: Option<Revision>,
    /// How long the call waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The token that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The present holder's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<FencingToken>,
    /// The largest token minted for the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<FencingToken>,
    /// Of a latch, a barrier or a counter.
    #[serde(flatten)]
    pub recipe: RecipeFacts,
    /// The parameter that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The bound that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Cow<'static, str>>,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// When to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Into how many segments the resource is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u32>,
    /// The nearest path that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Cow<'static, str>>,
}

impl Problem {
    /// A problem without facts. The status belongs to the front-end's table.
    pub fn new(code: ErrorCode, status: u16, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: Cow::Borrowed(code.type_uri()),
            title: Cow::Borrowed(code.title()),
            status,
            code,
            retryable: code.retryable(),
            detail: detail.into(),
            hint: None,
            facts: Facts::default(),
        }
    }

    /// The problem of a call that was refused before anything was done.
    pub fn refused(refusal: ParamError, status: u16) -> Self {
        let mut problem = Self::new(refusal.code, status, refusal.detail);
        problem.hint = refusal.hint.map(Cow::Owned);
        problem.facts.parameter = refusal.parameter;
        problem
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_lock_looks_as_specified() {
        let holder: HolderBody = serde_json::from_str(
            r#"{"session":"web3-77","token":9,"since_ms":252000,"entries":1,"labels":{"host":"web3"}}"#,
        )
        .unwrap();
        let facts = Facts {
            lock: LockName::new("job").ok(),
            holder: Some(Box::new(holder)),
            waiters: Some(2),
            ..Facts::default()
        };
        let problem =
            Problem::new(ErrorCode::LockBusy, 423, "").hint("add &wait=10s to queue").facts(facts);
        let json = serde_json::to_string(&problem).unwrap();
        let expected = r#"{"type":"/errors/lock-busy","title":"The lock is held by another caller","status":423,"code":"lock-busy","retryable":true,"hint":"add &wait=10s to queue","lock":"job","holder":{"session":"web3-77","token":9,"since_ms":252000,"entries":1,"labels":{"host":"web3"},"mode":"exclusive"},"waiters":2}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
    }

    #[test]
    fn a_refusal_becomes_a_problem_with_its_parameter() {
        let refusal =
            ParamError::of("permits", ErrorCode::InvalidArgument, "unknown parameter 'permits'");
        let problem = Problem::refused(refusal.hint("leave it out"), 400);
        assert_eq!(problem.facts.parameter.as_deref(), Some("permits"));
        assert_eq!((problem.status, problem.retryable), (400, false));
    }
}
