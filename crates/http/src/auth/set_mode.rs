//! `PATCH /v1/auth`: switch the authorization on or off.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::MODE;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, AuthMode, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::AUTH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Set the mode of the authorization",
    params: SetModeParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The mode is set")],
    errors: &[ErrorCode::Forbidden],
    ..Operation::write(
        "setAuthMode",
        Method::Patch,
        &AUTH,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| set_mode(call).boxed(),
    )
};

params! {
    struct SetModeParams {
        mode: AuthMode = MODE,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set_mode(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let SetModeParams { mode, .. } = call.params()?;
    let changed = call.run(call.service().change_auth(AuthChange::SetMode(mode))).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
