//! The seal of the cluster: `PUT` and `DELETE /v1/cluster/seal`. A sealed cluster rejects all changes.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::member::{REASON, SEAL_REVISION};
use holdfast_api::{CallParams as _, ErrorCode, Rfc3339Time, Schemas, SealBody, params};
use holdfast_service::Response;
use holdfast_types::{Reason, Revision, Right, Seal};

use crate::access::Access;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SEAL;
use crate::status::HttpError;

pub(crate) static SEAL_CLUSTER: Operation = Operation {
    summary: "Seal the cluster, to move it to other machines",
    description: "A sealed cluster rejects all changes with the error sealed and the reason. Reads, watches, backups and keepalives work. Held locks \
        stay held, and nothing expires. A sealed cluster keeps its first seal.",
    params: SealParams::LIST,
    answers: || ResponseSpec::ok("The seal", Schemas::of::<SealBody>),
    errors: &[ErrorCode::BadName, ErrorCode::Forbidden, ErrorCode::LevelTooLow],
    ..Operation::change(
        "sealCluster",
        Method::Put,
        &SEAL,
        Access::Right(Right::ClusterManage),
        |call| seal(call).boxed(),
    )
};

pub(crate) static UNSEAL_CLUSTER: Operation = Operation {
    summary: "End the seal of the cluster",
    description: "Changes are accepted again. Every session has as much time left as when the cluster was sealed, or more. Never \
        unseal a cluster whose sessions were restored elsewhere: both would grant the same locks.",
    params: UnsealParams::LIST,
    late_copies: LateCopies::Seal,
    answers: || ResponseSpec::no_content("The cluster is not sealed"),
    errors: &[ErrorCode::LevelTooLow, ErrorCode::VersionMismatch],
    ..Operation::change(
        "unsealCluster",
        Method::Delete,
        &SEAL,
        Access::Right(Right::ClusterManage),
        |call| unseal(call).boxed(),
    )
};

params! {
    struct SealParams {
        reason: Reason = REASON,
    }
}

params! {
    struct UnsealParams {
        seal: Revision = SEAL_REVISION,
    }
}

async fn seal(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let SealParams { reason } = call.params()?;
    let Response { value: seal, revision, .. } = call.run(call.service().seal(reason)).await?;
    Ok(Reply::json(StatusCode::OK, &seal_body(seal)).at(revision))
}

pub(crate) fn seal_body(seal: Seal) -> SealBody {
    let Seal { revision, since, by, reason } = seal;
    SealBody { revision, since: Rfc3339Time(since), by, reason }
}

async fn unseal(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let UnsealParams { seal } = call.params()?;
    call.change(call.service().unseal(seal)).await
}
