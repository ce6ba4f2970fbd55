//! Quotas of subjects (`/v1/auth/quotas`), and namespaces with theirs (`/v1/namespaces`).

use std::collections::BTreeMap;

use holdfast_api::parameters::{namespace, subject_quotas};
use holdfast_api::{
    CallParams as _, ErrorCode, NamespaceBody, NamespacesBody, Schemas, SubjectQuotasBody, params,
};
use holdfast_service::{NamespaceView, SubjectLimits};
use holdfast_types::{AuthChange, QuotaKind, Quotas, Right, SubjectName};

use crate::access::{AUTH_MANAGE, AUTH_READ, CallAccess};
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::{DEFAULT_QUOTAS, NAMESPACE, NAMESPACES, SUBJECT_QUOTAS};

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
        sessions: Option<u64> = subject_quotas::SESSIONS,
        queue_entries: Option<u64> = subject_quotas::QUEUE_ENTRIES,
        bytes: Option<u64> = subject_quotas::BYTES,
        streams: Option<u64> = subject_quotas::STREAMS,
        connections: Option<u64> = subject_quotas::CONNECTIONS,
        calls_per_second: Option<u64> = subject_quotas::CALLS_PER_SECOND,
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
fn named<const N: usize>(quotas: [(QuotaKind, Option<u64>); N]) -> Quotas {
    Quotas(quotas.into_iter().filter_map(|(quota, limit)| Some((quota, limit?))).collect())
}

/// Quotas or uses in a body.
fn by_name(values: BTreeMap<QuotaKind, u64>) -> BTreeMap<String, u64> {
    values.into_iter().map(|(quota, value)| (quota.to_string(), value)).collect()
}

pub(crate) static LIST_NAMESPACES: Operation = Operation {
    summary: "List the namespaces with their quotas and what they use",
    answers: || ResponseSpec::ok("The namespaces, by name", Schemas::of::<NamespacesBody>),
    ..Operation::read("listNamespaces", &NAMESPACES, AUTH_READ, handler!(list_namespaces))
};

pub(crate) static READ_NAMESPACE: Operation = Operation {
    summary: "Read a namespace with its quotas and what it uses",
    description: "A subject of the namespace needs no permission.",
    answers: || ResponseSpec::ok("The namespace", Schemas::of::<NamespaceBody>),
    errors: &[ErrorCode::NotFound],
    ..Operation::read(
        "readNamespace",
        &NAMESPACE,
        CallAccess::OwnOr(Right::AuthRead),
        handler!(read_namespace),
    )
};

pub(crate) static SET_NAMESPACE: Operation = Operation {
    summary: "Register a namespace, or replace its quotas",
    description: "From then on a subject of the namespace, such as team-a/deploy, uses only names of the namespace. A quota that the \
                  call does not name is unlimited. A quota below the present use rejects growth only.",
    params: SetNamespaceParams::LIST,
    example: Example { query: "locks=1000&sessions=100", body: "" },
    answers: || ResponseSpec::no_content("The namespace is set"),
    errors: &[ErrorCode::LastAdministrator, ErrorCode::QuotaExceeded],
    ..Operation::change(
        "setNamespace",
        Method::Put,
        &NAMESPACE,
        AUTH_MANAGE,
        handler!(set_namespace),
    )
};

pub(crate) static DELETE_NAMESPACE: Operation = Operation {
    summary: "Delete a namespace to which nothing belongs",
    description: "Its subjects would no longer be bound to it: delete them first, and its sessions, znodes and recipes.",
    answers: || ResponseSpec::no_content("The namespace does not exist any more"),
    errors: &[ErrorCode::NotFound, ErrorCode::NamespaceInUse],
    ..Operation::change(
        "deleteNamespace",
        Method::Delete,
        &NAMESPACE,
        AUTH_MANAGE,
        handler!(delete_namespace),
    )
};

params! {
    struct SetNamespaceParams {
        locks: Option<u64> = namespace::LOCKS,
        queue_entries: Option<u64> = namespace::QUEUE_ENTRIES,
        waiters_per_lock: Option<u64> = namespace::WAITERS_PER_LOCK,
        sessions: Option<u64> = namespace::SESSIONS,
        znodes: Option<u64> = namespace::ZNODES,
        bytes: Option<u64> = namespace::BYTES,
        recipes: Option<u64> = namespace::RECIPES,
        calls_per_second: Option<u64> = namespace::CALLS_PER_SECOND,
    }
}

async fn list_namespaces(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().namespaces(), |found, _| NamespacesBody {
        namespaces: found.into_iter().map(namespace_body).collect(),
    })
    .await
}

async fn read_namespace(call: &mut CallContext<'_>) -> HandlerResult {
    let namespace = call.namespace()?;
    call.ok(call.service().namespace(namespace), |found, _| namespace_body(found)).await
}

fn namespace_body(view: NamespaceView) -> NamespaceBody {
    let NamespaceView { namespace, quotas, used } = view;
    NamespaceBody { namespace, quotas: by_name(quotas.0), used: by_name(used) }
}

async fn set_namespace(call: &mut CallContext<'_>) -> HandlerResult {
    let namespace = call.namespace()?;
    let params: SetNamespaceParams = call.params()?;
    let quotas = named([
        (QuotaKind::Locks, params.locks),
        (QuotaKind::QueueEntries, params.queue_entries),
        (QuotaKind::WaitersPerLock, params.waiters_per_lock),
        (QuotaKind::Sessions, params.sessions),
        (QuotaKind::Znodes, params.znodes),
        (QuotaKind::Bytes, params.bytes),
        (QuotaKind::Recipes, params.recipes),
        (QuotaKind::CallsPerSecond, params.calls_per_second),
    ]);
    call.no_content(call.service().change_auth(AuthChange::SetNamespace { namespace, quotas }))
        .await
}

async fn delete_namespace(call: &mut CallContext<'_>) -> HandlerResult {
    let namespace = call.namespace()?;
    call.no_content(call.service().change_auth(AuthChange::DeleteNamespace { namespace })).await
}
