//! `GET /v1/auth/denied-certificates`, and `PUT` and `DELETE` of one: the certificates that no port accepts.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::DENY_REASON;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{
    CallParams as _, DeniedCertificateBody, DeniedCertificatesBody, ErrorCode, Rfc3339Time,
    Schemas, params,
};
use holdfast_service::Response;
use holdfast_types::{AuthChange, Reason, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::{DENIED_CERTIFICATE, DENIED_CERTIFICATES};
use crate::status::HttpError;

pub(crate) static LIST: Operation = Operation {
    summary: "List the denied certificates",
    answers: || {
        let about = "The denied certificates";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<DeniedCertificatesBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("listDeniedCertificates", &DENIED_CERTIFICATES, |call| list(call).boxed())
};

pub(crate) static DENY: Operation = Operation {
    summary: "Deny a certificate on the ports for HTTP, ZooKeeper and other nodes",
    description: "Every node ends the connections of the certificate, and accepts no new one. A serial number denies the \
        certificates of every CA that has used it.",
    params: DenyParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The certificate is denied")],
    errors: &[ErrorCode::Forbidden, ErrorCode::QuotaExceeded],
    ..Operation::write(
        "denyCertificate",
        Method::Put,
        &DENIED_CERTIFICATE,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| deny(call).boxed(),
    )
};

pub(crate) static ALLOW: Operation = Operation {
    summary: "End the denial of a certificate",
    params: AllowParams::LIST,
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The certificate is not denied")],
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound],
    ..Operation::write(
        "allowCertificate",
        Method::Delete,
        &DENIED_CERTIFICATE,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| allow(call).boxed(),
    )
};

params! {
    struct DenyParams {
        reason: Reason = DENY_REASON,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

params! {
    struct AllowParams {
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let denials = call.run(call.service().certificate_denials()).await?;
    let Response { value: denials, revision, .. } = denials;
    let certificates = denials.into_iter().map(|(certificate, denial)| DeniedCertificateBody {
        certificate: certificate.to_string(),
        reason: denial.reason.to_string(),
        denied_at: Rfc3339Time(denial.at),
    });
    let body = DeniedCertificatesBody { certificates: certificates.collect() };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

async fn deny(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let certificate = call.certificate_id()?;
    let DenyParams { reason, .. } = call.params()?;
    change(call, AuthChange::DenyCertificate { certificate, reason }).await
}

async fn allow(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let certificate = call.certificate_id()?;
    let AllowParams { .. } = call.params()?;
    change(call, AuthChange::AllowCertificate { certificate }).await
}

async fn change(call: &mut CallContext<'_>, change: AuthChange) -> Result<Reply, HttpError> {
    let changed = call.run(call.service().change_auth(change)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
