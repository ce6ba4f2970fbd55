//! `GET` and `PUT /v1/auth/quotas` and `/v1/auth/quotas/{subject}`: the quotas of one subject, and those of all others.

use std::collections::BTreeMap;

use holdfast_api::parameters::subject_quotas::{
    BYTES, CALLS_PER_SECOND, CONNECTIONS, QUEUE_ENTRIES, SESSIONS, STREAMS,
};
use holdfast_api::{CallParams as _, ErrorCode, Schemas, SubjectQuotasBody, params};
use holdfast_service::SubjectLimits;
use holdfast_types::{AuthChange, QuotaKind, Quotas, Right, SubjectName};

use crate::access::{AUTH_MANAGE, AUTH_READ, CallAccess};
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::{DEFAULT_QUOTAS, SUBJECT_QUOTAS};

pub(crate) static READ: Operation = Operation {
    summary: "Read the limits of a subject, and what it uses",
    description: "The subject itself needs no permission. The streams and connections are those of the node that answers.",
    answers,
    errors: &[ErrorCode::NotFound],
    ..Operation::read(
        "readQuotas",
        &SUBJECT_QUOTAS,
        CallAccess::OwnOr(Right::AuthRead),
        handler!(read_subject),
    )
};

pub(crate) static READ_DEFAULT: Operation = Operation {
    summary: "Read the limits of subjects without quotas of their own",
    answers,
    ..Operation::read("readDefaultQuotas", &DEFAULT_QUOTAS, AUTH_READ, |call| {
        Box::pin(read(call, None))
    })
};

pub(crate) static SET: Operation = Operation {
    summary: "Replace the quotas of a subject",
    description: "A quota that the call does not name has its default. A quota below the present use rejects growth only.",
    params: SetQuotasParams::LIST,
    example: Example { query: "sessions=100&connections=50", body: "" },
    answers: || ResponseSpec::no_content("The quotas are set"),
    errors: &[ErrorCode::NotFound, ErrorCode::LastAdministrator],
    ..Operation::change(
        "setQuotas",
        Method::Put,
        &SUBJECT_QUOTAS,
        AUTH_MANAGE,
        handler!(set_subject),
    )
};

pub(crate) static SET_DEFAULT: Operation = Operation {
    summary: "Replace the quotas of subjects without quotas of their own",
    description: "A quota that the call does not name has the value that holdfast defines.",
    params: SetQuotasParams::LIST,
    example: Example { query: "sessions=1000", body: "" },
    answers: || ResponseSpec::no_content("The quotas are set"),
    errors: &[ErrorCode::LastAdministrator],
    ..Operation::change("setDefaultQuotas", Method::Put, &DEFAULT_QUOTAS, AUTH_MANAGE, |call| {
        Box::pin(set(call, None))
    })
};

params! {
    struct SetQuotasParams {
        sessions: Option<u64> = SESSIONS,
        queue_entries: Option<u64> = QUEUE_ENTRIES,
        bytes: Option<u64> = BYTES,
        streams: Option<u64> = STREAMS,
        connections: Option<u64> = CONNECTIONS,
        calls_per_second: Option<u64> = CALLS_PER_SECOND,
    }
}

fn answers() -> Vec<ResponseSpec> {
    ResponseSpec::ok("The limits, and what is used", Schemas::of::<SubjectQuotasBody>)
}

async fn read_subject(call: &mut CallContext<'_>) -> HandlerResult {
    let subject = call.subject()?;
    read(call, Some(subject)).await
}

async fn read(call: &mut CallContext<'_>, subject: Option<SubjectName>) -> HandlerResult {
    let body = |SubjectLimits { subject, limits, used }, _| SubjectQuotasBody {
        subject,
        quotas: by_name(limits),
        used: by_name(used),
    };
    call.ok(call.service().subject_limits(subject), body).await
}

async fn set_subject(call: &mut CallContext<'_>) -> HandlerResult {
    let subject = call.subject()?;
    set(call, Some(subject)).await
}

async fn set(call: &mut CallContext<'_>, subject: Option<SubjectName>) -> HandlerResult {
    let params: SetQuotasParams = call.params()?;
    let quotas = named([
        (QuotaKind::Sessions, params.sessions),
        (QuotaKind::QueueEntries, params.queue_entries),
        (QuotaKind::Bytes, params.bytes),
        (QuotaKind::Streams, params.streams),
        (QuotaKind::Connections, params.connections),
        (QuotaKind::CallsPerSecond, params.calls_per_second),
    ]);
    call.no_content(call.service().change_auth(AuthChange::SetQuotas { subject, quotas })).await
}

/// The quotas that a call names.
pub(crate) fn named<const N: usize>(quotas: [(QuotaKind, Option<u64>); N]) -> Quotas {
    Quotas(quotas.into_iter().filter_map(|(quota, limit)| Some((quota, limit?))).collect())
}

/// Quotas or uses in a body.
pub(crate) fn by_name(values: BTreeMap<QuotaKind, u64>) -> BTreeMap<String, u64> {
    values.into_iter().map(|(quota, value)| (quota.to_string(), value)).collect()
}
