//! `GET` and `PUT /v1/auth/quotas` and `/v1/auth/quotas/{subject}`: the quotas of one subject, and those of all others.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::subject_quotas::{
    BYTES, CALLS_PER_SECOND, CONNECTIONS, QUEUE_ENTRIES, SESSIONS, STREAMS,
};
use holdfast_api::{CallParams as _, ErrorCode, Schemas, SubjectQuotasBody, params};
use holdfast_service::{Response, SubjectLimits};
use holdfast_types::{AuthChange, QuotaKind, Quotas, Right, SubjectName};

use crate::access::Access;
use crate::call::CallContext;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::{DEFAULT_QUOTAS, SUBJECT_QUOTAS};
use crate::status::HttpError;

pub(crate) static READ: Operation = Operation {
    summary: "Read the limits of a subject, and what it uses",
    description: "The subject itself needs no permission. The streams and connections are those of the node that answers.",
    answers,
    errors: &[ErrorCode::NotFound],
    ..Operation::read("readQuotas", &SUBJECT_QUOTAS, Access::OwnOr(Right::AuthRead), |call| {
        read_subject(call).boxed()
    })
};

pub(crate) static READ_DEFAULT: Operation = Operation {
    summary: "Read the limits of subjects without quotas of their own",
    answers,
    ..Operation::read(
        "readDefaultQuotas",
        &DEFAULT_QUOTAS,
        Access::Right(Right::AuthRead),
        |call| read(call, None).boxed(),
    )
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
        Access::Right(Right::AuthManage),
        |call| set_subject(call).boxed(),
    )
};

pub(crate) static SET_DEFAULT: Operation = Operation {
    summary: "Replace the quotas of subjects without quotas of their own",
    description: "A quota that the call does not name has the value that holdfast defines.",
    params: SetQuotasParams::LIST,
    example: Example { query: "sessions=1000", body: "" },
    answers: || ResponseSpec::no_content("The quotas are set"),
    errors: &[ErrorCode::LastAdministrator],
    ..Operation::change(
        "setDefaultQuotas",
        Method::Put,
        &DEFAULT_QUOTAS,
        Access::Right(Right::AuthManage),
        |call| set(call, None).boxed(),
    )
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

async fn read_subject(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let subject = call.subject()?;
    read(call, Some(subject)).await
}

async fn read(
    call: &mut CallContext<'_>,
    subject: Option<SubjectName>,
) -> Result<Reply, HttpError> {
    let found = call.run(call.service().subject_limits(subject)).await?;
    let Response { value: SubjectLimits { subject, limits, used }, revision, .. } = found;
    let by_name = |values: BTreeMap<QuotaKind, u64>| {
        values.into_iter().map(|(quota, value)| (quota.to_string(), value)).collect()
    };
    let body = SubjectQuotasBody { subject, quotas: by_name(limits), used: by_name(used) };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

async fn set_subject(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let subject = call.subject()?;
    set(call, Some(subject)).await
}

async fn set(call: &mut CallContext<'_>, subject: Option<SubjectName>) -> Result<Reply, HttpError> {
    let params: SetQuotasParams = call.params()?;
    let quotas = [
        (QuotaKind::Sessions, params.sessions),
        (QuotaKind::QueueEntries, params.queue_entries),
        (QuotaKind::Bytes, params.bytes),
        (QuotaKind::Streams, params.streams),
        (QuotaKind::Connections, params.connections),
        (QuotaKind::CallsPerSecond, params.calls_per_second),
    ];
    let set = quotas.into_iter().filter_map(|(quota, limit)| Some((quota, limit?)));
    let change = AuthChange::SetQuotas { subject, quotas: Quotas(set.collect()) };
    call.change(call.service().change_auth(change)).await
}
