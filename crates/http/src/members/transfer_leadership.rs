//! `POST /v1/cluster/transfer`: transfer leadership to another voter.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::member::TO;
use holdfast_api::{CallParams as _, ErrorCode, Schemas, TransferredLeadershipBody, params};
use holdfast_service::Response;
use holdfast_types::{NodeId, Right};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TRANSFER_LEADERSHIP;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Transfer leadership to another voter",
    description: "The next leader has every entry of the log. Calls wait for the short time without a leader. On a cluster of one node, \
        nothing changes.",
    params: TransferLeadershipParams::LIST,
    answers: || {
        let about = "The leader after the transfer";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<TransferredLeadershipBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::MembershipUnsafe],
    ..Operation::write(
        "transferLeadership",
        Method::Post,
        &TRANSFER_LEADERSHIP,
        LateCopies::NoStateChange,
        HeadAccess::AnyOf(&[Right::ClusterManage]),
        BodyKind::SMALL,
        |call| transfer(call).boxed(),
    )
};

params! {
    struct TransferLeadershipParams {
        to: Option<NodeId> = TO,
        _redirect: bool = REDIRECT,
    }
}

async fn transfer(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let TransferLeadershipParams { to, .. } = call.params()?;
    let Response { value: leader, revision, .. } =
        call.run(call.service().transfer_leadership(to)).await?;
    Ok(Reply::json(StatusCode::OK, &TransferredLeadershipBody { leader }).at(revision))
}
