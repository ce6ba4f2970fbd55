//! Fencing for HTTP services: the header, the answers to rejected calls, the layer of the service, and the layer of the client.
//!
//! The header is `Fencing-Token: 34; resource="orders"; floor=30`; only the number is required. Both layers are `tower`
//! layers over the types of the crate `http`.

mod layer;
mod marks;

use std::fmt::Write as _;

use bytes::Bytes;
use holdfast_types::FencingToken;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{Claim, FenceError};

pub use layer::{FenceLayer, FenceService, GuardedBody, Inject, InjectLayer};
pub use marks::{FileMarks, Marks, MemoryMarks};

pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// Longer headers are rejected.
const HEADER_LEN_MAX: usize = 4096;

/// The claim of a caller, and its resource.
///
/// The guarding layer puts it into the extensions of the request, so that a handler can pass it to the guard of a
/// database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The protected resource; `None` if the service has only one.
    pub resource: Option<String>,
    pub claim: Claim,
}

impl Fence {
    pub fn new(resource: impl Into<String>, claim: impl Into<Claim>) -> Self {
        Self { resource: Some(resource.into()), claim: claim.into() }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// [`FenceError::MissingToken`] with the problem.
    pub fn parse(value: &HeaderValue) -> Result<Self, FenceError> {
        let malformed = |reason: &str| FenceError::MissingToken { reason: reason.to_owned() };
        if value.len() > HEADER_LEN_MAX {
            return Err(malformed("the header Fencing-Token is too long"));
        }
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| malformed("the header Fencing-Token is not UTF-8"))?;
        let (number, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        let token = number_of(number)?;
        let (mut resource, mut floor) = (None, token);
        while let Some(parameter) = rest.trim_start().strip_prefix(';') {
            let (name, value) = parameter
                .split_once('=')
                .ok_or_else(|| malformed("a parameter of Fencing-Token has no value"))?;
            let (value, after) = value_of(value)?;
            match name.trim() {
                "resource" => resource = Some(value),
                "floor" => floor = number_of(&value)?,
                _ => {}
            }
            rest = after;
        }
        if !rest.trim().is_empty() {
            return Err(malformed("the header Fencing-Token ends in text that is not a parameter"));
        }
        Ok(Self { resource, claim: Claim::shared(token, floor).check()? })
    }

    /// Writes the header.
    ///
    /// # Errors
    /// [`FenceError::MissingToken`] if the claim is invalid, or the resource has control characters.
    pub fn header(&self) -> Result<HeaderValue, FenceError> {
        let claim = self.claim.check()?;
        let mut text = claim.token().to_string();
        if let Some(resource) = &self.resource {
            let quoted = resource.replace('\\', "\\\\").replace('"', "\\\"");
            // Writing into a string does not fail.
            let _ = write!(text, "; resource=\"{quoted}\"");
        }
        if claim.floor() != claim.token() {
            let _ = write!(text, "; floor={}", claim.floor());
        }
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
            let reason = "the name of the resource has a control character".to_owned();
            FenceError::MissingToken { reason }
        })
    }
}

/// A 64-bit number of digits only, without a sign or a point.
fn number_of(text: &str) -> Result<FencingToken, FenceError> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(FencingToken(number)),
        Ok(_) | Err(_) => {
            let reason = format!("Fencing-Token has {text:?} in place of a number");
            Err(FenceError::MissingToken { reason })
        }
    }
}

/// The value of a parameter, quoted or not, and the rest of the text.
fn value_of(text: &str) -> Result<(String, &str), FenceError> {
    let Some(quoted) = text.trim_start().strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        return Ok((value.trim().to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, quoted.get(at + 1..).unwrap_or_default())),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    let reason = "a quoted parameter of Fencing-Token does not end".to_owned();
    Err(FenceError::MissingToken { reason })
}

/// Why a call is rejected, for a problem document (RFC 9457).
///
/// The status is 412 for a stale token, 428 for no token, and 400 for a malformed token or one for another resource. It
/// is 503 if the guard cannot compare the token now. In each case nothing was written.
#[derive(Debug)]
enum FenceRejection {
    /// No header where one is required.
    Missing,
    /// A malformed header, or one for another resource.
    Malformed(String),
    /// The mark rejected the claim, or could not be compared.
    Marks(FenceError),
    /// Calls with older tokens did not end in time.
    Busy,
}

impl FenceRejection {
    fn answer(&self) -> Response<Full<Bytes>> {
        let (status, facts) = self.facts();
        let mut document = json!({ "type": "about:blank", "status": status.as_u16() });
        if let (Some(document), Value::Object(facts)) = (document.as_object_mut(), facts) {
            document.extend(facts);
        }
        let mut response = Response::new(Full::new(Bytes::from(document.to_string())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    fn facts(&self) -> (StatusCode, Value) {
        match self {
            Self::Missing => (StatusCode::PRECONDITION_REQUIRED, missing()),
            Self::Malformed(reason) => (StatusCode::BAD_REQUEST, malformed(reason)),
            Self::Marks(FenceError::MissingToken { reason }) => {
                (StatusCode::BAD_REQUEST, malformed(reason))
            }
            Self::Marks(stale @ FenceError::Stale { resource, token, newest, .. }) => {
                let facts = json!({ "title": "The fencing token is stale", "code": "stale-token", "retryable": false,
                    "detail": stale.to_string(), "resource": resource, "token": token.0, "newest": newest.0 });
                (StatusCode::PRECONDITION_FAILED, facts)
            }
            // The message of the store may have internal details, which are not for callers.
            Self::Marks(
                FenceError::Conflict { .. }
                | FenceError::UnsafeSnapshot { .. }
                | FenceError::Store(_),
            ) => (StatusCode::SERVICE_UNAVAILABLE, unavailable("the mark could not be compared")),
            Self::Busy => {
                let detail = "a call with an older token is still running";
                (StatusCode::SERVICE_UNAVAILABLE, unavailable(detail))
            }
        }
    }
}

fn missing() -> Value {
    json!({ "title": "A fencing token is required", "code": "missing-token", "retryable": false,
        "detail": "writes here need the token of a lock's grant: send the header Fencing-Token: 34; resource=\"orders\"" })
}

fn malformed(reason: &str) -> Value {
    json!({ "title": "The fencing token cannot be read", "code": "malformed-token", "retryable": false,
        "detail": reason, "hint": "send the header Fencing-Token: 34; resource=\"orders\"" })
}

fn unavailable(detail: &str) -> Value {
    json!({ "title": "The fencing token cannot be compared now", "code": "fence-unavailable", "retryable": true,
        "detail": format!("{detail}; nothing was done") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Fence, String> {
        Fence::parse(&HeaderValue::from_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_header_is_read_as_it_is_written() {
        let floor = Claim::shared(FencingToken(34), FencingToken(30));
        for fence in [
            Fence { resource: None, claim: FencingToken(34).into() },
            Fence::new("orders/eu", FencingToken(1)),
            Fence::new("a \"quoted\" \\ one; floor=9", floor),
            Fence::new("überall", floor),
        ] {
            assert_eq!(Fence::parse(&fence.header().unwrap()).unwrap(), fence);
        }
        assert_eq!(
            parse(" 34 ;resource=orders ; later=1").unwrap(),
            Fence::new("orders", FencingToken(34))
        );
    }

    #[test]
    fn malformed_tokens_are_rejected() {
        for text in
            ["", "x", "-1", "+1", "1.0", "1e3", "0", "9007199254740992", "99999999999999999999"]
        {
            assert!(parse(text).unwrap_err().contains("start the transaction"), "{text:?}");
        }
        for text in ["1; resource", "1; resource=\"a", "1; resource=\"a\" b", "1; floor=2", "1, 2"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(Fence::new("a\nb", FencingToken(1)).header().is_err());
    }
}
