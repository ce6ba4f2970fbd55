//! `PUT /v1/auth/roles/{role}`: create or replace a role.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::PERMISSIONS;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, Permission, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ROLE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Create a role, or replace its permissions",
    description: "Permissions only allow: a call that no permission allows is refused. The role anonymous holds for every caller.",
    params: SetRoleParams::LIST,
    example: Example {
        query: "",
        body: r#"{"permission":["lock acquire orders/*","tree read /cfg/*"]}"#,
    },
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The role is set")],
    errors: &[ErrorCode::Forbidden, ErrorCode::QuotaExceeded, ErrorCode::LevelTooLow],
    ..Operation::write(
        "setRole",
        Method::Put,
        &ROLE,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::LISTS,
        |call| set(call).boxed(),
    )
};

params! {
    struct SetRoleParams {
        permissions: Vec<Permission> = PERMISSIONS,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let role = call.role()?;
    let SetRoleParams { permissions, .. } = call.params()?;
    let change = AuthChange::SetRole { role, permissions };
    let changed = call.run(call.service().change_auth(change)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
