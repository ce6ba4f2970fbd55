//! `POST /v1/auth/bootstrap` and `POST /v1/auth/recover`: add an administrator for the owner of a node's data directory.
//!
//! The caller is on the node's machine, or has a certificate of the cluster's CA. It proves that it owns the data directory
//! by the content of a file that it wrote there.

use holdfast_api::parameters::auth::{ADMINISTRATOR, FIRST_MODE};
use holdfast_api::{
    CallParams as _, ErrorCode, FirstAdministratorBody, IssuedTokenBody, Param, Problem, Schemas,
    params,
};
use holdfast_service::Response;
use holdfast_types::{AuthMode, SubjectName};

use super::tokens::{issued, issued_body, secret_reply};
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::identity::Peer;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes;
use crate::status::HttpError;

/// Proves that the caller owns the data directory of the node.
const PROOF: Param = Param::bounded_text(
    "proof",
    128,
    "The content of the file owner-proof in the node's data directory, which the caller has written",
)
.needed("0000000000000000000000000000000000000000000000000000000000000000")
.hint("run 'holdfast auth bootstrap' or 'holdfast auth recover' on the machine of the node");

pub(crate) static BOOTSTRAP: Operation = Operation {
    summary: "Add the first administrator, and set the mode of the authorization",
    description: "For 'holdfast auth bootstrap', which the owner of the data directory runs on the machine of the node. Only once in \
        the life of a cluster. The node compares the proof with the file, and deletes the file. The response has an access \
        token that may do everything. The mode on refuses calls without a credential, also the renewals of open sessions; \
        PATCH /v1/auth?mode=shadow goes back.",
    params: BootstrapParams::LIST,
    example: Example {
        query: "mode=shadow&proof=0000000000000000000000000000000000000000000000000000000000000000",
        body: "",
    },
    answers: || {
        let about = "The administrator's access token";
        ResponseSpec::created(about, Schemas::of::<FirstAdministratorBody>)
    },
    errors: &[ErrorCode::HasAdministrator],
    late_copies: LateCopies::Bootstrap,
    ..Operation::change(
        "bootstrapAuth",
        Method::Post,
        &routes::BOOTSTRAP,
        CallAccess::OwnerProof,
        handler!(bootstrap),
    )
};

pub(crate) static RECOVER: Operation = Operation {
    summary: "Add an administrator after every access token was lost",
    description: "For 'holdfast auth recover', which the owner of the data directory runs on the machine of the node. The node \
        compares the proof with the file, and deletes the file.",
    params: RecoverParams::LIST,
    answers: || {
        let about = "The administrator's access token";
        ResponseSpec::created(about, Schemas::of::<IssuedTokenBody>)
    },
    late_copies: LateCopies::Proof,
    ..Operation::change(
        "recoverAuth",
        Method::Post,
        &routes::RECOVER,
        CallAccess::OwnerProof,
        handler!(recover),
    )
};

params! {
    struct BootstrapParams {
        proof: String = PROOF,
        subject: SubjectName = ADMINISTRATOR,
        mode: Option<AuthMode> = FIRST_MODE,
    }

    struct RecoverParams {
        proof: String = PROOF,
        subject: SubjectName = ADMINISTRATOR,
    }
}

async fn bootstrap(call: &mut CallContext<'_>) -> HandlerResult {
    let BootstrapParams { proof, subject, mode } = call.params()?;
    check_is_near(call)?;
    // After the first administrator the answer is the same for every caller.
    if !call.state.service.has_had_administrator() {
        check_owner(
            call,
            &proof,
            "run 'holdfast auth bootstrap --data-dir DIR' on the machine of the node",
        )?;
    }
    let added = call.service().add_first_administrator(subject, mode);
    let Response { value: added, revision, .. } = call.run(added).await?;
    let body = FirstAdministratorBody {
        issued: issued_body(added.issued),
        mode: added.mode.as_str().to_owned(),
        sessions_without_credential: added.sessions_without_credential,
    };
    Ok(secret_reply(&body, revision))
}

async fn recover(call: &mut CallContext<'_>) -> HandlerResult {
    let RecoverParams { proof, subject } = call.params()?;
    check_is_near(call)?;
    check_owner(
        call,
        &proof,
        "run 'holdfast auth recover --data-dir DIR' on the machine of the node",
    )?;
    let recovered = call.service().recover_administrator(subject);
    Ok(issued(call.run(recovered).await?))
}

/// Compares a proof with the file in the data directory, and deletes the file.
fn check_owner(call: &CallContext<'_>, proof: &str, hint: &'static str) -> Result<(), HttpError> {
    if call.state.service.takes_owner_proof(proof) {
        return Ok(());
    }
    let detail =
        "the proof is not the content of the file owner-proof in this node's data directory";
    Err(Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint)))
}

/// Rejects callers from other machines without a certificate of the cluster's CA.
fn check_is_near(call: &CallContext<'_>) -> Result<(), HttpError> {
    let peer = call.parts.extensions.get::<Peer>();
    if peer.is_some_and(|peer| peer.address.to_canonical().is_loopback() || peer.has_certificate())
    {
        return Ok(());
    }
    let detail = "the call comes from another machine, without a client certificate";
    let hint = "run it on the machine of a node";
    Err(Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint)))
}
