//! Authorization: its mode and the refused calls (`/v1/auth`), the caller's permissions (`/v1/auth/me`, `/v1/auth/can`), and the audit
//! trail (`/v1/audit`). The files below have the subjects, the access tokens, the quotas, and the first administrator.

pub(crate) mod administrator;
pub(crate) mod quotas;
pub(crate) mod subjects;
pub(crate) mod tokens;

use std::time::Duration;

use holdfast_api::parameters::auth::{
    AS, ASKED_PERMISSION, AUDIT_ACTION, AUDIT_AFTER, AUDIT_SUBJECT, AUDIT_TARGET, AUDIT_WAIT, MODE,
};
use holdfast_api::parameters::{LIMIT, STALE};
use holdfast_api::{
    AuditBody, AuditEvictedBody, AuditRecordBody, AuthBody, CallParams as _, CallerBody,
    ParamError, RefusalBody, Rfc3339Time, Schemas, TokenPolicyBody, VerdictBody, params,
};
use holdfast_service::{AuditPage, AuditQuery, AuthStatus, KnownCaller, RefusalCount, Verdict};
use holdfast_types::{
    AuditAction, AuthChange, AuthMode, Credential, NamePattern, Permission, Right, SubjectName,
    TokenPolicy,
};

use crate::access::{AUTH_MANAGE, AUTH_READ, CallAccess};
use crate::call::{CallContext, HandlerResult, ReadParams, read_mode};
use crate::operation::{Method, Operation, ResponseSpec, handler};
use crate::routes;

pub(crate) static READ: Operation = Operation {
    summary: "Read the mode of the authorization, and the latest refusals of this node",
    description: "In the mode shadow, the refusals are the calls that the mode on would refuse.",
    answers: || ResponseSpec::ok("The authorization", Schemas::of::<AuthBody>),
    ..Operation::read("readAuth", &routes::AUTH, AUTH_READ, handler!(read))
};

pub(crate) static SET_MODE: Operation = Operation {
    summary: "Set the mode of the authorization",
    params: SetModeParams::LIST,
    answers: || ResponseSpec::no_content("The mode is set"),
    ..Operation::change(
        "setAuthMode",
        Method::Patch,
        &routes::AUTH,
        AUTH_MANAGE,
        handler!(set_mode),
    )
};

params! {
    struct SetModeParams {
        mode: AuthMode = MODE,
    }
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().auth_status(), |status, _| status_body(status)).await
}

fn status_body(status: AuthStatus) -> AuthBody {
    let AuthStatus {
        mode,
        required_here,
        has_had_administrator,
        token_policy: TokenPolicy { default_ttl_ms, max_ttl_ms },
        sessions_without_credential,
        refusals,
    } = status;
    let refusal = |refusal: RefusalCount| {
        let RefusalCount { subject, why, count, last_at } = refusal;
        RefusalBody { subject, why, count, last_at: Rfc3339Time(last_at) }
    };
    AuthBody {
        mode: mode.as_str().to_owned(),
        required_here,
        has_had_administrator,
        token_policy: TokenPolicyBody { default_ttl_ms, max_ttl_ms },
        sessions_without_credential,
        refusals: refusals.into_iter().map(refusal).collect(),
    }
}

async fn set_mode(call: &mut CallContext<'_>) -> HandlerResult {
    let SetModeParams { mode } = call.params()?;
    call.no_content(call.service().change_auth(AuthChange::SetMode(mode))).await
}

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

pub(crate) static AUDIT_TRAIL: Operation = Operation {
    summary: "Read the audit trail: what operators and administrators have changed",
    description: "Every node has the same records. With wait, a call without a record waits for the next one. The cluster keeps the \
        newest 10,000 records of each class: administration, intervention, operation and policy.",
    params: AuditParams::LIST,
    answers: || ResponseSpec::ok("The records", Schemas::of::<AuditBody>),
    ..Operation::read(
        "readAuditTrail",
        &routes::AUDIT,
        CallAccess::Right(Right::AuditRead),
        handler!(read_audit),
    )
};

params! {
    struct AuditParams {
        after: u64 = AUDIT_AFTER,
        wait: Duration = AUDIT_WAIT,
        subject: Option<SubjectName> = AUDIT_SUBJECT,
        action: Option<AuditAction> = AUDIT_ACTION,
        target: Option<String> = AUDIT_TARGET,
        limit: usize = LIMIT,
        stale: bool = STALE,
    }
}

async fn read_audit(call: &mut CallContext<'_>) -> HandlerResult {
    let AuditParams { after, wait, subject, action, target, limit, stale } = call.params()?;
    call.log_fields.wait = wait;
    // The hash of a record is over the whole names.
    call.session_names = None;
    let query = AuditQuery { after, subject, action, target, limit };
    let page = call.service().audit(&query, wait, read_mode(stale));
    call.ok(page, |page, _| audit_body(page)).await
}

fn audit_body(page: AuditPage) -> AuditBody {
    let AuditPage { records, read_up_to, kept, evicted } = page;
    let (oldest, newest) = kept.unzip();
    let records = records.into_iter().map(AuditRecordBody::from).collect();
    let evicted = evicted.into_iter().map(AuditEvictedBody::from).collect();
    AuditBody { records, next_after: read_up_to, oldest, newest, evicted }
}
