//! Rejections as problem documents (RFC 9457).
//!
//! The status is 412 for a stale token, 428 for no token, and 400 for a malformed token or one for another resource. It
//! is 503 if the guard cannot compare the token now. In each case nothing was written.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::FenceError;

/// Why a call is rejected.
#[derive(Debug)]
pub(super) enum FenceRejection {
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
    pub(super) fn answer(&self) -> Response<Full<Bytes>> {
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
