//! Checks on the head of a request beyond those of the HTTP parser.
//!
//! A proxy and this node must agree where a request ends and which host it is for. Otherwise an attacker can smuggle a
//! request past the proxy. A head that two parsers can read differently is rejected.

use axum::http::header::{HOST, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Version};

use holdfast_api::{ErrorCode, Problem};

use crate::status::HttpError;

/// Rejects an ambiguous head.
///
/// # Errors
/// `invalid-argument` for HTTP/1.1 without exactly one `Host`, and for a transfer coding other than chunked.
pub(crate) fn check(parts: &Parts) -> Result<(), HttpError> {
    let hosts = parts.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && parts.version == Version::HTTP_11) {
        let detail = "HTTP/1.1 requires the header Host, once";
        return Err(refused(detail, "send Host: NAME"));
    }
    let mut codings = parts.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => {
            let detail = "the header Transfer-Encoding names a coding other than chunked";
            Err(refused(
                detail,
                "send the body with Transfer-Encoding: chunked or with Content-Length",
            ))
        }
    }
}

/// The one value of a header as text, if it is there.
///
/// # Errors
/// `invalid-argument` if it is given twice or is not text.
pub(crate) fn only<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h str>, HttpError> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let hint = "give it once, as text";
    if second.is_some() {
        return Err(refused(format!("the header {name} is given twice"), hint));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| refused(format!("the header {name} is not text"), hint))
}

fn refused(detail: impl Into<std::borrow::Cow<'static, str>>, hint: &'static str) -> HttpError {
    Box::new(Problem::new(ErrorCode::InvalidArgument, detail).hint(hint))
}
