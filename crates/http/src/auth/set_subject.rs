//! `PUT /v1/auth/subjects/{subject}`: create or replace a subject.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::{CERTIFICATES, ROLES};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, CertificateName, RequestNumber, Right, RoleName, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SUBJECT;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Create a subject, or replace its roles and certificates",
    params: SetSubjectParams::LIST,
    example: Example { query: "role=viewer&certificate=CN=ci,O=prod", body: "" },
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The subject is set")],
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::QuotaExceeded,
        ErrorCode::LastAdministrator,
    ],
    ..Operation::write(
        "setSubject",
        Method::Put,
        &SUBJECT,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::LISTS,
        |call| set(call).boxed(),
    )
};

params! {
    struct SetSubjectParams {
        roles: Vec<RoleName> = ROLES,
        certificates: Vec<CertificateName> = CERTIFICATES,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let subject = call.subject()?;
    let SetSubjectParams { roles, certificates, .. } = call.params()?;
    let change = AuthChange::SetSubject { subject, roles, certificates };
    let changed = call.run(call.service().change_auth(change)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
