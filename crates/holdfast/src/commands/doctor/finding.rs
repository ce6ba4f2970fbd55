//! What a check found: how bad it is, where, and what to do next.

use serde::Serialize;

/// How bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and something should be looked at.
    Warn,
    /// It does not work.
    Fail,
}

impl Verdict {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was checked.
    pub(super) check: &'static str,
    /// At which address; none for the cluster as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, at: None, verdict: Verdict::Ok, found: found.into(), next: None }
    }

    pub(super) fn warn(
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Warn, next: Some(next.into()), ..Self::ok(check, found) }
    }

    pub(super) fn fail(
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Fail, next: Some(next.into()), ..Self::ok(check, found) }
    }

    /// The same, of one address.
    pub(super) fn at(self, address: &str) -> Self {
        Self { at: Some(address.to_owned()), ..self }
    }
}

/// The whole examination.
#[derive(Debug, Serialize)]
pub(super) struct Examination {
    /// The worst of all.
    pub(super) verdict: Verdict,
    pub(super) checks: Vec<Finding>,
}

impl Examination {
    pub(super) fn of(checks: Vec<Finding>) -> Self {
        let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok);
        Self { verdict, checks }
    }
}
