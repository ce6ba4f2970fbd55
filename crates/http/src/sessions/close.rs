//! `DELETE /v1/sessions/{id}`: close a session. With `force` an operator closes the session of another client.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::session::{FORCE, INCARNATION, REASON};
use holdfast_api::{CallParams as _, ErrorCode, ParamError, params};
use holdfast_types::{Reason, SessionId};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SESSION;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Close a session and release everything it holds",
    description: "The call may be repeated. On a session that expired it acknowledges the loss, so that the id can be used \
        again.",
    params: CloseParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The session is closed")],
    errors: &[ErrorCode::SessionExpired],
    ..Operation::write(
        "closeSession",
        Method::Delete,
        &SESSION,
        LateCopies::Incarnation,
        HeadAccess::Subject,
        BodyKind::SMALL,
        |call| close(call).boxed(),
    )
};

params! {
    struct CloseParams {
        reason: Option<Reason> = REASON,
        force: bool = FORCE,
        incarnation: Option<SessionId> = INCARNATION,
        _redirect: bool = REDIRECT,
    }
}

async fn close(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let params: CloseParams = call.params()?;
    let incarnation = params.incarnation;
    let closed = match operator_reason(params)? {
        Some(reason) => {
            let ended = call.service().end_session(session, incarnation, reason);
            call.run(ended).await?
        }
        None => call.run(call.service().close_session(session, incarnation)).await?,
    };
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(closed.revision))
}

/// The reason of a forced close, or `None` if the client closes its own session.
fn operator_reason(params: CloseParams) -> Result<Option<Reason>, ParamError> {
    let refuse = |detail: &str, hint: &str| {
        Err(ParamError::of("reason", ErrorCode::InvalidArgument, detail).hint(hint))
    };
    match (params.force, params.reason) {
        (true, None) => refuse(
            "'force' needs a reason",
            "add the parameter reason=TEXT: it is written into the audit trail",
        ),
        (false, Some(_)) => {
            refuse("'reason' is for 'force'", "add the parameter force, or leave reason out")
        }
        (_, reason) => Ok(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(query: &str) -> Result<Option<Reason>, ParamError> {
        operator_reason(CloseParams::from_query(query)?)
    }

    #[test]
    fn a_forced_close_needs_a_reason() {
        assert_eq!(close("").unwrap(), None);
        assert_eq!(
            close("force&reason=stuck").unwrap().as_ref().map(Reason::as_str),
            Some("stuck")
        );
        assert!(close("force").unwrap_err().detail.contains("reason"));
        assert!(close("reason=stuck").is_err());
        assert!(close(&format!("force&reason={}", "x".repeat(257))).is_err());
    }
}
