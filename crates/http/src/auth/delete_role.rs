//! `DELETE /v1/auth/roles/{role}`: delete a role.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ROLE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a role, and take it from its subjects",
    params: DeleteRoleParams::LIST,
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The role does not exist any more")]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound],
    ..Operation::write(
        "deleteRole",
        Method::Delete,
        &ROLE,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| delete(call).boxed(),
    )
};

params! {
    struct DeleteRoleParams {
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let role = call.role()?;
    let DeleteRoleParams { .. } = call.params()?;
    let changed = call.run(call.service().change_auth(AuthChange::DeleteRole { role })).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
