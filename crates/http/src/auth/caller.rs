//! `GET /v1/auth/me` and `GET /v1/auth/can`: who the caller is, and whether a subject has a permission.

use holdfast_api::parameters::auth::{AS, ASKED_PERMISSION};
use holdfast_api::{
    CallParams as _, CallerBody, ParamError, Rfc3339Time, Schemas, VerdictBody, params,
};
use holdfast_service::{KnownCaller, Verdict};
use holdfast_types::{Credential, NamePattern, Permission, SubjectName};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, ReadParams, read_mode};
use crate::operation::{Operation, ResponseSpec, handler};
use crate::routes;

pub(crate) static ME: Operation = Operation {
    summary: "Read who the caller is, with its roles",
    description: "Every caller may ask. The roles are those of the subject; every caller also has the role anonymous.",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The caller", Schemas::of::<CallerBody>),
    ..Operation::read("readCaller", &routes::ME, CallAccess::Anyone, handler!(me))
};

pub(crate) static CAN: Operation = Operation {
    summary: "Ask whether the caller or another subject has a permission, and which role gives it",
    params: CanParams::LIST,
    answers: || ResponseSpec::ok("The answer", Schemas::of::<VerdictBody>),
    ..Operation::read("canCall", &routes::CAN, CallAccess::Anyone, handler!(can))
};

params! {
    struct CanParams {
        permission: Permission = ASKED_PERMISSION,
        subject: Option<SubjectName> = AS,
    }
}

async fn me(call: &mut CallContext<'_>) -> HandlerResult {
    let ReadParams { stale } = call.params()?;
    call.ok(call.service().known_caller(read_mode(stale)), |known, _| caller_body(known)).await
}

fn caller_body(known: KnownCaller) -> CallerBody {
    let KnownCaller { actor, subject, roles, namespace, expires_at, mode } = known;
    let credential = Credential::of(&actor);
    let (token, expires_at) = (credential.token(), expires_at.map(Rfc3339Time));
    let credential = credential.as_str().to_owned();
    let mode = mode.as_str().to_owned();
    CallerBody { subject, credential, token, expires_at, roles, namespace, mode }
}

async fn can(call: &mut CallContext<'_>) -> HandlerResult {
    let CanParams { permission, subject } = call.params()?;
    let name = asked_name(&permission)?;
    let verdict = call.service().verdict(subject, permission.right, &name);
    let body = |Verdict { allowed_by, outside_of }, _| {
        let allowed = allowed_by.is_some();
        let (role, by) = allowed_by.map(|(role, by)| (role, by.to_string())).unzip();
        VerdictBody { allowed, asked: permission.to_string(), role, permission: by, outside_of }
    };
    call.ok(verdict, body).await
}

/// The name in the question: a question has no pattern.
fn asked_name(asked: &Permission) -> Result<String, ParamError> {
    match &asked.pattern {
        NamePattern::Exact(name) => Ok(name.to_string()),
        NamePattern::All if !asked.right.has_names() => Ok(String::new()),
        NamePattern::All | NamePattern::Below(_) => {
            let detail = format!("'{asked}' has a pattern: a question needs one name");
            Err(ParamError::invalid("permission", detail)
                .hint(format!("write a name, such as '{} orders/eu'", asked.right)))
        }
    }
}
