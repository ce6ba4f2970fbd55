//! Calls on subjects, roles and access tokens: one file for each noun. This file has the audit trail, `GET /v1/audit`.

pub(crate) mod administrator;
pub(crate) mod caller;
pub(crate) mod denied_certificates;
pub(crate) mod mode;
pub(crate) mod quotas;
pub(crate) mod roles;
pub(crate) mod subjects;
pub(crate) mod tokens;

use std::time::Duration;

use holdfast_api::parameters::auth::{
    AUDIT_ACTION, AUDIT_AFTER, AUDIT_SUBJECT, AUDIT_TARGET, AUDIT_WAIT,
};
use holdfast_api::parameters::{LIMIT, STALE};
use holdfast_api::{
    AuditBody, AuditEvictedBody, AuditRecordBody, CallParams as _, Schemas, params,
};
use holdfast_service::{AuditPage, AuditQuery};
use holdfast_types::{AuditAction, Right, SubjectName};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Operation, ResponseSpec, handler};
use crate::routes::AUDIT;

pub(crate) static AUDIT_TRAIL: Operation = Operation {
    summary: "Read the audit trail: what operators and administrators have changed",
    description: "Every node has the same records. With wait, a call without a record waits for the next one. The cluster keeps the \
        newest 10,000 records of each class: administration, intervention, operation and policy.",
    params: AuditParams::LIST,
    answers: || ResponseSpec::ok("The records", Schemas::of::<AuditBody>),
    ..Operation::read("readAuditTrail", &AUDIT, CallAccess::Right(Right::AuditRead), handler!(read))
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

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let AuditParams { after, wait, subject, action, target, limit, stale } = call.params()?;
    call.log_fields.wait = wait;
    let query = AuditQuery { after, subject, action, target, limit };
    let page = call.service().audit(&query, wait, read_mode(stale));
    call.ok(page, |page, _| page_body(page)).await
}

fn page_body(page: AuditPage) -> AuditBody {
    let AuditPage { records, read_up_to, kept, evicted } = page;
    let (oldest, newest) = kept.unzip();
    let records = records.into_iter().map(AuditRecordBody::from).collect();
    let evicted = evicted.into_iter().map(AuditEvictedBody::from).collect();
    AuditBody { records, next_after: read_up_to, oldest, newest, evicted }
}
