//! The result of a check: its severity, its address, and the next step.

use holdfast_cli::color::Tone;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Ok,
    /// The cluster works, but an operator should act.
    Warn,
    Fail,
}

impl Severity {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    /// The tone of a verdict in the table.
    pub(super) fn tone(verdict: &str) -> Option<Tone> {
        match verdict {
            "ok" => Some(Tone::Good),
            "warn" => Some(Tone::Attention),
            "fail" => Some(Tone::Problem),
            _ => None,
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    /// The address; `None` for a check of the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    pub(super) verdict: Severity,
    pub(super) found: String,
    /// The next step for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, at: None, verdict: Severity::Ok, found: found.into(), next: None }
    }

    pub(super) fn warn(
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { verdict: Severity::Warn, next: Some(next.into()), ..Self::ok(check, found) }
    }

    pub(super) fn fail(
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { verdict: Severity::Fail, next: Some(next.into()), ..Self::ok(check, found) }
    }

    /// Attaches an address to the finding.
    pub(super) fn at(self, address: &str) -> Self {
        Self { at: Some(address.to_owned()), ..self }
    }
}

/// All findings of a run.
#[derive(Debug, Serialize)]
pub(super) struct DoctorReport {
    /// The worst severity of the findings.
    pub(super) verdict: Severity,
    pub(super) checks: Vec<Finding>,
}

impl DoctorReport {
    pub(super) fn of(checks: Vec<Finding>) -> Self {
        let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or(Severity::Ok);
        Self { verdict, checks }
    }
}
