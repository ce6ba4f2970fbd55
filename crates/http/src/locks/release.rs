//! `DELETE /v1/locks/{name}`: release a lock or leave its queue.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::parameters::lock::RELEASED_SESSION;
use holdfast_api::parameters::{OWNER, REDIRECT, RELEASED_ATTEMPT, RELEASED_TOKEN};
use holdfast_api::{CallParams as _, HOLDFAST_HOLD_COUNT, params};
use holdfast_service::Response;
use holdfast_types::{Attempt, FencingToken, Owner, Release, Released, SessionName};

use super::{RELEASE_ERRORS, owner_or_unnamed, release_target};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Header, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LOCK;
use crate::status::HttpError;

const HOLD_COUNT: Header = Header::number(
    HOLDFAST_HOLD_COUNT,
    "If the call named an attempt: attempts that still keep the lock",
);

pub(crate) static OPERATION: Operation = Operation {
    summary: "Release a lock, or leave its queue",
    description: "With token or attempt a late copy of the call changes nothing. Without them the call ends the hold or the \
        wait that the owner has when the call arrives. On a sharded lock the call releases the caller's shard.",
    params: ReleaseParams::LIST,
    example: Example { query: "session=me&attempt=1", body: "" },
    answers: || {
        let about = "The caller neither holds the lock nor waits for it";
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, about).with(&[HOLD_COUNT])]
    },
    errors: RELEASE_ERRORS,
    ..Operation::write(
        "releaseLock",
        Method::Delete,
        &LOCK,
        LateCopies::Release,
        HeadAccess::Subject,
        BodyKind::SMALL,
        |call| release(call).boxed(),
    )
};

params! {
    struct ReleaseParams {
        session: SessionName = RELEASED_SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
        token: Option<FencingToken> = RELEASED_TOKEN,
        _redirect: bool = REDIRECT,
    }
}

async fn release(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let locks = call.lock()?.into();
    let ReleaseParams { session, owner, attempt, token, .. } = call.params()?;
    call.log_fields.session = Some(session.clone());
    let target = release_target(attempt, token)?;
    let release = Release { locks, session, owner: owner_or_unnamed(owner), target };
    let released = call.run(call.service().release(release)).await?;
    let Response { value: Released { hold_count, .. }, revision, .. } = released;
    let reply = Reply::empty(StatusCode::NO_CONTENT).at(revision);
    if attempt.is_none() {
        return Ok(reply);
    }
    let left = HeaderValue::from(hold_count);
    Ok(reply.with_header(HeaderName::from_static(HOLDFAST_HOLD_COUNT), left))
}

#[cfg(test)]
mod tests {
    use holdfast_api::ErrorCode;
    use holdfast_types::ReleaseTarget;

    use super::*;

    #[test]
    fn a_release_has_at_most_one_target() {
        let target = |query: &str| {
            let params = ReleaseParams::from_query(query)?;
            release_target(params.attempt, params.token)
        };
        assert_eq!(target("session=me"), Ok(ReleaseTarget::AnyEntry));
        assert_eq!(target("session=me&attempt=2"), Ok(ReleaseTarget::Attempt(Attempt(2))));
        assert_eq!(target("session=me&token=7"), Ok(ReleaseTarget::Hold(FencingToken(7))));
        assert_eq!(target("").unwrap_err().parameter.as_deref(), Some("session"));
        for query in [
            "session=me&token=1&attempt=2",
            "session=me&token=0",
            "session=me&attempt=9223372036854775808",
            "session=me&permits=1",
            "session=me&to=you",
            "session=me&force",
        ] {
            assert_eq!(target(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
