//! `GET /v1/auth/denied-certificates`, and `PUT` and `DELETE` of one: the certificates that no port accepts.

use holdfast_api::parameters::auth::DENY_REASON;
use holdfast_api::{
    CallParams as _, DeniedCertificateBody, DeniedCertificatesBody, ErrorCode, Rfc3339Time,
    Schemas, params,
};
use holdfast_types::{AuthChange, Reason};

use crate::access::{AUTH_MANAGE, AUTH_READ};
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Method, Operation, ResponseSpec, handler};
use crate::routes::{DENIED_CERTIFICATE, DENIED_CERTIFICATES};

pub(crate) static LIST: Operation = Operation {
    summary: "List the denied certificates",
    answers: || {
        let about = "The denied certificates";
        ResponseSpec::ok(about, Schemas::of::<DeniedCertificatesBody>)
    },
    ..Operation::read("listDeniedCertificates", &DENIED_CERTIFICATES, AUTH_READ, handler!(list))
};

pub(crate) static DENY: Operation = Operation {
    summary: "Deny a certificate on the ports for HTTP, ZooKeeper and other nodes",
    description: "Every node ends the connections of the certificate, and accepts no new one. A serial number denies the \
        certificates of every CA that has used it.",
    params: DenyParams::LIST,
    answers: || ResponseSpec::no_content("The certificate is denied"),
    errors: &[ErrorCode::QuotaExceeded],
    ..Operation::change(
        "denyCertificate",
        Method::Put,
        &DENIED_CERTIFICATE,
        AUTH_MANAGE,
        handler!(deny),
    )
};

pub(crate) static ALLOW: Operation = Operation {
    summary: "End the denial of a certificate",
    answers: || ResponseSpec::no_content("The certificate is not denied"),
    errors: &[ErrorCode::NotFound],
    ..Operation::change(
        "allowCertificate",
        Method::Delete,
        &DENIED_CERTIFICATE,
        AUTH_MANAGE,
        handler!(allow),
    )
};

params! {
    struct DenyParams {
        reason: Reason = DENY_REASON,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().certificate_denials(), |denials, _| {
        let certificates = denials.into_iter().map(|(certificate, denial)| DeniedCertificateBody {
            certificate: certificate.to_string(),
            reason: denial.reason.to_string(),
            denied_at: Rfc3339Time(denial.at),
        });
        DeniedCertificatesBody { certificates: certificates.collect() }
    })
    .await
}

async fn deny(call: &mut CallContext<'_>) -> HandlerResult {
    let certificate = call.certificate_id()?;
    let DenyParams { reason } = call.params()?;
    let change = AuthChange::DenyCertificate { certificate, reason };
    call.no_content(call.service().change_auth(change)).await
}

async fn allow(call: &mut CallContext<'_>) -> HandlerResult {
    let certificate = call.certificate_id()?;
    call.no_content(call.service().change_auth(AuthChange::AllowCertificate { certificate })).await
}
