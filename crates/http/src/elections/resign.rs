//! `DELETE /v1/elections/{name}`: resign, or withdraw a candidacy.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::election::RESIGNED_SESSION;
use holdfast_api::parameters::{OWNER, REDIRECT, RELEASED_ATTEMPT, RELEASED_TOKEN};
use holdfast_api::{CallParams as _, params};
use holdfast_types::{Attempt, FencingToken, Owner, Release, SessionName};

use super::election;
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::locks::{RELEASE_ERRORS, owner_or_unnamed, release_target};
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ELECTION;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Resign the leadership, or withdraw a candidacy",
    description: "The next candidate leads in the same step. With token or attempt a late copy of the call changes nothing. \
        Without them the call ends the leadership or the candidacy that the owner has when the call arrives.",
    params: ResignParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The place is given up")],
    errors: RELEASE_ERRORS,
    ..Operation::write(
        "resign",
        Method::Delete,
        &ELECTION,
        LateCopies::Release,
        HeadAccess::Subject,
        BodyKind::SMALL,
        |call| resign(call).boxed(),
    )
};

params! {
    struct ResignParams as "a resignation" {
        session: SessionName = RESIGNED_SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
        token: Option<FencingToken> = RELEASED_TOKEN,
        _redirect: bool = REDIRECT,
    }
}

async fn resign(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (_, lock) = election(call)?;
    let ResignParams { session, owner, attempt, token, .. } = call.params()?;
    let target = release_target(attempt, token)?;
    call.log_fields.session = Some(session.clone());
    let release = Release { locks: lock.into(), session, owner: owner_or_unnamed(owner), target };
    let released = call.run(call.service().release(release)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(released.revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resignation_needs_a_session_and_has_at_most_one_target() {
        let read = |query: &str| {
            let params = ResignParams::from_query(query)?;
            release_target(params.attempt, params.token)
        };
        assert!(read("session=db1&owner=o&redirect&token=7").is_ok());
        assert_eq!(read("owner=o").unwrap_err().parameter.as_deref(), Some("session"));
        let error = read("session=db1&token=7&attempt=1").unwrap_err();
        assert_eq!(error.parameter.as_deref(), Some("token"));
    }
}
