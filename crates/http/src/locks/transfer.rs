//! `POST /v1/transfers/{name}`: hand a hold over to another session.

use holdfast_api::parameters::OWNER;
use holdfast_api::parameters::lock::{FROM, FROM_TOKEN, TO, TO_OWNER};
use holdfast_api::{CallParams as _, ErrorCode, HandedOverBody, Schemas, params};
use holdfast_types::{FencingToken, HandOver, Owner, SessionName};

use crate::access::LOCK_ACQUIRE;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec, handler};
use crate::routes::TRANSFER;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Transfer a held lock to another session",
    description: "The other session holds the lock at once, with a new token; no waiter gets it in between. The hold is \
        transferred with all its attempts. With token a late copy of the call changes nothing.",
    params: TransferParams::LIST,
    answers: || {
        let about = "The lock was transferred";
        ResponseSpec::ok(about, Schemas::of::<HandedOverBody>)
    },
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotHolder,
        ErrorCode::InUse,
        ErrorCode::Deadlock,
        ErrorCode::QuotaExceeded,
        ErrorCode::LimitMismatch,
        ErrorCode::ShardsMismatch,
        ErrorCode::SessionExpired,
    ],
    late_copies: LateCopies::Token,
    ..Operation::change("transferLock", Method::Post, &TRANSFER, LOCK_ACQUIRE, handler!(transfer))
};

params! {
    struct TransferParams {
        session: SessionName = FROM,
        owner: Option<Owner> = OWNER,
        token: Option<FencingToken> = FROM_TOKEN,
        to: SessionName = TO,
        to_owner: Option<Owner> = TO_OWNER,
    }
}

async fn transfer(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let TransferParams { session, owner, token, to, to_owner } = call.params()?;
    call.log_fields.session = Some(session.clone());
    let (from, to) = (
        (session, owner.unwrap_or_else(Owner::unnamed)),
        (to, to_owner.unwrap_or_else(Owner::unnamed)),
    );
    call.ok(call.service().hand_over(HandOver { lock, from, to, token }), HandedOverBody::new).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_needs_both_sessions_and_accepts_no_attempt() {
        let params = TransferParams::from_query("session=me&token=3&to=you&to_owner=t1").unwrap();
        assert_eq!((params.session.as_str(), params.to.as_str()), ("me", "you"));
        assert_eq!(params.token, Some(FencingToken(3)));
        for query in
            ["session=me", "to=you", "session=me&to=you&attempt=1", "session=me&to=you&token=0"]
        {
            let error = TransferParams::from_query(query).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
