//! What must hold before a change is executed.
//!
//! `If-Match` and `If-None-Match` require a version. A request number, from the parameter `request` or the header
//! `Idempotency-Key`, requires that no call with it was executed. A session remembers the response.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use holdfast_api::parameters::{CALL_SESSION, REQUEST};
use holdfast_api::{ErrorCode, IDEMPOTENCY_KEY, ParamError, ParamValue as _, Problem};
use holdfast_types::{CallScope, NumberedCall, RequestNumber, SessionName};
use sha1::{Digest as _, Sha1};

use crate::call::CallContext;
use crate::head::only;
use crate::operation::{Operation, Scope};
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
        let matching = condition(headers, &IF_MATCH)?;
        let differing = condition(headers, &IF_NONE_MATCH)?;
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
    /// `invalid-argument` if the tag is not a version.
    pub(crate) fn of_counter(headers: &HeaderMap) -> Result<Option<u64>, HttpError> {
        let Some(tag) = condition(headers, &IF_MATCH)? else { return Ok(None) };
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

/// Rejects a change with a condition that the call does not check, or with a number that it does not remember.
///
/// # Errors
/// `invalid-argument`, with the name of the header.
pub(crate) fn check_taken(headers: &HeaderMap, operation: &Operation) -> Result<(), HttpError> {
    let names = [IF_MATCH, IF_NONE_MATCH, HeaderName::from_static(IDEMPOTENCY_KEY)];
    let is_taken = |name: &HeaderName| operation.all_headers().any(|taken| taken.name == *name);
    let ignored = names.iter().find(|name| headers.contains_key(*name) && !is_taken(name));
    match ignored.filter(|_| operation.scope == Scope::Write) {
        Some(name) => {
            let detail = format!("this call does not read the header {name}");
            let hint = "leave it out; /docs lists the headers of each call";
            Err(Box::new(Problem::new(ErrorCode::InvalidArgument, detail).hint(hint)))
        }
        None => Ok(()),
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

fn condition<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, HttpError> {
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

/// Returns the request number. Quotes around the header's value are removed.
///
/// # Errors
/// `invalid-argument` if the parameter and the header are both given.
pub(crate) fn request_number(
    call: &CallContext<'_>,
    param: Option<RequestNumber>,
) -> Result<Option<RequestNumber>, HttpError> {
    let header = only(&call.parts.headers, &HeaderName::from_static(IDEMPOTENCY_KEY))?;
    Ok(one_number(param, header)?)
}

/// Executes the changes of a call once, if it has a request number. `body` is the body of the call.
///
/// # Errors
/// The errors of [`request_number`], and `invalid-argument` for a request number without a session.
pub(crate) fn number_call(
    call: &mut CallContext<'_>,
    operation: &str,
    body: &[u8],
) -> Result<(), HttpError> {
    let (session, request) = (call.param(&CALL_SESSION)?, call.param(&REQUEST)?);
    let Some(request) = request_number(call, request)? else { return Ok(()) };
    let session = remembering(session)?;
    call.log_fields.session = Some(session.clone());
    let scope = scope(call, operation, body);
    call.execute_once(NumberedCall { session, request, scope });
    Ok(())
}

/// A fingerprint of what the call does: two different calls never get each other's response.
fn scope(call: &CallContext<'_>, operation: &str, body: &[u8]) -> CallScope {
    let (uri, headers) = (&call.parts.uri, &call.parts.headers);
    let header = |name| headers.get(name).map_or(&[][..], |value| value.as_bytes());
    let parts = [
        operation.as_bytes(),
        uri.path().as_bytes(),
        uri.query().unwrap_or_default().as_bytes(),
        header(IF_MATCH),
        header(IF_NONE_MATCH),
        body,
    ];
    let mut hash = Sha1::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    CallScope(bytes.iter().take(16).fold(0, |scope, byte| (scope << 8) | u128::from(*byte)))
}

fn one_number(
    param: Option<RequestNumber>,
    header: Option<&str>,
) -> Result<Option<RequestNumber>, ParamError> {
    let Some(text) = header else { return Ok(param) };
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let header = RequestNumber::parse(&REQUEST, quoted.unwrap_or(text))?;
    if param.is_some() {
        let detail = "the request number is given twice: as 'request' and as Idempotency-Key";
        return Err(ParamError::invalid("request", detail).hint("give it once"));
    }
    Ok(Some(header))
}

fn remembering(session: Option<SessionName>) -> Result<SessionName, ParamError> {
    session.ok_or_else(|| {
        let detail = "a request number requires a session, which remembers the response";
        ParamError::invalid("session", detail)
            .hint("add ?session=ID of an open session, or leave the request number out")
    })
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

    #[test]
    fn a_request_number_needs_a_session_and_is_rejected_if_given_twice() {
        assert_eq!(remembering(None).unwrap_err().parameter.as_deref(), Some("session"));
        let number = Some(RequestNumber(7));
        assert_eq!(one_number(None, Some("7")).unwrap(), number);
        assert_eq!(one_number(None, Some("\"7\"")).unwrap(), number);
        assert_eq!(one_number(number, None).unwrap(), number);
        assert!(one_number(number, Some("7")).unwrap_err().detail.contains("given twice"));
        for wrong in ["a", "", "0", "-1", "9223372036854775808", "7 8"] {
            assert!(one_number(None, Some(wrong)).is_err(), "{wrong}");
        }
    }
}
