//! `PUT /v1/latches/{name}`: create a latch.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::recipe::COUNT;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, LatchBody, Schemas, params};
use holdfast_service::{CreatedLatch, Response};
use holdfast_types::{RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LATCH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Create a latch",
    description: "The latch opens when it was counted down count times, and stays open.",
    params: MakeLatchParams::LIST,
    answers: || {
        let (created, existed) = ("The latch is created", "A latch with the same count exists");
        vec![
            ResponseSpec::json(StatusCode::CREATED, created, Schemas::of::<LatchBody>),
            ResponseSpec::json(StatusCode::OK, existed, Schemas::of::<LatchBody>),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::CountMismatch],
    ..Operation::write(
        "createLatch",
        Method::Put,
        &LATCH,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::SMALL,
        |call| make(call).boxed(),
    )
};

params! {
    struct MakeLatchParams {
        count: u32 = COUNT,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn make(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe()?;
    let MakeLatchParams { count, .. } = call.params()?;
    let response = call.run(call.service().create_latch(latch.clone(), count)).await?;
    let Response { value: CreatedLatch { view, created }, revision, .. } = response;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &LatchBody::new(latch, view, revision)).at(revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_required_and_bounded() {
        for query in ["", "count=0", "count=10001", "count=x", "count=-1"] {
            let error = MakeLatchParams::from_query(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some("count"), "{query}");
        }
    }
}
