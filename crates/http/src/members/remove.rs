//! `DELETE /v1/members/{id}`: remove a member, or cancel its invitation.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::member::{DRY_RUN, FORCE, REASON};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_service::ChangeMode;
use holdfast_types::{Reason, Right};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::MEMBER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Remove a member, or cancel its invitation",
    description: "A removed leader hands leadership over first. The removed node stops with exit code 71, and its id is never used \
        again. GET /v1/cluster shows the progress.",
    params: RemoveMemberParams::LIST,
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The removal is in the replicated state")]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::MembershipInProgress,
        ErrorCode::MembershipUnsafe,
    ],
    ..Operation::write(
        "removeMember",
        Method::Delete,
        &MEMBER,
        LateCopies::UniqueId,
        HeadAccess::AnyOf(&[Right::ClusterManage]),
        BodyKind::SMALL,
        |call| remove(call).boxed(),
    )
};

params! {
    struct RemoveMemberParams {
        reason: Reason = REASON,
        force: bool = FORCE,
        dry_run: bool = DRY_RUN,
        _redirect: bool = REDIRECT,
    }
}

async fn remove(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let node = call.member()?;
    let RemoveMemberParams { reason, force, dry_run, .. } = call.params()?;
    let mode = ChangeMode { force, dry_run };
    let changed = call.run(call.service().remove_member(node, reason, mode)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
