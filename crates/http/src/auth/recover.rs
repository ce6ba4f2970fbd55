//! `POST /v1/auth/recover`: add an administrator for the owner of a node's data directory.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::auth::ADMINISTRATOR;
use holdfast_api::{CallParams as _, ErrorCode, IssuedTokenBody, Schemas, params};
use holdfast_types::SubjectName;

use super::{PROOF, check_is_near, check_owner, issued};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::RECOVER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Add an administrator after every access token was lost",
    description: "For 'holdfast auth recover', which the owner of the data directory runs on the machine of the node. The node \
        compares the proof with the file, and deletes the file.",
    params: RecoverParams::LIST,
    answers: || {
        let about = "The administrator's access token";
        vec![ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<IssuedTokenBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::write(
        "recoverAuth",
        Method::Post,
        &RECOVER,
        LateCopies::Proof,
        HeadAccess::Open,
        BodyKind::SMALL,
        |call| recover(call).boxed(),
    )
};

params! {
    struct RecoverParams {
        proof: String = PROOF,
        subject: SubjectName = ADMINISTRATOR,
        _redirect: bool = REDIRECT,
    }
}

async fn recover(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let RecoverParams { proof, subject, .. } = call.params()?;
    check_is_near(call)?;
    check_owner(
        call,
        &proof,
        "run 'holdfast auth recover --data-dir DIR' on the machine of the node",
    )?;
    let recovered = call.service().recover_administrator(subject);
    Ok(issued(call.run(recovered).await?))
}
