//! `GET /v1/auth/denied-certificates`, and `PUT` and `DELETE` of one: the certificates that no port accepts.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::DENY_REASON;
use holdfast_api::{
    CallParams as _, DeniedCertificateBody, DeniedCertificatesBody, ErrorCode, Rfc3339Time,
    Schemas, params,
};
use holdfast_service::Response;
use holdfast_types::{AuthChange, Reason, Right};

use crate::access::Access;
use crate::call::CallContext;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::{DENIED_CERTIFICATE, DENIED_CERTIFICATES};
use crate::status::HttpError;

const MANAGE: Access = Access::Right(Right::AuthManage);

pub(crate) static LIST: Operation = Operation {
    summary: "List the denied certificates",
    answers: || {
        let about = "The denied certificates";
        ResponseSpec::ok(about, Schemas::of::<DeniedCertificatesBody>)
    },
    ..Operation::read(
        "listDeniedCertificates",
        &DENIED_CERTIFICATES,
        Access::Right(Right::AuthRead),
        |call| list(call).boxed(),
    )
};

pub(crate) static DENY: Operation = Operation {
    summary: "Deny a certificate on the ports for HTTP, ZooKeeper and other nodes",
    description: "Every node ends the connections of the certificate, and accepts no new one. A serial number denies the \
        certificates of every CA that has used it.",
    params: DenyParams::LIST,
    answers: || ResponseSpec::no_content("The certificate is denied"),
    errors: &[ErrorCode::QuotaExceeded],
    ..Operation::change("denyCertificate", Method::Put, &DENIED_CERTIFICATE, MANAGE, |call| {
        deny(call).boxed()
    })
};

pub(crate) static ALLOW: Operation = Operation {
    summary: "End the denial of a certificate",
    answers: || ResponseSpec::no_content("The certificate is not denied"),
    errors: &[ErrorCode::NotFound],
    ..Operation::change("allowCertificate", Method::Delete, &DENIED_CERTIFICATE, MANAGE, |call| {
        allow(call).boxed()
    })
};

params! {
    struct DenyParams {
        reason: Reason = DENY_REASON,
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
    let DenyParams { reason } = call.params()?;
    let change = AuthChange::DenyCertificate { certificate, reason };
    call.change(call.service().change_auth(change)).await
}

async fn allow(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let certificate = call.certificate_id()?;
    call.change(call.service().change_auth(AuthChange::AllowCertificate { certificate })).await
}
