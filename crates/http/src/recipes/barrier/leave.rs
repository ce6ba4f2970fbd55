//! `DELETE /v1/barriers/{name}`: leave a barrier.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::recipe::{MEMBER, MEMBER_OWNER, WAIT};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{BarrierKind, LeaveBarrier, Owner, SessionName};

use crate::call::CallContext;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::BARRIER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Leave a barrier",
    params: LeaveParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The member has left")],
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    ..Operation::write("leaveBarrier", Method::Delete, &BARRIER, |call| leave(call).boxed())
};

params! {
    pub(in crate::recipes) struct LeaveParams {
        session: SessionName = MEMBER,
        owner: Option<Owner> = MEMBER_OWNER,
        wait: Duration = WAIT,
        _redirect: bool = REDIRECT,
    }
}

async fn leave(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let name = call.recipe()?;
    let LeaveParams { session, owner, .. } = call.params()?;
    call.log_fields.session = Some(session.clone());
    let owner = owner.unwrap_or_else(Owner::unnamed);
    let leave = LeaveBarrier { barrier_kind: BarrierKind::Barrier, name, session, owner };
    let left = call.run(call.service().leave_barrier(leave, Duration::ZERO)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(left.revision))
}
