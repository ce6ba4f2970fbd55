//! `PUT /v1/barriers/{name}`: arrive at a barrier and wait until it trips.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::recipe::{ARRIVAL, MEMBER, MEMBER_OWNER, PARTIES, WAIT};
use holdfast_api::parameters::{LABELS, REDIRECT, TTL};
use holdfast_api::{CallParams as _, ErrorCode, Schemas, TrippedBody, params};
use holdfast_service::Response;
use holdfast_types::{
    Arrive, BarrierKind, Labels, OpenSession, Owner, RequestNumber, Right, SessionName, Ttl, millis,
};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::idempotency;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::BARRIER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Arrive at a barrier and wait for the others",
    description: "The last arrival lets all members pass in one step. A member that leaves, or whose session or wait ends, \
        breaks the barrier for the members that wait.",
    params: ArriveParams::LIST,
    example: Example { query: "parties=1&session=me&wait=10s", body: "" },
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "All have arrived", Schemas::of::<TrippedBody>)]
    },
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
        ErrorCode::BarrierBroken,
    ],
    ..Operation::write(
        "arriveAtBarrier",
        Method::Put,
        &BARRIER,
        LateCopies::Arrival,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::LISTS,
        |call| arrive(call, BarrierKind::Barrier).boxed(),
    )
};

params! {
    pub(in crate::recipes) struct ArriveParams {
        parties: u32 = PARTIES,
        session: SessionName = MEMBER,
        owner: Option<Owner> = MEMBER_OWNER,
        request: Option<RequestNumber> = ARRIVAL,
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        _redirect: bool = REDIRECT,
        labels: Labels = LABELS,
    }
}

pub(in crate::recipes) async fn arrive(
    call: &mut CallContext<'_>,
    barrier_kind: BarrierKind,
) -> Result<Reply, HttpError> {
    let name = call.recipe()?;
    let params: ArriveParams = call.params()?;
    let ArriveParams { parties, session, owner, request, ttl, wait, labels, .. } = params;
    let request = idempotency::request_number(call, request)?;
    call.log_fields.session = Some(session.clone());
    call.log_fields.wait = wait;
    let wait_ms = (!wait.is_zero()).then(|| millis(wait));
    let arrive = Arrive {
        barrier_kind,
        name: name.clone(),
        parties,
        open: OpenSession { session, ttl, anonymous: false, labels, password: None, id: None },
        owner: owner.unwrap_or_else(Owner::unnamed),
        request,
        wait_ms,
    };
    let Response { value, revision, .. } = call.run(call.service().arrive(arrive)).await?;
    Ok(Reply::json(StatusCode::OK, &TrippedBody::new(name, &value)).at(revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_and_session_are_required() {
        for (query, parameter) in [
            ("session=s", "parties"),
            ("parties=1001&session=s", "parties"),
            ("parties=3", "session"),
        ] {
            let error = ArriveParams::from_query(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some(parameter), "{query}");
        }
    }
}
