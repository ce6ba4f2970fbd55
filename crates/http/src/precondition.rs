//! `If-Match` and `If-None-Match`: the required version of a znode or a counter before a change.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use holdfast_api::{ErrorCode, Problem};

use crate::status::HttpError;

/// The condition on the znode before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// No condition.
    None,
    /// The znode exists: `If-Match: *`.
    Exists,
    /// The znode exists with this version: `If-Match: "7"`.
    Version(i32),
    /// The znode does not exist: `If-None-Match: *`.
    Absent,
}

impl Precondition {
    /// Parses the headers.
    ///
    /// # Errors
    /// `invalid-argument` for several conditions, lists, weak tags, and tags other than a version.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, HttpError> {
        let matching = only(headers, &IF_MATCH)?;
        let differing = only(headers, &IF_NONE_MATCH)?;
        match (matching, differing) {
            (None, None) => Ok(Self::None),
            (Some(b"*"), None) => Ok(Self::Exists),
            (Some(tag), None) => version(tag).map(Self::Version),
            (None, Some(b"*")) => Ok(Self::Absent),
            (None, Some(_)) => Err(refused(
                "If-None-Match accepts only the value '*'",
                "write If-None-Match: *, or If-Match: \"7\" to replace version 7",
            )),
            (Some(_), Some(_)) => {
                Err(refused("If-Match and If-None-Match exclude each other", "send one of them"))
            }
        }
    }

    /// Returns the version of `If-Match` for a counter; a counter that was never changed has version 0.
    ///
    /// # Errors
    /// `invalid-argument` for every other condition.
    pub(crate) fn of_counter(headers: &HeaderMap) -> Result<Option<u64>, HttpError> {
        if headers.contains_key(IF_NONE_MATCH) {
            let detail = "a counter has no condition If-None-Match";
            return Err(refused(
                detail,
                "write If-Match: \"0\" for a counter that was never changed",
            ));
        }
        let Some(tag) = only(headers, &IF_MATCH)? else { return Ok(None) };
        version(tag).map(Some)
    }

    /// Returns the required version, for a call that changes an existing znode.
    ///
    /// # Errors
    /// `invalid-argument` if the znode must be absent.
    pub(crate) fn version(self) -> Result<Option<i32>, HttpError> {
        match self {
            Self::None | Self::Exists => Ok(None),
            Self::Version(version) => Ok(Some(version)),
            Self::Absent => {
                let detail =
                    "this call changes an existing znode, and If-None-Match requires a missing one";
                Err(refused(detail, "leave If-None-Match out"))
            }
        }
    }
}

/// The error of a call that creates a znode under a condition on an existing one.
pub(crate) fn contradiction() -> HttpError {
    refused(
        "If-Match requires an existing znode, and this call creates one",
        "leave out If-Match, or the parameters of a new znode",
    )
}

/// The entity tag of a version.
pub(crate) fn tag(version: impl std::fmt::Display) -> HeaderValue {
    // Digits and quotes are valid in a header value.
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, HttpError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.as_bytes().trim_ascii());
    if values.next().is_some() {
        return Err(refused("a condition is given twice", "send one of them"));
    }
    Ok(first)
}

fn version<T: std::str::FromStr>(tag: &[u8]) -> Result<T, HttpError> {
    let quoted = tag.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let digits = quoted.filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let version = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    version.ok_or_else(|| {
        refused(
            "If-Match is not a version",
            "write If-Match: \"7\", in quotes, with the ETag of a response; or If-Match: *",
        )
    })
}

fn refused(detail: &'static str, hint: &'static str) -> HttpError {
    Box::new(Problem::new(ErrorCode::InvalidArgument, detail).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(HeaderName, &str)]) -> Result<Precondition, HttpError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        Precondition::of(&map)
    }

    #[test]
    fn an_entity_tag_is_a_version_in_quotes() {
        assert_eq!(of(&[]).unwrap(), Precondition::None);
        assert_eq!(of(&[(IF_MATCH, "\"7\"")]).unwrap(), Precondition::Version(7));
        assert_eq!(of(&[(IF_MATCH, "*")]).unwrap(), Precondition::Exists);
        assert_eq!(of(&[(IF_NONE_MATCH, "*")]).unwrap(), Precondition::Absent);
        assert_eq!(tag(7), "\"7\"");
    }

    #[test]
    fn an_invalid_entity_tag_is_rejected_with_the_expected_form() {
        for value in ["7", "W/\"7\"", "\"7\", \"8\"", "\"x\"", "\"\"", "\"-1\"", "\"9999999999\""] {
            let problem = of(&[(IF_MATCH, value)]).unwrap_err();
            assert!(problem.hint.unwrap().contains("If-Match: \"7\""), "{value}");
        }
        assert!(of(&[(IF_NONE_MATCH, "\"7\"")]).is_err());
        assert!(of(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")]).is_err());
        assert!(of(&[(IF_MATCH, "\"1\""), (IF_MATCH, "\"2\"")]).is_err());
        assert!(Precondition::Absent.version().is_err());
    }
}
