//! `POST /v1/release-requests/{name}`: ask the holders of a lock to release it.

use std::time::Duration;

use holdfast_api::parameters::lock::{
    ASKED_TOKEN, DEADLINE, REQUEST_REASON, REQUESTED_OWNER, REQUESTED_SESSION, REVOKE,
};
use holdfast_api::{CallParams as _, ErrorCode, ParamError, ReleaseRequestedBody, Schemas, params};
use holdfast_types::{FencingToken, Owner, Reason, RequestRelease, Right, SessionName, millis};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::RELEASE_REQUEST;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Ask the holders of a lock to release it",
    description: "A holder receives the request in the response to a keepalive that waits for events. With revoke the hold \
        ends at the deadline. A second request replaces the first only if it is stricter: with revoke, or with an \
        earlier deadline.",
    params: RequestReleaseParams::LIST,
    example: Example { query: "reason=maintenance&deadline=5m", body: "" },
    answers: || {
        let about = "The number of holders that were asked";
        ResponseSpec::ok(about, Schemas::of::<ReleaseRequestedBody>)
    },
    errors: &[ErrorCode::NotHolder, ErrorCode::SessionExpired, ErrorCode::NotFound],
    late_copies: LateCopies::Token,
    ..Operation::change(
        "requestRelease",
        Method::Post,
        &RELEASE_REQUEST,
        CallAccess::Right(Right::LockRequestRelease),
        handler!(request_release),
    )
};

params! {
    struct RequestReleaseParams {
        session: Option<SessionName> = REQUESTED_SESSION,
        owner: Option<Owner> = REQUESTED_OWNER,
        token: Option<FencingToken> = ASKED_TOKEN,
        reason: Option<Reason> = REQUEST_REASON,
        deadline: Duration = DEADLINE,
        revoke: bool = REVOKE,
    }
}

async fn request_release(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let params: RequestReleaseParams = call.params()?;
    let RequestReleaseParams { session, owner, token, reason, deadline, revoke } = params;
    call.log_fields.session.clone_from(&session);
    let holder = holder(session, owner)?;
    let deadline_ms = millis(deadline);
    let request = RequestRelease { lock: lock.clone(), holder, token, reason, deadline_ms, revoke };
    let body = |asked, revision| ReleaseRequestedBody { lock, asked, revision };
    call.ok(call.service().request_release(request), body).await
}

fn holder(
    session: Option<SessionName>,
    owner: Option<Owner>,
) -> Result<Option<(SessionName, Owner)>, ParamError> {
    if session.is_none() && owner.is_some() {
        let detail = "'owner' needs 'session'";
        return Err(ParamError::invalid("owner", detail)
            .hint("name the session of the owner, or leave owner out to ask every holder"));
    }
    Ok(session.map(|session| (session, owner.unwrap_or_else(Owner::unnamed))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<RequestReleaseParams, ParamError> {
        let params = RequestReleaseParams::from_query(query)?;
        holder(params.session.clone(), params.owner.clone())?;
        Ok(params)
    }

    #[test]
    fn an_owner_needs_a_session_and_a_deadline_has_bounds() {
        assert_eq!(read("").unwrap().deadline, Duration::from_secs(30));
        assert!(read("session=me&owner=o&reason=please&deadline=5s&revoke").is_ok());
        assert_eq!(read("owner=o").unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(read("deadline=0s").unwrap_err().code, ErrorCode::BadDuration);
    }
}
