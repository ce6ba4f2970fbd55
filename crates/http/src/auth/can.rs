//! `GET /v1/auth/can`: whether a subject has a permission, and why.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::{AS, ASKED_PERMISSION};
use holdfast_api::{CallParams as _, ErrorCode, ParamError, Schemas, VerdictBody, params};
use holdfast_service::{Response, Verdict};
use holdfast_types::{NamePattern, Permission, SubjectName};

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::CAN;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Ask whether the caller or another subject has a permission, and which role gives it",
    params: CanParams::LIST,
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The answer", Schemas::of::<VerdictBody>)],
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("canCall", &CAN, |call| can(call).boxed())
};

params! {
    struct CanParams {
        permission: Permission = ASKED_PERMISSION,
        subject: Option<SubjectName> = AS,
    }
}

async fn can(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let CanParams { permission, subject } = call.params()?;
    let name = asked_name(&permission)?;
    let verdict = call.service().verdict(subject, permission.right, &name);
    let Response { value: verdict, revision, .. } = call.run(verdict).await?;
    let Verdict { allowed_by, outside_of } = verdict;
    let allowed = allowed_by.is_some();
    let (role, by) = allowed_by.map(|(role, by)| (role, by.to_string())).unzip();
    let asked = permission.to_string();
    let body = VerdictBody { allowed, asked, role, permission: by, outside_of };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// The name in the question: a question has no pattern.
fn asked_name(asked: &Permission) -> Result<String, ParamError> {
    match &asked.pattern {
        NamePattern::Exact(name) => Ok(name.to_string()),
        NamePattern::All if !asked.right.has_names() => Ok(String::new()),
        NamePattern::All | NamePattern::Below(_) => {
            let detail = format!("'{asked}' has a pattern: a question needs one name");
            Err(ParamError::of("permission", ErrorCode::InvalidArgument, detail)
                .hint(format!("write a name, such as '{} orders/eu'", asked.right)))
        }
    }
}
