//! The seal of the cluster: `PUT` and `DELETE /v1/cluster/seal`. A sealed cluster rejects all changes.

use holdfast_api::parameters::member::{REASON, SEAL_REVISION};
use holdfast_api::{CallParams as _, ErrorCode, Rfc3339Time, Schemas, SealBody, params};
use holdfast_types::{Reason, Revision, Right, Seal};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::routes::SEAL;

const MANAGE: CallAccess = CallAccess::Right(Right::ClusterManage);

pub(crate) static SEAL_CLUSTER: Operation = Operation {
    summary: "Seal the cluster, to move it to other machines",
    description: "A sealed cluster rejects all changes with the error sealed and the reason. Reads, watches, backups and keepalives work. Held locks \
        stay held, and nothing expires. A sealed cluster keeps its first seal.",
    params: SealParams::LIST,
    answers: || ResponseSpec::ok("The seal", Schemas::of::<SealBody>),
    errors: &[ErrorCode::BadName],
    ..Operation::change("sealCluster", Method::Put, &SEAL, MANAGE, |call| Box::pin(seal(call)))
};

pub(crate) static UNSEAL_CLUSTER: Operation = Operation {
    summary: "End the seal of the cluster",
    description: "Changes are accepted again. Every session has as much time left as when the cluster was sealed, or more. Never \
        unseal a cluster whose sessions were restored elsewhere: both would grant the same locks.",
    params: UnsealParams::LIST,
    late_copies: LateCopies::Seal,
    answers: || ResponseSpec::no_content("The cluster is not sealed"),
    errors: &[ErrorCode::VersionMismatch],
    ..Operation::change("unsealCluster", Method::Delete, &SEAL, MANAGE, |call| {
        Box::pin(unseal(call))
    })
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

async fn seal(call: &mut CallContext<'_>) -> HandlerResult {
    let SealParams { reason } = call.params()?;
    call.ok(call.service().seal(reason), |seal, _| seal_body(seal)).await
}

pub(crate) fn seal_body(seal: Seal) -> SealBody {
    let Seal { revision, since, by, reason } = seal;
    SealBody { revision, since: Rfc3339Time(since), by, reason }
}

async fn unseal(call: &mut CallContext<'_>) -> HandlerResult {
    let UnsealParams { seal } = call.params()?;
    call.no_content(call.service().unseal(seal)).await
}
