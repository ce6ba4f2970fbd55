//! `DELETE /v1/auth/subjects/{subject}`: delete a subject with its access tokens.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::CLOSE_SESSIONS;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ClosedSessionsBody, ErrorCode, Schemas, params};
use holdfast_types::{AuthChange, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SUBJECT;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a subject with its access tokens",
    description: "Its sessions last until their TTL, unless the call has sessions.",
    params: DeleteSubjectParams::LIST,
    answers: || {
        let about = "The subject does not exist any more";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<ClosedSessionsBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::LastAdministrator],
    ..Operation::write(
        "deleteSubject",
        Method::Delete,
        &SUBJECT,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| delete(call).boxed(),
    )
};

params! {
    struct DeleteSubjectParams {
        sessions: bool = CLOSE_SESSIONS,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let subject = call.subject()?;
    let DeleteSubjectParams { sessions, .. } = call.params()?;
    let change = AuthChange::DeleteSubject { subject: subject.clone() };
    let deleted = call.run(call.service().change_auth(change)).await?;
    let closed_sessions = if sessions {
        let closed = call.service().close_sessions_of(&subject).await;
        closed.map_err(|failure| call.error(failure))?
    } else {
        0
    };
    let body = ClosedSessionsBody { closed_sessions };
    Ok(Reply::json(StatusCode::OK, &body).at(deleted.revision))
}
