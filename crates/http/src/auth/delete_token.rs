//! `DELETE /v1/auth/tokens/{id}`: delete an access token.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::auth::CLOSE_SESSIONS;
use holdfast_api::{CallParams as _, ClosedSessionsBody, ErrorCode, Schemas, params};
use holdfast_types::{AuthChange, Right};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TOKEN;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete an access token: no later call with it is executed",
    description: "Waits and streams of its callers end within a second. Its sessions belong to the subject: they last until their TTL, \
        unless the call has sessions.",
    params: DeleteTokenParams::LIST,
    answers: || {
        let about = "The token does not exist any more";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<ClosedSessionsBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::LastAdministrator],
    ..Operation::write(
        "deleteToken",
        Method::Delete,
        &TOKEN,
        LateCopies::UniqueId,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| delete(call).boxed(),
    )
};

params! {
    struct DeleteTokenParams {
        sessions: bool = CLOSE_SESSIONS,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let token = call.access_token()?;
    let DeleteTokenParams { sessions, .. } = call.params()?;
    let subject = call.service().subject_of_token(token);
    let deleted = call.run(call.service().change_auth(AuthChange::DeleteToken { token })).await?;
    let closed_sessions = match subject {
        Some(subject) if sessions => {
            let closed = call.service().close_sessions_of(&subject).await;
            closed.map_err(|failure| call.error(failure))?
        }
        Some(_) | None => 0,
    };
    let body = ClosedSessionsBody { closed_sessions };
    Ok(Reply::json(StatusCode::OK, &body).at(deleted.revision))
}
