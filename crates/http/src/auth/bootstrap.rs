//! `POST /v1/auth/bootstrap`: add the first administrator.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::auth::{ADMINISTRATOR, FIRST_MODE};
use holdfast_api::{CallParams as _, ErrorCode, FirstAdministratorBody, Schemas, params};
use holdfast_service::Response;
use holdfast_types::{AuthMode, SubjectName};

use super::{PROOF, check_is_near, check_owner, issued_body, secret_reply};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::BOOTSTRAP;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
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
        vec![ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<FirstAdministratorBody>)]
    },
    errors: &[ErrorCode::HasAdministrator, ErrorCode::Forbidden],
    ..Operation::write(
        "bootstrapAuth",
        Method::Post,
        &BOOTSTRAP,
        LateCopies::Bootstrap,
        HeadAccess::Open,
        BodyKind::SMALL,
        |call| bootstrap(call).boxed(),
    )
};

params! {
    struct BootstrapParams {
        proof: String = PROOF,
        subject: SubjectName = ADMINISTRATOR,
        mode: Option<AuthMode> = FIRST_MODE,
        _redirect: bool = REDIRECT,
    }
}

async fn bootstrap(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let BootstrapParams { proof, subject, mode, .. } = call.params()?;
    check_is_near(call)?;
    // After the first administrator the answer is the same for every caller.
    if !call.state.service().has_had_administrator() {
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
