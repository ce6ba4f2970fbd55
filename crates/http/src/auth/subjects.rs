//! Subjects with their roles and certificates (`/v1/auth/subjects`), the permissions of the roles (`/v1/auth/roles`), and the
//! certificates that no port accepts (`/v1/auth/denied-certificates`).

use axum::http::StatusCode;
use holdfast_api::parameters::auth::{
    CERTIFICATES, CLOSE_SESSIONS, DENY_REASON, PERMISSIONS, ROLES,
};
use holdfast_api::{
    CallParams as _, ClosedSessionsBody, DeniedCertificateBody, DeniedCertificatesBody, ErrorCode,
    Rfc3339Time, RoleBody, RolesBody, Schemas, SubjectBody, SubjectsBody, params,
};
use holdfast_service::Response;
use holdfast_types::{
    AuthChange, BUILT_IN_ROLES, CertificateName, Permission, Reason, RoleName, SessionId,
    SubjectName, built_in_role,
};

use crate::access::{AUTH_MANAGE, AUTH_READ};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes;

pub(crate) static LIST: Operation = Operation {
    summary: "List the subjects with their roles and certificates",
    answers: || ResponseSpec::ok("The subjects, by name", Schemas::of::<SubjectsBody>),
    ..Operation::read("listSubjects", &routes::SUBJECTS, AUTH_READ, handler!(list))
};

pub(crate) static SET: Operation = Operation {
    summary: "Create a subject, or replace its roles and certificates",
    params: SetSubjectParams::LIST,
    body: BodyKind::LISTS,
    example: Example { query: "role=viewer&certificate=CN=ci,O=prod", body: "" },
    answers: || ResponseSpec::no_content("The subject is set"),
    errors: &[ErrorCode::NotFound, ErrorCode::QuotaExceeded, ErrorCode::LastAdministrator],
    ..Operation::change("setSubject", Method::Put, &routes::SUBJECT, AUTH_MANAGE, handler!(set))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a subject with its access tokens",
    description: "Its sessions last until their TTL, unless the call has sessions.",
    params: DeleteSubjectParams::LIST,
    answers: || {
        let about = "The subject does not exist any more";
        ResponseSpec::ok(about, Schemas::of::<ClosedSessionsBody>)
    },
    errors: &[ErrorCode::NotFound, ErrorCode::LastAdministrator],
    ..Operation::change(
        "deleteSubject",
        Method::Delete,
        &routes::SUBJECT,
        AUTH_MANAGE,
        handler!(delete),
    )
};

params! {
    struct SetSubjectParams {
        roles: Vec<RoleName> = ROLES,
        certificates: Vec<CertificateName> = CERTIFICATES,
    }

    struct DeleteSubjectParams {
        sessions: bool = CLOSE_SESSIONS,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().subjects(), |subjects, _| {
        let subjects = subjects.into_iter().map(|(subject, known)| SubjectBody {
            subject,
            roles: known.roles,
            certificates: known.certificates,
        });
        SubjectsBody { subjects: subjects.collect() }
    })
    .await
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let subject = call.subject()?;
    let SetSubjectParams { roles, certificates } = call.params()?;
    let change = AuthChange::SetSubject { subject, roles, certificates };
    call.no_content(call.service().change_auth(change)).await
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let subject = call.subject()?;
    let DeleteSubjectParams { sessions } = call.params()?;
    let change = AuthChange::DeleteSubject { subject: subject.clone() };
    let deleted = call.run(call.service().change_auth(change)).await?;
    closed_sessions(call, sessions.then_some(subject), deleted, 0).await
}

/// Closes the sessions of a subject that were opened before a change, and returns their number with those closed before;
/// without a subject it closes none.
pub(super) async fn closed_sessions(
    call: &CallContext<'_>,
    subject: Option<SubjectName>,
    Response { value: newest, revision, .. }: Response<SessionId>,
    closed_before: u64,
) -> HandlerResult {
    let closed_sessions = closed_before
        + match subject {
            Some(subject) => {
                let closed = call.service().close_sessions_of(&subject, newest).await;
                closed.map_err(|failure| call.error(failure))?
            }
            None => 0,
        };
    Ok(Reply::json(StatusCode::OK, &ClosedSessionsBody { closed_sessions }).at(revision))
}

pub(crate) static LIST_ROLES: Operation = Operation {
    summary: "List the roles with their permissions",
    answers: || {
        let about = "The roles that holdfast defines, then the others by name";
        ResponseSpec::ok(about, Schemas::of::<RolesBody>)
    },
    ..Operation::read("listRoles", &routes::ROLES, AUTH_READ, handler!(list_roles))
};

pub(crate) static SET_ROLE: Operation = Operation {
    summary: "Create a role, or replace its permissions",
    description: "Permissions only allow: a call that no permission allows is refused. The role anonymous holds for every caller.",
    params: SetRoleParams::LIST,
    body: BodyKind::LISTS,
    example: Example {
        query: "",
        body: r#"{"permission":["lock acquire orders/*","tree read /cfg/*"]}"#,
    },
    answers: || ResponseSpec::no_content("The role is set"),
    errors: &[ErrorCode::QuotaExceeded],
    ..Operation::change("setRole", Method::Put, &routes::ROLE, AUTH_MANAGE, handler!(set_role))
};

pub(crate) static DELETE_ROLE: Operation = Operation {
    summary: "Delete a role, and take it from its subjects",
    answers: || ResponseSpec::no_content("The role does not exist any more"),
    errors: &[ErrorCode::NotFound],
    ..Operation::change(
        "deleteRole",
        Method::Delete,
        &routes::ROLE,
        AUTH_MANAGE,
        handler!(delete_role),
    )
};

params! {
    struct SetRoleParams {
        permissions: Vec<Permission> = PERMISSIONS,
    }
}

async fn list_roles(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().roles(), |roles, _| {
        let created = roles.into_iter().map(|(role, permissions)| RoleBody {
            role,
            permissions: permissions.iter().map(Permission::to_string).collect(),
            built_in: false,
        });
        RolesBody { roles: built_in().chain(created).collect() }
    })
    .await
}

fn built_in() -> impl Iterator<Item = RoleBody> {
    BUILT_IN_ROLES.into_iter().filter_map(|role| {
        let rights = built_in_role(role)?.iter();
        Some(RoleBody {
            role: RoleName::new(role).ok()?,
            permissions: rights.map(|right| Permission::on_all_names(*right).to_string()).collect(),
            built_in: true,
        })
    })
}

async fn set_role(call: &mut CallContext<'_>) -> HandlerResult {
    let role = call.role()?;
    let SetRoleParams { permissions } = call.params()?;
    call.no_content(call.service().change_auth(AuthChange::SetRole { role, permissions })).await
}

async fn delete_role(call: &mut CallContext<'_>) -> HandlerResult {
    let role = call.role()?;
    call.no_content(call.service().change_auth(AuthChange::DeleteRole { role })).await
}

pub(crate) static LIST_DENIED: Operation = Operation {
    summary: "List the denied certificates",
    answers: || {
        let about = "The denied certificates";
        ResponseSpec::ok(about, Schemas::of::<DeniedCertificatesBody>)
    },
    ..Operation::read(
        "listDeniedCertificates",
        &routes::DENIED_CERTIFICATES,
        AUTH_READ,
        handler!(list_denied),
    )
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
        &routes::DENIED_CERTIFICATE,
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
        &routes::DENIED_CERTIFICATE,
        AUTH_MANAGE,
        handler!(allow),
    )
};

params! {
    struct DenyParams {
        reason: Reason = DENY_REASON,
    }
}

async fn list_denied(call: &mut CallContext<'_>) -> HandlerResult {
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
