//! Errors of invalid parameters.

use thiserror::Error;

use holdfast_types::NameError;

use crate::{DurationError, ErrorCode, EscapeError};

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
    }
}

/// The candidate that differs by a slip or two, for a suggestion; `None` if every candidate differs more.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(slips, candidate)| *slips <= slips_max(word, candidate))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// One slip for each three letters, at most three. Two words of one or two letters are never alike.
fn slips_max(word: &str, candidate: &str) -> usize {
    (word.len().max(candidate.len()) / 3).min(3)
}
