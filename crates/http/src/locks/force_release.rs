//! `POST /v1/force-releases/{name}`: end the holds of a lock as an operator.

use holdfast_api::parameters::lock::{ENDED_TICKET, ENDED_TOKEN, FORCE_REASON};
use holdfast_api::{CallParams as _, ErrorCode, ForceReleasedBody, ParamError, Schemas, params};
use holdfast_types::{FencingToken, ForceRelease, ForceReleaseTarget, Reason, Right, Ticket};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec, handler};
use crate::routes::FORCE_RELEASE;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Force-release a lock: end its holds as an operator",
    description: "Every holder loses the lock and receives the reason; with token only the hold of that token ends, with \
        ticket only the hold or the wait of that ticket. The next waiter is granted the lock after the policy's lock delay. The audit log records the call.",
    params: ForceReleaseParams::LIST,
    answers: || {
        let about = "The number of holds that ended";
        ResponseSpec::ok(about, Schemas::of::<ForceReleasedBody>)
    },
    errors: &[ErrorCode::NotFound],
    late_copies: LateCopies::TokenOrTicket,
    ..Operation::change(
        "forceRelease",
        Method::Post,
        &FORCE_RELEASE,
        CallAccess::Right(Right::LockForceRelease),
        handler!(force_release),
    )
};

params! {
    struct ForceReleaseParams {
        reason: Reason = FORCE_REASON,
        token: Option<FencingToken> = ENDED_TOKEN,
        ticket: Option<u64> = ENDED_TICKET,
    }
}

async fn force_release(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let params: ForceReleaseParams = call.params()?;
    let (what, reason) = (target(&params)?, params.reason);
    let command = ForceRelease { lock: lock.clone(), what, reason };
    let body = |ended, revision| ForceReleasedBody { lock, ended, revision };
    call.ok(call.service().force_release(command), body).await
}

fn target(params: &ForceReleaseParams) -> Result<ForceReleaseTarget, ParamError> {
    match (params.token, params.ticket) {
        (Some(_), Some(_)) => {
            Err(ParamError::excluded("ticket", "token").hint("send one of them, or neither"))
        }
        (Some(token), None) => Ok(ForceReleaseTarget::Token(token)),
        (None, Some(ticket)) => Ok(ForceReleaseTarget::Ticket(Ticket(ticket))),
        (None, None) => Ok(ForceReleaseTarget::Holders),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_release_needs_a_reason_and_accepts_no_session() {
        let params = ForceReleaseParams::from_query("reason=host+is+down&token=7").unwrap();
        assert_eq!(params.reason.to_string(), "host is down");
        assert_eq!(target(&params).unwrap(), ForceReleaseTarget::Token(FencingToken(7)));
        let of = |query: &str| target(&ForceReleaseParams::from_query(query).unwrap());
        assert_eq!(of("reason=x&ticket=9").unwrap(), ForceReleaseTarget::Ticket(Ticket(9)));
        assert_eq!(of("reason=x").unwrap(), ForceReleaseTarget::Holders);
        assert!(of("reason=x&ticket=9&token=7").is_err());
        for query in ["", "token=7", "reason=", "reason=x&session=me", "reason=x&force"] {
            let error = ForceReleaseParams::from_query(query).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
