//! `DELETE /v1/barriers/{name}`: leave a barrier.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::recipe::{GENERATION, LEFT_ARRIVAL, MEMBER, MEMBER_OWNER, WAIT};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{
    BarrierKind, LeaveBarrier, Owner, RecipeName, RequestNumber, Revision, Right, SessionName,
};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::BARRIER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Leave a barrier",
    params: LeaveParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The member has left")],
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    ..Operation::write(
        "leaveBarrier",
        Method::Delete,
        &BARRIER,
        LateCopies::Generation,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::SMALL,
        |call| leave(call).boxed(),
    )
};

params! {
    pub(in crate::recipes) struct LeaveParams {
        session: SessionName = MEMBER,
        owner: Option<Owner> = MEMBER_OWNER,
        generation: Option<Revision> = GENERATION,
        request: Option<RequestNumber> = LEFT_ARRIVAL,
        wait: Duration = WAIT,
        _redirect: bool = REDIRECT,
    }
}

impl LeaveParams {
    pub(in crate::recipes) fn command(
        self,
        barrier_kind: BarrierKind,
        name: RecipeName,
    ) -> LeaveBarrier {
        let Self { session, owner, generation, request, .. } = self;
        let owner = owner.unwrap_or_else(Owner::unnamed);
        LeaveBarrier { barrier_kind, name, session, owner, generation, request }
    }
}

async fn leave(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let name = call.recipe()?;
    let params: LeaveParams = call.params()?;
    call.log_fields.session = Some(params.session.clone());
    let leave = params.command(BarrierKind::Barrier, name);
    let left = call.run(call.service().leave_barrier(leave, Duration::ZERO)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(left.revision))
}
