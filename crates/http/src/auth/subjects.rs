//! Subjects with their roles and certificates: `/v1/auth/subjects`, and one of them.

use axum::http::StatusCode;
use holdfast_api::parameters::auth::{CERTIFICATES, CLOSE_SESSIONS, ROLES};
use holdfast_api::{
    CallParams as _, ClosedSessionsBody, ErrorCode, Schemas, SubjectBody, SubjectsBody, params,
};
use holdfast_service::Response;
use holdfast_types::{AuthChange, CertificateName, RoleName, SessionId, SubjectName};

use crate::access::{AUTH_MANAGE, AUTH_READ};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{SUBJECT, SUBJECTS};

pub(crate) static LIST: Operation = Operation {
    summary: "List the subjects with their roles and certificates",
    answers: || ResponseSpec::ok("The subjects, by name", Schemas::of::<SubjectsBody>),
    ..Operation::read("listSubjects", &SUBJECTS, AUTH_READ, handler!(list))
};

pub(crate) static SET: Operation = Operation {
    summary: "Create a subject, or replace its roles and certificates",
    params: SetSubjectParams::LIST,
    body: BodyKind::LISTS,
    example: Example { query: "role=viewer&certificate=CN=ci,O=prod", body: "" },
    answers: || ResponseSpec::no_content("The subject is set"),
    errors: &[ErrorCode::NotFound, ErrorCode::QuotaExceeded, ErrorCode::LastAdministrator],
    ..Operation::change("setSubject", Method::Put, &SUBJECT, AUTH_MANAGE, handler!(set))
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
    ..Operation::change("deleteSubject", Method::Delete, &SUBJECT, AUTH_MANAGE, handler!(delete))
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
