//! The request number of a change, from the parameter `request` or the header `Idempotency-Key`, and the session that
//! remembers the response.

use axum::http::HeaderName;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use holdfast_api::parameters::{CALL_SESSION, REQUEST};
use holdfast_api::{IDEMPOTENCY_KEY, ParamError, ParamValue as _};
use holdfast_types::{CallScope, NumberedCall, RequestNumber, SessionName};
use sha1::{Digest as _, Sha1};

use crate::call::CallContext;
use crate::head::only;
use crate::status::HttpError;

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
pub(crate) fn number(
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
