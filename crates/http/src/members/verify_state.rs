//! `POST /v1/cluster/verify`: compare the states of all members.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::{
    CallParams as _, ErrorCode, Schemas, StateVerificationBody, VerifiedMemberBody, VerifiedState,
    params,
};
use holdfast_service::{Response, StateVerification};
use holdfast_types::Right;

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::VERIFY_STATE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Compare the whole states of all members",
    description: "Every member hashes its state after the same entry of the log, in the background. The response waits for the slowest \
        member, at most half a minute. A member whose state differs from the majority's should be replaced.",
    params: VerifyStateParams::LIST,
    answers: || {
        let about = "The digest of each member";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<StateVerificationBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::LevelTooLow],
    ..Operation::write(
        "verifyState",
        Method::Post,
        &VERIFY_STATE,
        LateCopies::NoStateChange,
        HeadAccess::AnyOf(&[Right::ClusterOperate]),
        BodyKind::SMALL,
        |call| verify(call).boxed(),
    )
};

params! {
    struct VerifyStateParams {
        _redirect: bool = REDIRECT,
    }
}

async fn verify(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let VerifyStateParams { .. } = call.params()?;
    let Response { value, revision, .. } = call.run(call.service().verify_state()).await?;
    Ok(Reply::json(StatusCode::OK, &body(&value)).at(revision))
}

fn body(verification: &StateVerification) -> StateVerificationBody {
    let majority = verification.of_majority();
    let members = verification.digests.iter().map(|(id, digest)| VerifiedMemberBody {
        id: *id,
        digest: digest.map(|digest| format!("{digest:016x}")),
        state: match digest {
            Some(digest) if majority == Some(*digest) => VerifiedState::Same,
            Some(_) if majority.is_some() => VerifiedState::Different,
            Some(_) | None => VerifiedState::Unknown,
        },
    });
    StateVerificationBody {
        revision: verification.revision,
        same: verification.is_same(),
        members: members.collect(),
    }
}
