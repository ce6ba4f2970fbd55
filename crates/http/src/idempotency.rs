//! The request id of a change, from the parameter `request` or the header `Idempotency-Key`, and the session that
//! stores the reply.

use axum::http::HeaderName;
use holdfast_api::{ErrorCode, IDEMPOTENCY_KEY, ParamError};
use holdfast_types::{Caller, RequestId, SessionName};

use crate::call::CallContext;
use crate::head::only;
use crate::operation::Header;
use crate::status::HttpError;

/// The header in the description of a call.
pub(crate) const KEY: Header =
    Header::text(IDEMPOTENCY_KEY, "The request id, instead of the parameter request");

/// Returns the request id. Quotes around the header's value are removed.
///
/// # Errors
/// `invalid-argument` if the parameter and the header are both given.
pub(crate) fn request_id(
    call: &CallContext<'_>,
    param: Option<RequestId>,
) -> Result<Option<RequestId>, HttpError> {
    let header = only(&call.parts.headers, &HeaderName::from_static(IDEMPOTENCY_KEY))?;
    Ok(one_id(param, header)?)
}

/// Returns the caller of a change of the tree or of a counter, and adds its session to the log line.
///
/// # Errors
/// The errors of [`request_id`], and `invalid-argument` for a request id without a session.
pub(crate) fn caller(
    call: &mut CallContext<'_>,
    session: Option<SessionName>,
    request: Option<RequestId>,
) -> Result<Caller, HttpError> {
    let request = request_id(call, request)?;
    call.log_fields.session.clone_from(&session);
    Ok(remembered(session, request)?)
}

fn one_id(param: Option<RequestId>, header: Option<&str>) -> Result<Option<RequestId>, ParamError> {
    let Some(text) = header else { return Ok(param) };
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let header = RequestId::new(quoted.unwrap_or(text))
        .map_err(|error| ParamError::bad_name("request", &error))?;
    if param.is_some() {
        let detail = "the request id is given twice: as 'request' and as Idempotency-Key";
        return Err(
            ParamError::of("request", ErrorCode::InvalidArgument, detail).hint("give it once")
        );
    }
    Ok(Some(header))
}

fn remembered(
    session: Option<SessionName>,
    request: Option<RequestId>,
) -> Result<Caller, ParamError> {
    if request.is_some() && session.is_none() {
        let detail = "a request id requires a session, which stores the reply";
        return Err(ParamError::of("session", ErrorCode::InvalidArgument, detail)
            .hint("add ?session=ID of an open session, or leave the request id out"));
    }
    Ok(Caller { session, request, ..Caller::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_needs_a_session_and_is_rejected_if_given_twice() {
        let id = || RequestId::new("r1").ok();
        assert_eq!(remembered(None, id()).unwrap_err().parameter.as_deref(), Some("session"));
        let caller = remembered(SessionName::new("me").ok(), id()).unwrap();
        assert_eq!(caller.request, id());
        assert_eq!(one_id(None, Some("r1")).unwrap(), id());
        assert_eq!(one_id(None, Some("\"r1\"")).unwrap(), id());
        assert_eq!(one_id(id(), None).unwrap(), id());
        assert!(one_id(id(), Some("r1")).unwrap_err().detail.contains("given twice"));
        assert!(one_id(None, Some("a b")).is_err());
    }
}
